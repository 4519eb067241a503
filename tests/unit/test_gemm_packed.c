/* Products with packed weights on the CPU are compared with f64. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/cpu/convert.h"
#include "kernels/operations.h"
#include "packed_weights.h"
#include "tests/product/random.h"

static struct gemm_context *context;

static void create_context(void)
{
    struct fault fault;
    ck_assert_msg(gemm_context_create(GEMM_BACKEND_CPU, NULL, 2, &context, &fault) == GEMMD_OK,
                  "no context: %s", fault.detail);
}

static void destroy_context(void)
{
    gemm_context_destroy(context);
}

static const struct operation_kernel *packed_kernel(const struct gemm_problem *problem)
{
    const struct gemm_device cpu = {.backend = GEMM_BACKEND_CPU};
    const struct operation_kernel *kernel = NULL;
    struct fault fault = {.code = GEMMD_OK};
    ck_assert_msg(operation_select(&operation_gemm, &cpu, "auto", problem, &kernel, &fault) ==
                      GEMMD_OK,
                  "%s", fault.detail);
    return kernel;
}

static float widened(enum gemmd_dtype dtype, uint16_t bits)
{
    return dtype == GEMMD_F16 ? convert_f16_to_f32(bits) : convert_bf16_to_f32(bits);
}

/* Compares rows of a product in f32 with f64: each element is within (k + 8) u S of the exact one.
 */
static void check_rows(const struct weights *w, enum gemmd_dtype dtype, uint64_t rows,
                       const uint16_t *a, bool transa, const float *c)
{
    double *b = malloc(w->k * w->n * sizeof *b);
    ck_assert_ptr_nonnull(b);
    for (uint64_t p = 0; p < w->k; p++)
        for (uint64_t j = 0; j < w->n; j++)
            b[p * w->n + j] = weights_element(w, p, j);
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t j = 0; j < w->n; j++) {
            double exact = 0, magnitude = 0;
            for (uint64_t p = 0; p < w->k; p++) {
                const uint64_t at = transa ? p * rows + i : i * w->k + p;
                const double term = (double)widened(dtype, a[at]) * b[p * w->n + j];
                exact += term;
                magnitude += fabs(term);
            }
            const double bound = ((double)w->k + 8) * 0x1p-24 * magnitude;
            ck_assert_msg(fabs((double)c[i * w->n + j] - exact) <= bound,
                          "row %lu, column %lu: %.9g, not %.9g", (unsigned long)i, (unsigned long)j,
                          (double)c[i * w->n + j], exact);
        }
    free(b);
}

enum { ROWS = 290 }; /* more than a block of `tiled` */

START_TEST(products_are_those_of_f64_whatever_the_rows)
{
    static const uint64_t some_rows[] = {1, 2, 5, 13, ROWS};
    struct weights w = weights_cases[_i];
    weights_create(&w, 100 + (uint64_t)_i);
    const struct packed_file file = weights_found(&w);
    unsigned char *b = weights_arranged(&file);
    const enum gemmd_dtype dtype = _i % 2 ? GEMMD_F16 : GEMMD_BF16;
    uint16_t *a = malloc(ROWS * w.k * sizeof *a);
    float *c = malloc(ROWS * w.n * sizeof *c), *one = malloc(ROWS * w.n * sizeof *one);
    ck_assert(a != NULL && c != NULL && one != NULL);
    uint64_t seed = 7;
    for (uint64_t i = 0; i < ROWS * w.k; i++) {
        const float value = (float)(int32_t)(random_next(&seed) % 2001 - 1000) * 1e-3f;
        a[i] = dtype == GEMMD_F16 ? convert_f32_to_f16(value) : convert_f32_to_bf16(value);
    }
    struct gemm_problem problem = {.dtype = dtype,
                                   .out = GEMMD_F32,
                                   .m = ROWS,
                                   .n = w.n,
                                   .k = w.k,
                                   .batch = 1,
                                   .alpha = packed_factor(&file),
                                   .a = a,
                                   .b = b,
                                   .c = c,
                                   .packed = file.layout};
    gemm_problem_contiguous(&problem);
    const struct operation_kernel *kernel = packed_kernel(&problem);
    ck_assert_int_eq(operation_run(kernel, context, &problem, NULL), GEMMD_OK);
    check_rows(&w, dtype, ROWS, a, false, c);
    problem.c = one;
    for (uint32_t s = 0; s < sizeof some_rows / sizeof some_rows[0]; s++) {
        problem.m = some_rows[s];
        ck_assert_int_eq(operation_run(packed_kernel(&problem), context, &problem, NULL), GEMMD_OK);
        ck_assert_msg(memcmp(one, c, problem.m * w.n * sizeof *c) == 0,
                      "%lu rows alone have other bits", (unsigned long)problem.m);
    }
    problem.m = 13;
    problem.transa = true;
    gemm_problem_contiguous(&problem);
    ck_assert_int_eq(operation_run(packed_kernel(&problem), context, &problem, NULL), GEMMD_OK);
    check_rows(&w, dtype, 13, a, true, one);
    free(a);
    free(c);
    free(one);
    free(b);
    weights_destroy(&w);
}
END_TEST

START_TEST(other_kernels_refuse_packed_weights)
{
    struct gemm_problem problem = {
        .dtype = GEMMD_BF16, .out = GEMMD_BF16, .m = 1, .n = 16, .k = 32, .batch = 1, .alpha = 1};
    gemm_problem_contiguous(&problem);
    ck_assert(operation_gemm.can_check(&problem));
    problem.packed = (struct packed_layout){.bits = 4, .k = 32, .n = 16, .group = 32};
    ck_assert(!operation_gemm.can_check(&problem));
    for (const struct operation_kernel *const *k =
             operation_kernels(&operation_gemm, GEMM_BACKEND_CPU);
         *k != NULL; k++)
        ck_assert_msg((*k)->takes(&problem) == (strcmp((*k)->name, "tiled") == 0), "%s",
                      (*k)->name);
    struct gemm_problem other = problem;
    other.dtype = other.out = GEMMD_F32;
    ck_assert(!packed_kernel(&problem)->takes(&other));
    other = problem;
    other.packed.element = PACKED_F4_E2M1;
    ck_assert(packed_kernel(&problem)->takes(&other));
    other = problem;
    other.transb = true;
    ck_assert(!packed_kernel(&problem)->takes(&other));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gemm_packed");
    TCase *products = tcase_create("products");
    tcase_add_checked_fixture(products, create_context, destroy_context);
    tcase_add_loop_test(products, products_are_those_of_f64_whatever_the_rows, 0, WEIGHTS_CASES);
    tcase_add_test(products, other_kernels_refuse_packed_weights);
    suite_add_tcase(suite, products);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
