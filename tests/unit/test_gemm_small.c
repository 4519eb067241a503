/* kernels/gemm_operation.c: which products are small. */
#include <check.h>
#include <stdlib.h>

#include "kernels/operations.h"
#include "proto/dtype.h"
#include "tests/product/cases.h"

static struct gemm_problem cube(enum gemmd_dtype dtype, uint64_t side)
{
    struct gemm_problem problem = {.dtype = dtype,
                                   .out = dtype_default_out(dtype),
                                   .m = side,
                                   .n = side,
                                   .k = side,
                                   .batch = 1,
                                   .alpha = 1};
    gemm_problem_contiguous(&problem);
    return problem;
}

START_TEST(tiny_ones_of_every_type_are)
{
    for (uint32_t i = 0; i < case_types_count(); i++) {
        struct gemm_problem problem = cube(case_types[i].dtype, 64);
        problem.out = case_types[i].out;
        ck_assert(operation_gemm.is_small(&problem));
    }
}
END_TEST

START_TEST(no_side_may_be_long)
{
    struct gemm_problem problem = cube(GEMMD_F32, 1);
    uint64_t *const sides[] = {&problem.m, &problem.n, &problem.k};
    for (int i = 0; i < 3; i++) {
        *sides[i] = 256;
        ck_assert(operation_gemm.is_small(&problem));
        *sides[i] = 257;
        ck_assert(!operation_gemm.is_small(&problem));
        *sides[i] = GEMM_DIM_MAX;
        ck_assert(!operation_gemm.is_small(&problem));
        *sides[i] = 1;
    }
}
END_TEST

START_TEST(bytes_of_operands_and_results_count)
{
    struct gemm_problem problem = cube(GEMMD_F32, 128); /* 192 KiB */
    ck_assert(operation_gemm.is_small(&problem));
    problem.beta = 1; /* 64 KiB more: the limit */
    ck_assert(operation_gemm.is_small(&problem));
    problem.k++;
    ck_assert(!operation_gemm.is_small(&problem));
    problem = cube(GEMMD_F32, 256);
    ck_assert(!operation_gemm.is_small(&problem));
}
END_TEST

START_TEST(so_does_the_batch)
{
    struct gemm_problem problem = cube(GEMMD_F32, 64); /* 48 KiB */
    problem.batch = 5;
    ck_assert(operation_gemm.is_small(&problem));
    problem.batch = 6;
    ck_assert(!operation_gemm.is_small(&problem));
    problem = cube(GEMMD_I8, 1);
    problem.batch = 64;
    ck_assert(operation_gemm.is_small(&problem));
    problem.batch = 65;
    ck_assert(!operation_gemm.is_small(&problem));
    problem.batch = GEMM_DIM_MAX;
    ck_assert(!operation_gemm.is_small(&problem));
}
END_TEST

/* Neither pointers nor what follows the sum: a small problem stays small whoever asks. */
START_TEST(nothing_else_does)
{
    static const char something;
    struct gemm_problem problem = cube(GEMMD_F16, 128), other = problem;
    other.a = other.b = other.bias = other.c0 = &something;
    other.transa = other.transb = true;
    other.act = GEMM_ACT_GELU;
    other.alpha = 7;
    ck_assert_int_eq(operation_gemm.is_small(&problem), operation_gemm.is_small(&other));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gemm_small");
    TCase *tests = tcase_create("gemm_small");
    tcase_add_test(tests, tiny_ones_of_every_type_are);
    tcase_add_test(tests, no_side_may_be_long);
    tcase_add_test(tests, bytes_of_operands_and_results_count);
    tcase_add_test(tests, so_does_the_batch);
    tcase_add_test(tests, nothing_else_does);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
