/* server/http/accept.c: which format an Accept header asks for. */
#include <check.h>
#include <stdlib.h>

#include "server/http/accept.h"

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

int main(void)
{
    Suite *suite = suite_create("accept");
    TCase *tcase = tcase_create("accept");
    tcase_add_loop_test(tcase, negotiates, 0, sizeof cases / sizeof *cases);
    tcase_add_test(tcase, survives_a_long_element);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
