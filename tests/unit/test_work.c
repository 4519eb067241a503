/* server/device/work.c: what a work moves and computes. */
#include <check.h>
#include <stdlib.h>

#include "server/device/work.h"

static struct work product_of(uint64_t m, uint64_t n, uint64_t k)
{
    struct work work = {
        .problem = {
            .dtype = GEMMD_F16, .out = GEMMD_F32, .m = m, .n = n, .k = k, .batch = 1, .alpha = 1}};
    gemm_problem_contiguous(&work.problem);
    return work;
}

START_TEST(a_product_moves_its_operands_and_its_result)
{
    static const float bias[5];
    struct work work = product_of(3, 5, 7);
    const double operands = 2 * (3 * 7 + 7 * 5), result = 4 * 3 * 5;
    ck_assert_double_eq(work_flops(&work), 2 * 3 * 5 * 7);
    ck_assert_double_eq(work_moved_bytes(&work), operands + result);
    work.problem.beta = 1;
    ck_assert_double_eq(work_moved_bytes(&work), operands + 2 * result);
    work.problem.bias = bias;
    ck_assert_double_eq(work_moved_bytes(&work), operands + 2 * result + 4 * 5);
}
END_TEST

START_TEST(a_batch_moves_a_matrix_that_all_share_once)
{
    struct work work = product_of(3, 5, 7);
    work.problem.batch = 10;
    gemm_problem_contiguous(&work.problem);
    ck_assert_double_eq(work_flops(&work), 10 * 2 * 3 * 5 * 7);
    ck_assert_double_eq(work_moved_bytes(&work), 10 * (2 * (3 * 7 + 7 * 5) + 4 * 3 * 5));
    work.problem.stride_b = 0;
    ck_assert_double_eq(work_moved_bytes(&work), 10 * (2 * 3 * 7 + 4 * 3 * 5) + 2 * 7 * 5);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("work");
    TCase *tests = tcase_create("work");
    tcase_add_test(tests, a_product_moves_its_operands_and_its_result);
    tcase_add_test(tests, a_batch_moves_a_matrix_that_all_share_once);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
