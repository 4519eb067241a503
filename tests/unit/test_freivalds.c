/* A right result passes, whatever the types, sizes and values; one wrong element of visible size
 * does not. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/freivalds.h"
#include "kernels/freivalds_parts.h"
#include "kernels/operations.h"
#include "proto/dtype.h"
#include "tests/product/cases.h"
#include "tests/product/product.h"
#include "tests/product/random.h"

static struct gemm_context *context;

static void create_context(void)
{
    ck_assert_uint_eq(gemm_context_create(GEMM_BACKEND_CPU, NULL, 2, &context, NULL), GEMMD_OK);
}

static void destroy_context(void)
{
    gemm_context_destroy(context);
}

static void compute(const char *name, struct product *product)
{
    const struct operation_kernel *kernel;
    uint64_t bytes;
    ck_assert_uint_eq(operation_select(&operation_gemm,
                                       &(struct gemm_device){.backend = GEMM_BACKEND_CPU}, name,
                                       &product->problem, &kernel, NULL),
                      GEMMD_OK);
    ck_assert(kernel->workspace_bytes(&product->problem, &bytes));
    void *workspace = aligned_alloc(256, bytes / 256 * 256 + 256);
    ck_assert_ptr_nonnull(workspace);
    product_poison(product);
    ck_assert_uint_eq(operation_run(kernel, context, &product->problem, workspace), GEMMD_OK);
    free(workspace);
}

/* A product of `like`, computed by `tiled`. */
static void create_computed(struct product *product, const struct gemm_problem *like, uint64_t gap,
                            enum product_fill fill, uint64_t seed)
{
    ck_assert(product_create(product, like, gap, fill, seed));
    compute("tiled", product);
}

static double residual_of(const struct product *product, uint64_t seed)
{
    const double residual = product_residual(context, &product->problem, seed, NULL);
    ck_assert_msg(residual >= 0, "no residual");
    return residual;
}

static void must_pass(const struct product *product, uint64_t seed, const char *why)
{
    char what[256];
    product_describe(&product->problem, what, sizeof what);
    const double residual = residual_of(product, seed);
    ck_assert_msg(residual <= 1, "%s: a right result fails (%s), residual %g", what, why, residual);
}

static void must_fail(const struct product *product, uint64_t seed, const char *why)
{
    char what[256];
    product_describe(&product->problem, what, sizeof what);
    const double residual = residual_of(product, seed);
    ck_assert_msg(residual > 1, "%s: a wrong result passes (%s), residual %g", what, why, residual);
}

/* Element (row, column) of the last problem of the batch. */
static void *element(const struct product *product, uint64_t row, uint64_t column)
{
    const struct gemm_problem *p = &product->problem;
    return (char *)p->c +
           ((p->batch - 1) * p->stride_c + row * p->ldc + column) * dtype_size(p->out);
}

static double get(const struct product *product, uint64_t row, uint64_t column)
{
    double value;
    convert_to_f64(product->problem.out, element(product, row, column), &value, 1);
    return value;
}

static void set(const struct product *product, uint64_t row, uint64_t column, double value)
{
    const enum gemmd_dtype out = product->problem.out;
    const double f64 = value;
    const float f32 = (float)value;
    const int32_t i32 = out == GEMMD_I32 ? (int32_t)value : 0;
    convert_narrow(out,
                   out == GEMMD_F64   ? (const void *)&f64
                   : out == GEMMD_I32 ? &i32
                                      : (const void *)&f32,
                   element(product, row, column), 1);
}

/* Where the largest number of the last problem is. */
static void find_largest(const struct product *product, uint64_t *row, uint64_t *column)
{
    *row = *column = 0;
    for (uint64_t i = 0; i < product->problem.m; i++)
        for (uint64_t j = 0; j < product->problem.n; j++)
            if (fabs(get(product, i, j)) > fabs(get(product, *row, *column))) {
                *row = i;
                *column = j;
            }
}

