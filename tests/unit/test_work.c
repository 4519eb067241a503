/* server/device/work.c: what a work moves and computes. */
#include <check.h>
#include <stdlib.h>

#include "server/device/work.h"

static const struct operation_kernel kernel;

static struct work product_of(uint64_t m, uint64_t n, uint64_t k)
{
    struct work work = {.task = {.operation = &operation_gemm,
                                 .kernel = &kernel,
                                 .problem.gemm = {.dtype = GEMMD_F16,
                                                  .out = GEMMD_F32,
                                                  .m = m,
                                                  .n = n,
                                                  .k = k,
                                                  .batch = 1,
                                                  .alpha = 1}}};
    gemm_problem_contiguous(&work.task.problem.gemm);
    return work;
}

static double moved_bytes(const struct work *work)
{
    return work->task.operation->moved_bytes(&work->task.problem);
}

START_TEST(a_product_moves_its_operands_and_its_result)
{
    static const float bias[5];
    struct work work = product_of(3, 5, 7);
    const double operands = 2 * (3 * 7 + 7 * 5), result = 4 * 3 * 5;
    ck_assert_double_eq(work_flops(&work), 2 * 3 * 5 * 7);
    ck_assert_double_eq(moved_bytes(&work), operands + result);
    work.task.problem.gemm.beta = 1;
    ck_assert_double_eq(moved_bytes(&work), operands + 2 * result);
    work.task.problem.gemm.bias = bias;
    ck_assert_double_eq(moved_bytes(&work), operands + 2 * result + 4 * 5);
}
END_TEST

START_TEST(a_batch_moves_the_matrices_of_each_problem)
{
    struct work work = product_of(3, 5, 7);
    work.task.problem.gemm.batch = 10;
    gemm_problem_contiguous(&work.task.problem.gemm);
    ck_assert_double_eq(work_flops(&work), 10 * 2 * 3 * 5 * 7);
    ck_assert_double_eq(moved_bytes(&work), 10 * (2 * (3 * 7 + 7 * 5) + 4 * 3 * 5));
}
END_TEST

/* A million problems of 1 x 1 x 1 take the time of a million tiles. */
START_TEST(short_lengths_count_as_sixteen_for_fair_shares)
{
    struct work work = product_of(1, 100, 1);
    work.task.problem.gemm.batch = 1000000;
    ck_assert_double_eq(work_share_flops(&work), 2.0 * 16 * 100 * 16 * 1e6);

    const struct attention_problem attention = {
        .batch = 3, .heads = 4, .kv_heads = 4, .sq = 1, .skv = 32, .d = 8, .dv = 64};
    struct work task = {.task = {.operation = &operation_attention, .kernel = &kernel}};
    task.task.problem.attention = attention;
    ck_assert_double_eq(work_flops(&task), 2.0 * 3 * 4 * 32 * 72);
    ck_assert_double_eq(work_share_flops(&task), 2.0 * 3 * 4 * 16 * 32 * 80);

    const struct conv_problem conv = {.shape = {.batch = 2,
                                                .channels = 3,
                                                .filters = 6,
                                                .groups = 3,
                                                .r = 5,
                                                .s = 5,
                                                .out_height = 2,
                                                .out_width = 3}};
    task = (struct work){.task = {.operation = &operation_conv2d, .kernel = &kernel}};
    task.task.problem.conv2d = conv;
    ck_assert_double_eq(work_share_flops(&task), 2.0 * 2 * 3 * 16 * 16 * 25);

    const struct operation_kernel slow = {.share_factor = 64};
    task.task.kernel = &slow;
    ck_assert_double_eq(work_share_flops(&task), 64 * 2.0 * 2 * 3 * 16 * 16 * 25);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("work");
    TCase *tests = tcase_create("work");
    tcase_add_test(tests, a_product_moves_its_operands_and_its_result);
    tcase_add_test(tests, a_batch_moves_the_matrices_of_each_problem);
    tcase_add_test(tests, short_lengths_count_as_sixteen_for_fair_shares);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
