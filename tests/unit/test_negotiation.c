/* server/http/negotiation.c: which format an Accept header asks for, and what Content-Encoding and
 * Accept-Encoding say. */
#include <check.h>
#include <stddef.h>
#include <stdlib.h>

#include "server/http/negotiation.h"

static const struct {
    const char *accept;
    enum format own;
    bool taken;
    enum format expected;
} cases[] = {
    {NULL, FORMAT_NPY, true, FORMAT_NPY},
    {"", FORMAT_NPY, true, FORMAT_NPY},
    {"*/*", FORMAT_SAFETENSORS, true, FORMAT_SAFETENSORS},
    {"application/*", FORMAT_RAW, true, FORMAT_RAW},
    {"application/x-npy", FORMAT_RAW, true, FORMAT_NPY},
    {"Application/X-NPY", FORMAT_RAW, true, FORMAT_NPY},
    {"application/x-npy, */*", FORMAT_RAW, true, FORMAT_NPY},
    {"application/x-npy;q=0.1, */*;q=0.5", FORMAT_RAW, true, FORMAT_RAW},
    {"text/html, application/vnd.safetensors ; q=0.9", FORMAT_RAW, true, FORMAT_SAFETENSORS},
    {"application/octet-stream;q=0.2,application/x-npy;q=0.8", FORMAT_RAW, true, FORMAT_NPY},
    {"text/html", FORMAT_RAW, false, FORMAT_RAW},
    {"application/json", FORMAT_NPY, true, FORMAT_NPY},
    {"application/problem+json, text/html", FORMAT_RAW, true, FORMAT_RAW},
    {"Application/JSON, application/x-npy;q=0.1", FORMAT_RAW, true, FORMAT_NPY},
    {"application/json;q=0", FORMAT_RAW, false, FORMAT_RAW},
    {"application/json, */*;q=0", FORMAT_RAW, false, FORMAT_RAW},
    {"application/json, application/octet-stream;q=0", FORMAT_RAW, false, FORMAT_RAW},
    {"*/*;q=0", FORMAT_RAW, false, FORMAT_RAW},
    {"application/x-npy;q=0", FORMAT_NPY, false, FORMAT_NPY},
    {",,;;,", FORMAT_RAW, false, FORMAT_RAW},
    /* A weight lies between 0 and 1; one that is no number counts as 0. */
    {"application/octet-stream;q=9, application/x-npy", FORMAT_NPY, true, FORMAT_NPY},
    {"application/x-npy;q=-1", FORMAT_NPY, false, FORMAT_NPY},
    {"application/x-npy;q=nan", FORMAT_NPY, false, FORMAT_NPY},
};

START_TEST(negotiates)
{
    enum format format;
    bool taken = accept_format(cases[_i].accept, cases[_i].own, &format);
    ck_assert_msg(taken == cases[_i].taken, "'%s' taken: %d", cases[_i].accept, taken);
    if (taken)
        ck_assert_msg(format == cases[_i].expected, "'%s' gave format %d", cases[_i].accept,
                      (int)format);
}
END_TEST

START_TEST(survives_a_long_element)
{
    char accept[1000];
    enum format format;
    for (size_t i = 0; i < sizeof accept - 1; i++)
        accept[i] = 'a';
    accept[sizeof accept - 1] = '\0';
    ck_assert(!accept_format(accept, FORMAT_RAW, &format));
}
END_TEST

static const struct {
    const char *value;
    enum coding coding;
    uint32_t count;
    bool unknown;
} encodings[] = {
    {"gzip", CODING_GZIP, 1, false},
    {"GZip", CODING_GZIP, 1, false},
    {"x-gzip", CODING_GZIP, 1, false},
    {" deflate\t", CODING_DEFLATE, 1, false},
    {"identity", CODING_IDENTITY, 0, false},
    {"", CODING_IDENTITY, 0, false},
    {" , ,identity,", CODING_IDENTITY, 0, false},
    {"identity, gzip", CODING_GZIP, 1, false},
    {"gzip, deflate", CODING_DEFLATE, 2, false},
    {"gzip,gzip", CODING_GZIP, 2, false},
    {"br", CODING_IDENTITY, 1, true},
    {"gzi", CODING_IDENTITY, 1, true},
    {"gzipp", CODING_IDENTITY, 1, true},
    {"gzip deflate", CODING_IDENTITY, 1, true},
    {"gzip;q=1", CODING_IDENTITY, 1, true},
    {"zstd, gzip", CODING_GZIP, 2, true},
};

START_TEST(content_encodings_are_counted)
{
    struct coding_list list = {.count = 0};
    coding_read(&list, encodings[_i].value);
    ck_assert_int_eq(list.coding, encodings[_i].coding);
    ck_assert_uint_eq(list.count, encodings[_i].count);
    ck_assert_int_eq(list.unknown, encodings[_i].unknown);
}
END_TEST

START_TEST(headers_add_up)
{
    struct coding_list list = {.count = 0};
    coding_read(&list, "identity");
    coding_read(&list, "gzip");
    ck_assert_uint_eq(list.count, 1);
    coding_read(&list, "deflate");
    ck_assert_uint_eq(list.count, 2);
}
END_TEST

static const struct {
    const char *accept;
    enum coding coding;
} accepts[] = {
    {NULL, CODING_IDENTITY},
    {"", CODING_IDENTITY},
    {"gzip", CODING_GZIP},
    {"deflate", CODING_DEFLATE},
    {"gzip, deflate", CODING_GZIP},
    {"deflate, gzip", CODING_GZIP},
    {"gzip;q=0.5, deflate", CODING_DEFLATE},
    {"gzip; q=0.5, deflate;q=0.4", CODING_GZIP},
    {"gzip;q=0", CODING_IDENTITY},
    {"gzip;q=0, deflate;q=0", CODING_IDENTITY},
    {"gzip;q=0, *", CODING_DEFLATE},
    {"*", CODING_GZIP},
    {"*;q=0", CODING_IDENTITY},
    {"identity, gzip;q=0.5", CODING_IDENTITY},
    {"identity;q=0.5, gzip;q=0.5", CODING_GZIP},
    {"identity;q=0.5, gzip", CODING_GZIP},
    {"br, zstd", CODING_IDENTITY},
    {"br;q=1, gzip;q=0.1", CODING_GZIP},
    {"X-GZIP", CODING_GZIP},
    {",,;q=1,", CODING_IDENTITY},
};

START_TEST(the_best_that_is_accepted)
{
    ck_assert_int_eq(coding_accepted(accepts[_i].accept), accepts[_i].coding);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("negotiation");
    TCase *tcase = tcase_create("negotiation");
    tcase_add_loop_test(tcase, negotiates, 0, sizeof cases / sizeof *cases);
    tcase_add_test(tcase, survives_a_long_element);
    tcase_add_loop_test(tcase, content_encodings_are_counted, 0,
                        (int)(sizeof encodings / sizeof *encodings));
    tcase_add_test(tcase, headers_add_up);
    tcase_add_loop_test(tcase, the_best_that_is_accepted, 0,
                        (int)(sizeof accepts / sizeof *accepts));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