START_TEST(right_results_pass)
{
    const struct case_types types = case_types[_i];
    uint64_t seed = (uint64_t)_i;
    for (uint32_t number = 0; number < case_options_count(); number += CASE_THINNING) {
        struct product product;
        struct gemm_problem like = {
            .dtype = types.dtype,
            .out = types.out,
            .m = case_sizes[random_next(&seed) % 6],
            .n = case_sizes[random_next(&seed) % 6],
            .k = case_sizes[random_next(&seed) % 6],
        };
        if (!case_set_options(&like, number) || like.act != GEMM_ACT_NONE)
            continue;
        ck_assert(product_create(&product, &like, number % 2, PRODUCT_UNIFORM, seed));
        for (const struct operation_kernel *const *k =
                 operation_kernels(&operation_gemm, GEMM_BACKEND_CPU);
             *k != NULL; k++) {
            if (!(*k)->takes(&product.problem))
                continue;
            compute((*k)->name, &product);
            for (uint64_t again = 0; again < 5; again++)
                must_pass(&product, random_next(&seed), (*k)->name);
        }
        product_destroy(&product);
    }
}
END_TEST

/* Sums of equal numbers make the same rounding error at every step, and in every element. */
START_TEST(errors_of_one_direction_pass)
{
    const struct case_types types = case_types[_i];
    struct gemm_problem like = {.dtype = types.dtype,
                                .out = types.out,
                                .m = 3,
                                .n = 200,
                                .k = 4000 / CASE_THINNING,
                                .alpha = 1,
                                .batch = 1};
    struct product product;
    ck_assert(product_create(&product, &like, 0, PRODUCT_UNIFORM, 1));
    for (unsigned part = PRODUCT_A; part <= PRODUCT_B; part++) {
        const struct product_buffer *buffer = &product.buffers[part];
        const uint64_t size = dtype_size(types.dtype);
        for (uint64_t i = size; i < buffer->bytes - 2 * buffer->offset; i += size)
            memcpy(buffer->data + buffer->offset + i, buffer->data + buffer->offset, size);
    }
    for (const struct operation_kernel *const *k =
             operation_kernels(&operation_gemm, GEMM_BACKEND_CPU);
         *k != NULL; k++) {
        if (!(*k)->takes(&product.problem))
            continue;
        compute((*k)->name, &product);
        for (uint64_t seed = 0; seed < 20; seed += CASE_THINNING)
            must_pass(&product, seed, (*k)->name);
    }
    product_destroy(&product);
}
END_TEST

START_TEST(one_wrong_element_fails)
{
    const struct case_types types = case_types[_i];
    uint64_t seed = 50 + (uint64_t)_i;
    for (uint32_t number = 0; number < case_options_count(); number += CASE_THINNING) {
        struct product product;
        uint64_t row, column;
        struct gemm_problem like = {
            .dtype = types.dtype, .out = types.out, .m = 33, .n = 65, .k = 63};
        if (!case_set_options(&like, number) || like.act != GEMM_ACT_NONE || like.alpha == 0)
            continue;
        create_computed(&product, &like, number % 2, PRODUCT_UNIFORM, seed);
        must_pass(&product, number, "before the change");
        find_largest(&product, &row, &column);
        const double value = get(&product, row, column);
        set(&product, row, column, -value);
        must_fail(&product, number, "the largest element has the other sign");
        set(&product, row, column, 0);
        must_fail(&product, number, "the largest element is 0");
        set(&product, row, column, value);
        must_pass(&product, number, "changed back");
        product_destroy(&product);
    }
}
END_TEST

/* The threshold that freivalds.h promises for a row: 15 * sqrt(n) times the largest rounding error
 * that one of its elements may have, and the rounding of the check itself, in f64. */
static double threshold_of(const struct product *product, uint64_t row)
{
    const struct gemm_problem *p = &product->problem;
    const struct freivalds_rounding rounding = freivalds_rounding_of(p);
    double largest = 0, all = 0;
    if (p->out == GEMMD_I32)
        return 0;
    for (uint64_t j = 0; j < p->n; j++) {
        /* product.h has no magnitudes of sums of i8. */
        const double magnitude = p->dtype == GEMMD_I8 ? (double)p->k * 128 * 128
                                                      : (double)product->magnitude[row * p->n + j];
        const double value = fabs(get(product, row, j));
        largest =
            fmax(largest, rounding.relative * magnitude + rounding.last * value + rounding.least);
        all += magnitude + value;
    }
    return 15 * sqrt((double)p->n) * largest +
           3 * (double)(p->n + p->k + 8) * FREIVALDS_OWN_ROUNDING * all;
}

