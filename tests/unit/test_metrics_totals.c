/* The cells of the roofline: classes of shape, sums over threads, and a full table. */
#include <check.h>

#include "server/observe/metrics_totals.h"

static struct metrics *metrics;
static struct metrics_cell_total totals[METRICS_CELLS_MAX];

static void setup(void)
{
    const struct metrics_identity identity = {"1", "r", "cpu", "l", "m", "a"};
    metrics = metrics_create(2, &identity);
    ck_assert_ptr_nonnull(metrics);
    for (int i = 0; i < METRICS_CELLS_MAX; i++)
        totals[i] = (struct metrics_cell_total){.works = 0};
}

static void teardown(void)
{
    metrics_destroy(metrics);
}

static void count(uint32_t shard, const char *kernel, uint64_t m, uint64_t n, uint64_t k)
{
    const struct metrics_work work = {.task = METRICS_KIND_OF(OPERATION_GEMM),
                                      .kernel = kernel,
                                      .dtype = GEMMD_F32,
                                      .flops = 10,
                                      .bytes = 20,
                                      .busy_ns = 30,
                                      .lengths = {m, n, k}};
    metrics_work(metrics_shard(metrics, shard), &work);
}

START_TEST(a_length_belongs_to_the_first_class_that_reaches_it)
{
    count(0, "a", 16, 17, 8193);
    ck_assert_uint_eq(metrics_cells(metrics, totals), 1);
    ck_assert_uint_eq(totals[0].classes[0], 0);
    ck_assert_uint_eq(totals[0].classes[1], 1);
    ck_assert_uint_eq(totals[0].classes[2], METRICS_SHAPE_BOUNDS);
}
END_TEST

START_TEST(the_same_cell_of_two_threads_is_one)
{
    static const char kernel[] = "a";
    count(0, kernel, 1, 1, 1);
    count(1, kernel, 2, 2, 2);
    count(1, kernel, 2000, 2, 2);
    ck_assert_uint_eq(metrics_cells(metrics, totals), 2);
    const uint32_t small = totals[0].classes[0] == 0 ? 0 : 1;
    ck_assert_uint_eq(totals[small].works, 2);
    ck_assert_uint_eq(totals[small].busy_ns, 60);
    ck_assert_double_eq(totals[small].flops, 20);
    ck_assert_double_eq(totals[small].bytes, 40);
}
END_TEST

START_TEST(a_full_table_counts_no_new_cells)
{
    static const uint64_t lengths[] = {16, 128, 1024, 8192, 9000};
    for (int i = 0; i < 125; i++)
        count(0, "a", lengths[i % 5], lengths[i / 5 % 5], lengths[i / 25]);
    ck_assert_uint_eq(metrics_cells(metrics, totals), METRICS_CELLS_MAX);
    count(0, "another", 1, 1, 1);
    ck_assert_uint_eq(metrics_cells(metrics, totals), METRICS_CELLS_MAX);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("metrics_totals");
    TCase *tests = tcase_create("metrics_totals");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_length_belongs_to_the_first_class_that_reaches_it);
    tcase_add_test(tests, the_same_cell_of_two_threads_is_one);
    tcase_add_test(tests, a_full_table_counts_no_new_cells);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
