/* kernels/known_answer.c: the answers agree with a kernel's, and no wrong element passes. */
#include <check.h>
#include <stdlib.h>

#include "kernels/known_answer.h"
#include "kernels/operations.h"
#include "proto/dtype.h"

static _Alignas(256) unsigned char memory[KNOWN_ANSWER_BYTES];

static void compute(const struct gemm_problem *problem)
{
    struct gemm_context *context;
    const struct operation_kernel *kernel;
    struct fault fault;
    uint64_t bytes;
    ck_assert_int_eq(operation_select(&operation_gemm,
                                      &(struct gemm_device){.backend = GEMM_BACKEND_CPU}, "naive",
                                      problem, &kernel, &fault),
                     GEMMD_OK);
    ck_assert_int_eq(gemm_context_create(GEMM_BACKEND_CPU, NULL, 1, &context, &fault), GEMMD_OK);
    ck_assert(kernel->workspace_bytes(problem, &bytes));
    void *workspace = bytes > 0 ? aligned_alloc(4096, (bytes + 4095) / 4096 * 4096) : NULL;
    ck_assert_int_eq(operation_run(kernel, context, problem, workspace), GEMMD_OK);
    free(workspace);
    gemm_context_destroy(context);
}

/* Calls `check` for all pairs of types that are offered, with all transpositions. */
static void for_all(void (*check)(struct gemm_problem *problem))
{
    int checked = 0;
    for (int dtype = 0; dtype < GEMMD_DTYPE_COUNT; dtype++)
        for (int out = 0; out < GEMMD_DTYPE_COUNT; out++)
            for (int transposed = 0; transposed < 4; transposed++) {
                struct gemm_problem problem;
                if (!dtype_offers_out((enum gemmd_dtype)dtype, (enum gemmd_dtype)out))
                    continue;
                known_answer_init(&problem, (enum gemmd_dtype)dtype, (enum gemmd_dtype)out,
                                  transposed & 1, transposed & 2, memory);
                check(&problem);
                checked++;
            }
    ck_assert_int_gt(checked, 0);
}

static void check_right(struct gemm_problem *problem)
{
    uint64_t row, column;
    ck_assert(!known_answer_check(problem, &row, &column)); /* the poison */
    compute(problem);
    ck_assert_msg(known_answer_check(problem, &row, &column),
                  "%s to %s: row %lu, column %lu is not right", dtype_name(problem->dtype),
                  dtype_name(problem->out), (unsigned long)row, (unsigned long)column);
}

START_TEST(a_right_product_passes)
{
    for_all(check_right);
}
END_TEST

static void check_wrong(struct gemm_problem *problem)
{
    uint64_t row, column;
    uint32_t size = dtype_size(problem->out);
    compute(problem);
    for (uint64_t i = 0; i < problem->m * problem->n; i += 13) {
        unsigned char *element = (unsigned char *)problem->c + i * size;
        *element ^= 1;
        ck_assert(!known_answer_check(problem, &row, &column));
        ck_assert_uint_eq(row * problem->n + column, i);
        *element ^= 1;
    }
    ck_assert(known_answer_check(problem, &row, &column));
}

START_TEST(any_wrong_element_is_found)
{
    for_all(check_wrong);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("known_answer");
    TCase *tests = tcase_create("known_answer");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_right_product_passes);
    tcase_add_test(tests, any_wrong_element_is_found);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