/* The threshold that freivalds.h promises: an error of 15 * sqrt(n) times the largest rounding
 * error fails whatever the vector. */
START_TEST(an_error_beyond_the_threshold_fails)
{
    const struct case_types types = case_types[_i];
    static const uint64_t depths[] = {1, 64, 1000};
    unsigned planted = 0;
    for (int i = 0; i < 3; i++) {
        struct product product;
        const struct gemm_problem like = {.dtype = types.dtype,
                                          .out = types.out,
                                          .m = 4,
                                          .n = 100,
                                          .k = depths[i],
                                          .alpha = 1,
                                          .batch = 1};
        uint64_t random = 9 + (uint64_t)_i;
        create_computed(&product, &like, 0, PRODUCT_UNIFORM, random);
        for (uint64_t seed = 0; seed < 200; seed += CASE_THINNING) {
            const uint64_t row = random_next(&random) % like.m, at = random_next(&random) % like.n;
            const double value = get(&product, row, at);
            const double threshold = threshold_of(&product, row);
            const double change = fmax(threshold * 1.01, types.out == GEMMD_I32);
            set(&product, row, at, value + (seed % 2 ? change : -change));
            if (fabs(get(&product, row, at) - value) >= threshold) {
                must_fail(&product, random_next(&random), "an error beyond the threshold");
                planted++;
            }
            set(&product, row, at, value);
        }
        must_pass(&product, random_next(&random), "all changed back");
        product_destroy(&product);
    }
    ck_assert_msg(planted >= 250 / CASE_THINNING, "only %u errors were planted", planted);
}
END_TEST

/* Each row has a residual of its own, the largest of which is the product's. */
START_TEST(a_wrong_row_is_told_from_the_others)
{
    enum { M = 300, BATCH = 3 };
    const struct case_types types = case_types[_i];
    static double rows[BATCH * M];
    struct product product;
    struct gemm_problem like = {.dtype = types.dtype,
                                .out = types.out,
                                .m = M,
                                .n = 33,
                                .k = 700, /* several parts */
                                .alpha = 1,
                                .batch = BATCH};
    /* Thinned, the types share the ways to transpose. */
    const int step = CASE_THINNING > 1 ? 4 : 1;
    for (int transposed = _i % step; transposed < 4; transposed += step) {
        like.transa = transposed & 1;
        like.transb = transposed & 2;
        create_computed(&product, &like, 1, PRODUCT_UNIFORM, 5);
        const double value = get(&product, 217, 30);
        set(&product, 217, 30, value > 0 ? -value - 9 : -value + 9);
        const double most = product_residual(context, &product.problem, 3, rows);
        for (uint64_t i = 0; i < BATCH * M; i++) {
            const bool wrong = i == (BATCH - 1) * M + 217;
            ck_assert_msg(wrong ? rows[i] > 1 : rows[i] >= 0 && rows[i] <= 1,
                          "row %lu has the residual %g", (unsigned long)i, rows[i]);
            ck_assert_double_le(rows[i], most);
        }
        ck_assert_double_eq(most, rows[(BATCH - 1) * M + 217]);
        product_destroy(&product);
    }
}
END_TEST

