/* server/observe/metrics_negotiate.c: text 0.0.4 or OpenMetrics by Accept. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "server/observe/metrics.h"

#define COUNT(array) (int)(sizeof(array) / sizeof((array)[0]))

static const struct {
    const char *accept;
    enum metrics_format format;
} cases[] = {
    {NULL, METRICS_TEXT},
    {"", METRICS_TEXT},
    {"*/*", METRICS_TEXT},
    {"text/html", METRICS_TEXT},
    {"text/plain", METRICS_TEXT},
    {"application/openmetrics-text", METRICS_OPENMETRICS},
    {"Application/OpenMetrics-Text; Version=1.0.0", METRICS_OPENMETRICS},
    {"application/openmetrics-text;version=\"1.0.0\"", METRICS_OPENMETRICS},
    {"application/openmetrics-text; version=0.0.1", METRICS_TEXT},
    {"application/openmetrics-text; version=2.0.0", METRICS_TEXT},
    {"application/openmetrics-text;q=0", METRICS_TEXT},
    {"application/openmetrics-text;q=0.5, text/plain;q=0.6", METRICS_TEXT},
    {"application/openmetrics-text;q=0.6, text/plain;q=0.5", METRICS_OPENMETRICS},
    {"text/plain, application/openmetrics-text", METRICS_OPENMETRICS},
    {"application/openmetrics-text;q=0.5, */*", METRICS_TEXT},
    {"application/openmetrics-text;q=0.5, */*;q=0.1", METRICS_OPENMETRICS},
    {"application/openmetrics-text;q=0.5, text/plain;q=0.1, */*", METRICS_OPENMETRICS},
    {"application/openmetrics-text;q=much", METRICS_TEXT},
    /* Prometheus 2.x */
    {"application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
     "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
     METRICS_OPENMETRICS},
    /* Prometheus 3.x */
    {"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
     "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;"
     "escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
     METRICS_OPENMETRICS},
    {"application/openmetrics-text;q=0.5, text/*", METRICS_TEXT},
    {"application/openmetrics-text;q=0.5, TEXT/*;q=0.1", METRICS_OPENMETRICS},
    {"application/openmetrics-text;q=0.5, image/*", METRICS_OPENMETRICS},
    {"application/openmetrics-text;version="
     "a-version-that-is-longer-than-any-version-of-the-format-that-there-will-ever-be-at-all-"
     "and-then-some-more-of-it-to-be-sure",
     METRICS_TEXT},
    {",;,=;,,", METRICS_TEXT},
    {";;;q", METRICS_TEXT},
};

START_TEST(negotiates)
{
    enum metrics_format format = metrics_negotiate(cases[_i].accept);
    ck_assert_msg(format == cases[_i].format, "'%s' gives %s", cases[_i].accept,
                  metrics_content_type(format));
}
END_TEST

START_TEST(survives_long_headers)
{
    char accept[5000];
    memset(accept, 'a', sizeof(accept));
    accept[sizeof(accept) - 1] = '\0';
    ck_assert_int_eq(metrics_negotiate(accept), METRICS_TEXT);
    memcpy(accept + 4000, ",application/openmetrics-text", 30);
    ck_assert_int_eq(metrics_negotiate(accept), METRICS_OPENMETRICS);
}
END_TEST

START_TEST(content_types_carry_the_version)
{
    ck_assert_ptr_nonnull(strstr(metrics_content_type(METRICS_TEXT), "version=0.0.4"));
    ck_assert_ptr_nonnull(strstr(metrics_content_type(METRICS_OPENMETRICS), "version=1.0.0"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("metrics_negotiate");
    TCase *tests = tcase_create("metrics_negotiate");
    tcase_add_loop_test(tests, negotiates, 0, COUNT(cases));
    tcase_add_test(tests, survives_long_headers);
    tcase_add_test(tests, content_types_carry_the_version);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
