/* kernels/known_attention.c: the answers agree with the kernels', and no wrong one passes. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/known_attention.h"
#include "kernels/operations.h"
#include "proto/dtype.h"

static _Alignas(256) unsigned char memory[KNOWN_ATTENTION_BYTES];

static void compute(const struct operation_kernel *kernel, const struct attention_problem *problem)
{
    struct gemm_context *context;
    struct fault fault;
    uint64_t bytes;
    ck_assert_int_eq(gemm_context_create(GEMM_BACKEND_CPU, NULL, 1, &context, &fault), GEMMD_OK);
    ck_assert(kernel->workspace_bytes(problem, &bytes));
    void *workspace = bytes > 0 ? aligned_alloc(4096, (bytes + 4095) / 4096 * 4096) : NULL;
    ck_assert_int_eq(operation_run(kernel, context, problem, workspace), GEMMD_OK);
    free(workspace);
    gemm_context_destroy(context);
}

/* Calls `check` for all kernels and types, with and without a mask. */
static void for_all(void (*check)(const struct operation_kernel *kernel,
                                  const struct attention_problem *problem))
{
    int checked = 0;
    for (const struct operation_kernel *const *k =
             operation_kernels(&operation_attention, GEMM_BACKEND_CPU);
         *k != NULL; k++)
        for (int i = 0; i < 2 * GEMMD_DTYPE_COUNT; i++) {
            struct attention_problem problem;
            known_attention_init(&problem, (enum gemmd_dtype)(i / 2), i % 2, memory);
            if (!(*k)->takes(&problem))
                continue;
            check(*k, &problem);
            checked++;
        }
    ck_assert_int_eq(checked, 2 * 2 * 3);
}

static void check_right(const struct operation_kernel *kernel,
                        const struct attention_problem *problem)
{
    uint64_t row, column;
    ck_assert(!known_attention_check(problem, &row, &column)); /* the poison */
    compute(kernel, problem);
    ck_assert_msg(known_attention_check(problem, &row, &column),
                  "%s in %s: row %lu, column %lu is not right", kernel->name,
                  dtype_name(problem->dtype), (unsigned long)row, (unsigned long)column);
}

START_TEST(a_right_attention_passes)
{
    for_all(check_right);
}
END_TEST

static void check_wrong(const struct operation_kernel *kernel,
                        const struct attention_problem *problem)
{
    const uint64_t size = dtype_size(problem->dtype);
    uint64_t row, column;
    compute(kernel, problem);
    for (uint64_t i = 0; i < problem->batch * problem->heads * problem->sq * problem->dv; i += 13) {
        unsigned char *element = (unsigned char *)problem->o + i * size, right[4];
        memcpy(right, element, size);
        memset(element, 0x42, size); /* no small integer in any type */
        ck_assert(!known_attention_check(problem, &row, &column));
        ck_assert_uint_eq(row * problem->dv + column, i);
        memcpy(element, right, size);
    }
    ck_assert(known_attention_check(problem, &row, &column));
}

START_TEST(any_wrong_element_is_found)
{
    for_all(check_wrong);
}
END_TEST

/* A kernel that forgets the mask. */
static void check_mask(const struct operation_kernel *kernel,
                       const struct attention_problem *problem)
{
    struct attention_problem other = *problem;
    uint64_t row, column;
    if (!problem->causal)
        return; /* there is none to forget */
    other.causal = false;
    compute(kernel, &other);
    ck_assert(!known_attention_check(problem, &row, &column));
}

START_TEST(a_forgotten_mask_is_found)
{
    for_all(check_mask);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("known_attention");
    TCase *tests = tcase_create("known_attention");
    tcase_add_test(tests, a_right_attention_passes);
    tcase_add_test(tests, any_wrong_element_is_found);
    tcase_add_test(tests, a_forgotten_mask_is_found);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