START_TEST(integers_are_exact)
{
    struct product product;
    const struct gemm_problem like = {.dtype = GEMMD_I8,
                                      .out = GEMMD_I32,
                                      .m = 5,
                                      .n = 7,
                                      .k = 140000,
                                      .alpha = -3,
                                      .beta = 5,
                                      .batch = 2};
    create_computed(&product, &like, 1, PRODUCT_EXTREME, 3); /* sums wrap */
    for (uint64_t seed = 0; seed < 20; seed += CASE_THINNING) {
        int32_t *at = element(&product, seed % 5, seed % 7);
        must_pass(&product, seed, "sums beyond 32 bits");
        *at = (int32_t)((uint32_t)*at + 1);
        must_fail(&product, seed, "off by one");
        *at = (int32_t)((uint32_t)*at - 1 + (1u << 31));
        must_fail(&product, seed, "the highest bit is wrong");
        *at = (int32_t)((uint32_t)*at - (1u << 31));
    }
    product_destroy(&product);
}
END_TEST

START_TEST(wrapped_sums_to_f32_pass)
{
    struct product product;
    const struct gemm_problem like = {
        .dtype = GEMMD_I8, .out = GEMMD_F32, .m = 2, .n = 3, .k = 140000, .alpha = 1, .batch = 1};
    create_computed(&product, &like, 0, PRODUCT_EXTREME, 3);
    must_pass(&product, 1, "sums beyond 32 bits");
    product_destroy(&product);
}
END_TEST

START_TEST(nan_and_infinity_of_operands_pass)
{
    const struct case_types types = case_types[_i];
    if (types.dtype == GEMMD_I8)
        return;
    for (uint32_t number = 0; number < case_options_count(); number += CASE_THINNING) {
        struct product product;
        struct gemm_problem like = {.dtype = types.dtype, .out = types.out, .m = 9, .n = 5, .k = 7};
        if (!case_set_options(&like, number) || like.act != GEMM_ACT_NONE)
            continue;
        create_computed(&product, &like, 0, PRODUCT_SPECIAL, number);
        must_pass(&product, number, "NaN and infinity");
        product_destroy(&product);
    }
}
END_TEST

START_TEST(nan_without_a_cause_fails)
{
    const struct case_types types = case_types[_i];
    if (types.out == GEMMD_I32)
        return;
    const struct gemm_problem like = {
        .dtype = types.dtype, .out = types.out, .m = 9, .n = 5, .k = 7, .alpha = 1, .batch = 1};
    struct product product;
    create_computed(&product, &like, 0, PRODUCT_UNIFORM, 1);
    const double value = get(&product, 4, 2);
    set(&product, 4, 2, (double)NAN);
    must_fail(&product, 1, "a NaN");
    set(&product, 4, 2, -(double)INFINITY);
    must_fail(&product, 1, "an infinity");
    set(&product, 4, 2, value);
    must_pass(&product, 1, "changed back");
    product_destroy(&product);
}
END_TEST

START_TEST(nan_that_got_lost_fails)
{
    struct gemm_problem like = {
        .dtype = GEMMD_F32, .out = GEMMD_F32, .m = 9, .n = 5, .k = 7, .alpha = 1, .batch = 1};
    struct product product;
    create_computed(&product, &like, 0, PRODUCT_UNIFORM, 1);
    ((float *)(void *)(product.buffers[PRODUCT_A].data + product.buffers[PRODUCT_A].offset))[7] =
        NAN;
    must_fail(&product, 1, "A has a NaN in row 1, C has none");
    product_destroy(&product);
}
END_TEST

START_TEST(overflow_passes_and_hides_nothing)
{
    static const struct case_types pairs[] = {{GEMMD_F16, GEMMD_F16}, {GEMMD_F32, GEMMD_F16}};
    const struct gemm_problem like = {.dtype = pairs[_i].dtype,
                                      .out = pairs[_i].out,
                                      .m = 20,
                                      .n = 20,
                                      .k = 3,
                                      .alpha = 1,
                                      .batch = 1};
    struct product product;
    unsigned infinite = 0, small = 0;
    create_computed(&product, &like, 0, PRODUCT_EXTREME, 1);
    for (uint64_t i = 0; i < 20; i++)
        for (uint64_t j = 0; j < 20; j++)
            infinite += isinf(get(&product, i, j)) != 0;
    ck_assert_msg(infinite > 0 && infinite < 400, "%u of 400 overflow; some should", infinite);
    must_pass(&product, 1, "overflow of f16");
    for (uint64_t i = 0; i < 20; i++) {
        if (product.magnitude[i * 20] >= 32000) /* half of the largest f16 */
            continue;
        const double value = get(&product, i, 0);
        set(&product, i, 0, (double)INFINITY);
        must_fail(&product, 1, "an infinity where nothing is near overflow");
        set(&product, i, 0, value);
        small++;
    }
    ck_assert_msg(small > 0, "no element is far from overflow");
    product_destroy(&product);
}
END_TEST

