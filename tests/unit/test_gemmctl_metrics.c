/* gemmctl's view of metrics: series by name and label, histograms, and texts for people. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/gemmctl/table.h"
#include "client/gemmctl/top_sample.h"
#include "client/gemmctl/units.h"

static const char text[] = "# HELP requests Requests.\n"
                           "# TYPE requests counter\n"
                           "requests{op=\"gemm\",code=\"200\"} 5\n"
                           "requests{op=\"gemm\",code=\"503\"} 2\n"
                           "requests{op=\"other\",code=\"200\"} 11\n"
                           "requests_waiting 3\n"
                           "seconds_bucket{op=\"a\",le=\"0.1\"} 10\n"
                           "seconds_bucket{op=\"a\",le=\"1.0\"} 30\n"
                           "seconds_bucket{op=\"a\",le=\"+Inf\"} 40\n"
                           "seconds_bucket{op=\"b\",le=\"0.1\"} 1\n"
                           "seconds_bucket{op=\"b\",le=\"1.0\"} 1\n"
                           "seconds_bucket{op=\"b\",le=\"+Inf\"} 1\n"
                           "last 7.5";

START_TEST(sums_the_series_of_a_label)
{
    ck_assert_double_eq(metrics_sum(text, "requests", NULL), 18);
    ck_assert_double_eq(metrics_sum(text, "requests", "op=\"gemm\""), 7);
    ck_assert_double_eq(metrics_sum(text, "requests", "code=\"5"), 2);
    ck_assert_double_eq(metrics_sum(text, "requests", "op=\"none\""), 0);
    ck_assert_double_eq(metrics_sum(text, "requests_waiting", NULL), 3);
    ck_assert_double_eq(metrics_sum(text, "last", NULL), 7.5);
    ck_assert_double_eq(metrics_sum(text, "request", NULL), 0);
    ck_assert_double_eq(metrics_sum("", "requests", NULL), 0);
    ck_assert(metrics_has(text, "last") && !metrics_has(text, "seconds"));
}
END_TEST

START_TEST(interpolates_quantiles)
{
    struct metrics_buckets none = {0}, one = {0}, both = {0};
    metrics_add_buckets(text, "seconds", "op=\"a\"", &one);
    metrics_add_buckets(text, "seconds", NULL, &both);
    ck_assert_uint_eq(one.length, 3);
    ck_assert_double_eq(both.count[0], 11);
    ck_assert_double_eq_tol(metrics_quantile(&none, &one, 0.25), 0.1, 1e-12);
    ck_assert_double_eq_tol(metrics_quantile(&none, &one, 0.5), 0.1 + 0.9 * 10 / 20, 1e-12);
    ck_assert_double_eq_tol(metrics_quantile(&none, &one, 0.125), 0.05, 1e-12);
    ck_assert_double_eq_tol(metrics_quantile(&none, &one, 0.99), 1, 1e-12);
    ck_assert_double_eq_tol(metrics_quantile(&one, &both, 0.5), 0.05, 1e-12);
    ck_assert_double_lt(metrics_quantile(&one, &one, 0.5), 0);
    ck_assert_double_lt(metrics_quantile(&none, &none, 0.5), 0);
}
END_TEST

/* A series without a bound is no bucket, and there is room for so many bounds. */
START_TEST(buckets_have_bounds)
{
    struct metrics_buckets buckets = {0};
    char many[8192];
    size_t length = 0;
    for (unsigned i = 0; i <= METRICS_BUCKETS_MAX; i++)
        length += (size_t)snprintf(many + length, sizeof many - length,
                                   "h_bucket{op=\"a\",le=\"%u\"} %u\n", i + 1, i + 1);
    metrics_add_buckets("h_bucket{op=\"a\"} 3\nh_bucket 4\n", "h", NULL, &buckets);
    ck_assert_uint_eq(buckets.length, 0);
    metrics_add_buckets(many, "h", NULL, &buckets);
    ck_assert_uint_eq(buckets.length, METRICS_BUCKETS_MAX);
    ck_assert_double_eq(buckets.count[METRICS_BUCKETS_MAX - 1], METRICS_BUCKETS_MAX);
}
END_TEST

/* Counts that are no longer cumulative, as after a text that was cut, have no bucket to lie in. */
START_TEST(the_largest_bound_stands_for_counts_that_shrink)
{
    const struct metrics_buckets none = {0},
                                 finite = {.length = 2, .upper = {1, 2}, .count = {4, 8}},
                                 infinite = {
                                     .length = 2, .upper = {INFINITY, INFINITY}, .count = {0, 5}};
    ck_assert_double_eq(metrics_quantile(&none, &finite, 1), 2);
    ck_assert_double_eq(metrics_quantile(&none, &finite, 2), 2);
    ck_assert_double_eq(metrics_quantile(&none, &infinite, 0.5), 0);
    ck_assert_double_eq(metrics_quantile(&none, &finite, 0), 0);
}
END_TEST

static const struct {
    const char *(*write)(double, char[UNITS_ROOM]);
    double value;
    const char *text;
} units[] = {
    {units_duration, 0, "0us"},
    {units_duration, 0.000812, "812us"},
    {units_duration, 0.0009996, "1.0ms"},
    {units_duration, 0.0032, "3.2ms"},
    {units_duration, 0.042, "42ms"},
    {units_duration, 4.5, "4.5s"},
    {units_duration, 42.4, "42s"},
    {units_duration, 192, "3m12s"},
    {units_duration, 7500, "2h05m"},
    {units_duration, 273600, "3d04h"},
    {units_bytes, 17, "17 B"},
    {units_bytes, 1023, "1023 B"},
    {units_bytes, 1536, "1.5 KiB"},
    {units_bytes, 1048575, "1.0 MiB"},
    {units_bytes, 0x1p34, "16.0 GiB"},
    {units_flops, 950, "950 FLOP/s"},
    {units_flops, 999.6, "1.00 kFLOP/s"},
    {units_flops, 12.34e9, "12.3 GFLOP/s"},
    {units_flops, 123.4e12, "123 TFLOP/s"},
};

START_TEST(writes_units)
{
    char out[UNITS_ROOM];
    ck_assert_str_eq(units[_i].write(units[_i].value, out), units[_i].text);
}
END_TEST

START_TEST(aligns_columns)
{
    static const struct table_column columns[] = {{"NAME", false}, {"N", true}, {"NOTE", false}};
    static const char *const rows[][3] = {{"a", "100", ""}, {"länger", "7", "x y"}, {"b", "", "z"}};
    struct table table;
    char *printed = NULL;
    size_t length;
    table_start(&table, columns, 3);
    FILE *to = open_memstream(&printed, &length);
    ck_assert(table_print(&table, true, to)); /* nothing, also no titles */
    for (size_t i = 0; i < 3; i++)
        table_add(&table, rows[i]);
    ck_assert(table_print(&table, false, to));
    fclose(to);
    ck_assert_str_eq(printed, "NAME      N  NOTE\n"
                              "a       100\n"
                              "länger    7  x y\n"
                              "b            z\n");
    table_free(&table);
    free(printed);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gemmctl_metrics");
    TCase *tcase = tcase_create("gemmctl_metrics");
    tcase_add_test(tcase, sums_the_series_of_a_label);
    tcase_add_test(tcase, interpolates_quantiles);
    tcase_add_test(tcase, buckets_have_bounds);
    tcase_add_test(tcase, the_largest_bound_stands_for_counts_that_shrink);
    tcase_add_loop_test(tcase, writes_units, 0, sizeof units / sizeof units[0]);
    tcase_add_test(tcase, aligns_columns);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
