/* client/failure.c: what an answer that is an error means, and what the caller is told. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/failure.h"

static const struct {
    const char *body, *message, *field;
    enum gemmd_error code;
    int status;
} answers[] = {
    {"{\"type\":\"urn:gemmd:problem:queue-full\",\"detail\":\"full\"}", "full", "",
     GEMMD_ERR_QUEUE_FULL, 429},
    {"{\"type\":\"https://a.example/b#device-lost\",\"detail\":\"gone\",\"field\":\"x\"}", "gone",
     "x", GEMMD_ERR_DEVICE_LOST, 503},
    {"{\"type\":\"out-of-memory\",\"title\":\"No memory\"}", "No memory", "",
     GEMMD_ERR_OUT_OF_MEMORY, 503},
    /* A slug of a later version, no document, half a document, one of another kind. */
    {"{\"type\":\"x/not-yet-known\",\"detail\":\"d\"}", "d", "", GEMMD_ERR_UNSUPPORTED, 422},
    {"<html>", NULL, "", GEMMD_ERR_CONNECTION, 503},
    {"", NULL, "", GEMMD_ERR_CONNECTION, 502},
    {"{\"type\":\"deadl", NULL, "", GEMMD_ERR_DEADLINE, 504},
    {"[1,2]", NULL, "", GEMMD_ERR_TOO_LARGE, 413},
    {"{\"type\":\"\",\"title\":\"\"}", NULL, "", GEMMD_ERR_QUEUE_FULL, 429},
    {"{\"detail\":\"\",\"title\":\"Too many\"}", "Too many", "", GEMMD_ERR_QUEUE_FULL, 429},
    {"{\"type\":7,\"detail\":8,\"field\":9}", NULL, "", GEMMD_ERR_MALFORMED, 400},
    {"", NULL, "", GEMMD_ERR_MALFORMED, 418},
    {"", NULL, "", GEMMD_ERR_INTERNAL, 599},
    /* An error is never a success, whatever it calls itself. */
    {"{\"type\":\"x/ok\",\"detail\":\"d\"}", "d", "", GEMMD_ERR_INTERNAL, 500},
};

START_TEST(reads_an_answer)
{
    struct gemmd_error_info error;
    memset(&error, 0xff, sizeof error);
    ck_assert_int_eq(
        failure_from_answer(&error, answers[_i].status, answers[_i].body, strlen(answers[_i].body)),
        answers[_i].code);
    ck_assert_int_eq(error.code, answers[_i].code);
    ck_assert_int_eq(error.http_status, answers[_i].status);
    ck_assert_int_eq(error.retriable, error_retriable(answers[_i].code));
    ck_assert_str_eq(error.field, answers[_i].field);
    if (answers[_i].message != NULL)
        ck_assert_str_eq(error.message, answers[_i].message);
    else
        ck_assert_uint_gt(strlen(error.message), 10);
    ck_assert_int_eq(
        failure_from_answer(NULL, answers[_i].status, answers[_i].body, strlen(answers[_i].body)),
        answers[_i].code);
}
END_TEST

START_TEST(cuts_long_text)
{
    struct gemmd_error_info error;
    char body[2048], long_text[1000];
    memset(long_text, 'x', sizeof long_text);
    long_text[sizeof long_text - 1] = '\0';
    snprintf(body, sizeof body, "{\"type\":\"x/internal\",\"detail\":\"%s\",\"field\":\"%s\"}",
             long_text, long_text);
    failure_from_answer(&error, 500, body, strlen(body));
    ck_assert_uint_eq(strlen(error.message), sizeof error.message - 1);
    ck_assert_uint_eq(strlen(error.field), sizeof error.field - 1);
    ck_assert_int_eq(failure_set(&error, GEMMD_ERR_USAGE, NULL, "%s", long_text), GEMMD_ERR_USAGE);
    ck_assert_uint_eq(strlen(error.message), sizeof error.message - 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_failure");
    TCase *tcase = tcase_create("client_failure");
    tcase_add_loop_test(tcase, reads_an_answer, 0, sizeof answers / sizeof answers[0]);
    tcase_add_test(tcase, cuts_long_text);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