/* The sums are small, and overflow when they are multiplied by alpha. */
START_TEST(overflow_by_alpha_passes)
{
    const struct gemm_problem like = {
        .dtype = GEMMD_F16, .out = GEMMD_F16, .m = 9, .n = 5, .k = 7, .alpha = 1e6, .batch = 1};
    struct product product;
    unsigned infinite = 0;
    create_computed(&product, &like, 0, PRODUCT_UNIFORM, 1);
    for (uint64_t i = 0; i < 9; i++)
        for (uint64_t j = 0; j < 5; j++)
            infinite += isinf(get(&product, i, j)) != 0;
    ck_assert_uint_gt(infinite, 0);
    must_pass(&product, 1, "overflow by alpha");
    product_destroy(&product);
}
END_TEST

/* f64 near its limits: the check's own sums must not overflow into a wrong verdict. */
START_TEST(the_largest_and_smallest_of_f64_pass)
{
    struct gemm_problem like = {
        .dtype = GEMMD_F64, .out = GEMMD_F64, .m = 9, .n = 50, .k = 7, .alpha = 1, .batch = 1};
    const double scales[][2] = {{1e307, 1e-10},   {1e-10, 1e307}, {1e200, 1e100},  {1e-300, 1e-10},
                                {1e-200, 1e-200}, {1e-310, 1},    {1e160, 1e-160}, {1e300, 1e300}};
    unsigned judged = 0;
    for (unsigned i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        struct product product;
        ck_assert(product_create(&product, &like, 0, PRODUCT_UNIFORM, i));
        for (unsigned part = PRODUCT_A; part <= PRODUCT_B; part++) {
            double *values =
                (double *)(void *)(product.buffers[part].data + product.buffers[part].offset);
            const uint64_t count = part == PRODUCT_A ? 9 * 7 : 7 * 50;
            for (uint64_t j = 0; j < count; j++)
                values[j] *= scales[i][part];
        }
        compute("tiled", &product);
        must_pass(&product, i, "extreme magnitudes");
        uint64_t row, column;
        find_largest(&product, &row, &column);
        const double value = get(&product, row, column);
        if (fabs(value) > DBL_MIN && fabs(value) < DBL_MAX) {
            set(&product, row, column, -value);
            must_fail(&product, i, "the largest element has the other sign");
            judged++;
        }
        product_destroy(&product);
    }
    ck_assert_msg(judged >= 3, "only %u results can be told right from wrong", judged);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("freivalds");
    TCase *tests = tcase_create("freivalds");
    const int types = (int)case_types_count();
    tcase_add_checked_fixture(tests, create_context, destroy_context);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, right_results_pass, 0, types);
    tcase_add_loop_test(tests, a_wrong_row_is_told_from_the_others, 0, types);
    tcase_add_loop_test(tests, errors_of_one_direction_pass, 0, types);
    tcase_add_loop_test(tests, one_wrong_element_fails, 0, types);
    tcase_add_loop_test(tests, an_error_beyond_the_threshold_fails, 0, types);
    tcase_add_test(tests, integers_are_exact);
    tcase_add_test(tests, wrapped_sums_to_f32_pass);
    tcase_add_loop_test(tests, nan_and_infinity_of_operands_pass, 0, types);
    tcase_add_loop_test(tests, nan_without_a_cause_fails, 0, types);
    tcase_add_test(tests, nan_that_got_lost_fails);
    tcase_add_loop_test(tests, overflow_passes_and_hides_nothing, 0, 2);
    tcase_add_test(tests, overflow_by_alpha_passes);
    tcase_add_test(tests, the_largest_and_smallest_of_f64_pass);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
