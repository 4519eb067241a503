/* Every CPU kernel against long double: types, transposes, scalars, bias, activations, batches, odd
 * sizes, gaps between rows, NaN and infinity, wrapping. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/operations.h"
#include "proto/dtype.h"
#include "tests/product/cases.h"
#include "tests/product/product.h"
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

/* Runs one kernel with a workspace that is poisoned and has a guard zone. */
static void run_kernel(const struct operation_kernel *kernel, const struct gemm_problem *problem)
{
    enum { GUARD = 256, POISON = 0xff };
    uint64_t bytes;
    ck_assert_msg(kernel->workspace_bytes(problem, &bytes), "%s: workspace overflows",
                  kernel->name);
    unsigned char *workspace = aligned_alloc(256, (bytes + GUARD + 255) / 256 * 256);
    ck_assert_ptr_nonnull(workspace);
    memset(workspace, POISON, bytes + GUARD);
    enum gemmd_error code = operation_run(kernel, context, problem, workspace);
    ck_assert_msg(code == GEMMD_OK, "%s: %s", kernel->name, error_name(code));
    for (uint64_t i = 0; i < GUARD; i++)
        ck_assert_msg(workspace[bytes + i] == POISON, "%s wrote beyond its workspace of %lu bytes",
                      kernel->name, (unsigned long)bytes);
    free(workspace);
}

/* Computes one product with every kernel that takes it, which must be at least `kernels`. */
static void check_product(const struct gemm_problem *like, uint64_t gap, enum product_fill fill,
                          uint64_t seed, unsigned kernels)
{
    struct product product;
    char text[512], what[256];
    ck_assert(product_create(&product, like, gap, fill, seed));
    product_describe(&product.problem, what, sizeof what);
    for (const struct operation_kernel *const *k =
             operation_kernels(&operation_gemm, GEMM_BACKEND_CPU);
         *k != NULL; k++) {
        if (!(*k)->takes(&product.problem))
            continue;
        product_poison(&product);
        run_kernel(*k, &product.problem);
        ck_assert_msg(product_check(&product, product_sum_error(like->dtype, like->k), NULL, text,
                                    sizeof text),
                      "%s, %s: %s", (*k)->name, what, text);
        kernels -= kernels > 0;
    }
    ck_assert_msg(kernels == 0, "%s: %u kernels too few take it", what, kernels);
    product_destroy(&product);
}

static unsigned kernels_for(enum gemmd_dtype dtype)
{
    return dtype == GEMMD_I8 ? 2 : 3; /* BLAS has no integers */
}

static uint64_t draw(uint64_t *seed, const uint64_t *values, uint64_t count)
{
    return values[random_next(seed) % count];
}

/* One run a pair of types, so that a failure names it and all cores share the work. */
START_TEST(every_option)
{
    const struct case_types types = case_types[_i];
    uint64_t seed = (uint64_t)_i;
    for (uint32_t number = 0; number < case_options_count(); number += CASE_THINNING) {
        struct gemm_problem problem = {
            .dtype = types.dtype,
            .out = types.out,
            .m = draw(&seed, case_sizes, 5),
            .n = draw(&seed, case_sizes, 5),
            .k = draw(&seed, case_sizes, 5),
        };
        if (case_set_options(&problem, number))
            check_product(&problem, number % 3, PRODUCT_UNIFORM, seed, kernels_for(types.dtype));
    }
}
END_TEST

START_TEST(every_size)
{
    const struct case_types types = case_types[_i];
    const uint32_t sizes = case_sizes_count();
    uint64_t seed = 1000 + (uint64_t)_i;
    for (uint32_t number = 0; number < sizes * sizes * sizes; number += CASE_THINNING) {
        struct gemm_problem problem = {
            .dtype = types.dtype,
            .out = types.out,
            .m = case_sizes[number % sizes],
            .n = case_sizes[number / sizes % sizes],
            .k = case_sizes[number / sizes / sizes],
        };
        /* Each pair of types sees another share of the sizes; together they see all, each with
         * some option. */
        if (number % case_types_count() != (uint32_t)_i)
            continue;
        while (!case_set_options(&problem, (uint32_t)(random_next(&seed) % case_options_count())))
            continue;
        check_product(&problem, random_next(&seed) % 2, PRODUCT_UNIFORM, seed,
                      kernels_for(types.dtype));
    }
}
END_TEST

/* Past every block of `tiled` and of `openblas`, so that blocks meet in all three directions.
 * Thinned, the types share the four problems. */
START_TEST(beyond_one_block)
{
    const struct case_types types = case_types[_i];
    static const char bias; /* its address says that there is one */
    const struct gemm_problem wide = {
        .dtype = types.dtype,
        .out = types.out,
        .m = 205,
        .n = 300,
        .k = dtype_size(types.dtype) < 4 ? 1024 / dtype_size(types.dtype) + 6 : 270,
        .transa = _i & 1,
        .transb = _i & 2,
        .alpha = 1,
        .batch = 1};
    struct gemm_problem problems[] = {wide, wide, wide, wide};
    problems[1].k = 20;
    problems[1].beta = 2;
    problems[1].bias = &bias;
    problems[1].batch = 2;
    problems[2].m = problems[3].m = 1037;
    problems[2].n = problems[3].n = problems[2].k = problems[3].k = 9;
    problems[3].transa = !wide.transa;
    problems[3].beta = 1;
    for (uint32_t number = 0; number < 4; number++)
        if (CASE_THINNING == 1 || number == (uint32_t)_i / 3 % 4)
            check_product(&problems[number], number % 2 == 0, PRODUCT_UNIFORM, 2000 + number,
                          kernels_for(types.dtype));
}
END_TEST

/* Scales of each kind, with sizes around a block of 128 and past the blocks of `tiled`. */
static const struct scaled_types {
    enum gemmd_dtype dtype, out;
    enum gemm_scales scales;
    unsigned kernels; /* that take them */
} scaled_types[] = {
    {GEMMD_F8_E4M3, GEMMD_F32, GEMM_SCALES_ROWCOL, 3},
    {GEMMD_F8_E4M3, GEMMD_BF16, GEMM_SCALES_ROWCOL, 3},
    {GEMMD_F8_E4M3, GEMMD_F32, GEMM_SCALES_BLOCK, 2},
    {GEMMD_F8_E4M3, GEMMD_F16, GEMM_SCALES_BLOCK, 2},
    {GEMMD_I8, GEMMD_F32, GEMM_SCALES_ROWCOL, 2},
    {GEMMD_I8, GEMMD_F16, GEMM_SCALES_ROWCOL, 2},
    {GEMMD_I8, GEMMD_BF16, GEMM_SCALES_ROWCOL, 2},
};

START_TEST(scales)
{
    static const uint64_t sizes[] = {1, 3, 127, 128, 129, 260};
    const struct scaled_types types = scaled_types[_i];
    uint64_t seed = 3000 + (uint64_t)_i;
    for (uint32_t number = 0; number < case_options_count(); number += 7 * CASE_THINNING) {
        struct gemm_problem problem = {
            .dtype = types.dtype,
            .out = types.out,
            .scales = types.scales,
            .m = draw(&seed, sizes, 6),
            .n = draw(&seed, sizes, 6),
            .k = draw(&seed, sizes, 6),
        };
        if (case_set_options(&problem, number))
            check_product(&problem, number % 3, PRODUCT_UNIFORM, seed, types.kernels);
    }
}
END_TEST

/* A kind of scales that a type does not have is taken by no kernel. */
START_TEST(no_scales)
{
    static const struct scaled_types none[] = {
        {GEMMD_I8, GEMMD_F32, GEMM_SCALES_BLOCK, 0},   {GEMMD_I8, GEMMD_I32, GEMM_SCALES_ROWCOL, 0},
        {GEMMD_F16, GEMMD_F16, GEMM_SCALES_ROWCOL, 0}, {GEMMD_F32, GEMMD_F32, GEMM_SCALES_BLOCK, 0},
        {GEMMD_I8, GEMMD_F16, GEMM_SCALES_NONE, 0},
    };
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        const struct gemm_problem problem = {.dtype = none[i].dtype,
                                             .out = none[i].out,
                                             .scales = none[i].scales,
                                             .m = 3,
                                             .n = 3,
                                             .k = 3,
                                             .alpha = 1,
                                             .batch = 1};
        for (const struct operation_kernel *const *k =
                 operation_kernels(&operation_gemm, GEMM_BACKEND_CPU);
             *k != NULL; k++)
            ck_assert_msg(!(*k)->takes(&problem), "%s takes case %zu", (*k)->name, i);
    }
}
END_TEST

START_TEST(nan_and_infinity)
{
    const struct case_types types = case_types[_i];
    if (types.dtype == GEMMD_I8)
        return;
    for (uint32_t number = 0; number < case_options_count(); number += CASE_THINNING) {
        struct gemm_problem problem = {
            .dtype = types.dtype, .out = types.out, .m = 7, .n = 33, .k = 3};
        if (case_set_options(&problem, number))
            check_product(&problem, 1, PRODUCT_SPECIAL, number, kernels_for(types.dtype));
    }
}
END_TEST

START_TEST(overflow_of_f16)
{
    struct gemm_problem problem = {
        .dtype = GEMMD_F16, .out = GEMMD_F16, .m = 20, .n = 20, .k = 3, .alpha = 1, .batch = 1};
    check_product(&problem, 0, PRODUCT_EXTREME, 1, 3);
    problem.dtype = GEMMD_F32;
    check_product(&problem, 0, PRODUCT_EXTREME, 2, 3);
}
END_TEST

/* Rows of subnormal numbers, and rows of small numbers with subnormal products and sums, among
 * others, in products of bf16 that are longer than a block of `tiled`. */
START_TEST(subnormal_bf16)
{
    enum { M = 30, N = 40, K = 700 };
    static uint16_t a[M * K], b[K * N];
    static float all[M * N], alone[N];
    uint64_t seed = 7;
    for (uint64_t i = 0; i < M * K; i++) {
        const uint64_t row = i / K, random = random_next(&seed);
        a[i] = (uint16_t)((random & 0x807f) | (row % 3 == 0 ? 0 : row % 3 == 1 ? 0x0c00 : 0x3f00));
    }
    for (uint64_t i = 0; i < K * N; i++) /* from 2^-27 and from 2^62 on, by columns */
        b[i] = (uint16_t)((random_next(&seed) & 0x807f) | (i % 2 == 0 ? 0x3200 : 0x5e80));
    for (const struct operation_kernel *const *k =
             operation_kernels(&operation_gemm, GEMM_BACKEND_CPU);
         *k != NULL; k++) {
        struct gemm_problem p = {.dtype = GEMMD_BF16,
                                 .out = GEMMD_F32,
                                 .m = M,
                                 .n = N,
                                 .k = K,
                                 .batch = 1,
                                 .alpha = 1,
                                 .a = a,
                                 .b = b,
                                 .c = all};
        gemm_problem_contiguous(&p);
        run_kernel(*k, &p);
        for (uint64_t i = 0; i < M; i++)
            for (uint64_t j = 0; j < N; j++) {
                double sum = 0, magnitude = 0;
                for (uint64_t step = 0; step < K; step++) {
                    const double term = (double)convert_bf16_to_f32(a[i * K + step]) *
                                        (double)convert_bf16_to_f32(b[step * N + j]);
                    sum += term;
                    magnitude += fabs(term);
                }
                /* A rounding of a subnormal number has an error of 2^-150. */
                ck_assert_msg(fabs((double)all[i * N + j] - sum) <=
                                  K * (magnitude * 0x1p-24 + 0x1p-150),
                              "%s, row %lu, column %lu: %g, not %g", (*k)->name, (unsigned long)i,
                              (unsigned long)j, (double)all[i * N + j], sum);
            }
        for (uint64_t i = 0; i < M && (*k)->rows_independent; i++) {
            p.m = 1;
            p.a = a + i * K;
            p.c = alone;
            run_kernel(*k, &p);
            ck_assert_msg(memcmp(alone, all + i * N, sizeof alone) == 0,
                          "%s: row %lu has other "
                          "bits alone",
                          (*k)->name, (unsigned long)i);
        }
    }
}
END_TEST

START_TEST(sums_of_i8_wrap)
{
    struct gemm_problem problem = {.dtype = GEMMD_I8,
                                   .out = GEMMD_I32,
                                   .m = 3,
                                   .n = 2,
                                   .k = 140000, /* times 2^14 is more than 2^31 */
                                   .alpha = 3,
                                   .beta = -2,
                                   .batch = 1};
    check_product(&problem, 0, PRODUCT_EXTREME, 1, 2);
    problem.out = GEMMD_F32;
    check_product(&problem, 0, PRODUCT_EXTREME, 2, 2);
}
END_TEST

/* The same request gives the same bytes however many threads there are and however often, or
 * thinned, twice. */
START_TEST(bytes_depend_on_the_request_alone)
{
    const struct case_types types = case_types[_i];
    const struct gemm_problem like = {.dtype = types.dtype,
                                      .out = types.out,
                                      .m = 250,
                                      .n = 260,
                                      .k = 33,
                                      .alpha = 1,
                                      .batch = 1};
    struct product product;
    ck_assert(product_create(&product, &like, 0, PRODUCT_UNIFORM, 5));
    const uint64_t bytes = product.buffers[PRODUCT_C].bytes;
    unsigned char *first = malloc(bytes);
    ck_assert_ptr_nonnull(first);
    struct gemm_context *alone;
    ck_assert_uint_eq(gemm_context_create(GEMM_BACKEND_CPU, NULL, 1, &alone, NULL), GEMMD_OK);
    for (const struct operation_kernel *const *k =
             operation_kernels(&operation_gemm, GEMM_BACKEND_CPU);
         *k != NULL; k++) {
        if (!(*k)->takes(&product.problem))
            continue;
        product_poison(&product);
        run_kernel(*k, &product.problem);
        memcpy(first, product.buffers[PRODUCT_C].data, bytes);
        for (int again = 0; again < (CASE_THINNING > 1 ? 1 : 3); again++) {
            product_poison(&product);
            run_kernel(*k, &product.problem);
            ck_assert_msg(memcmp(first, product.buffers[PRODUCT_C].data, bytes) == 0,
                          "%s gives other bytes the second time", (*k)->name);
        }
        if (strcmp((*k)->name, "openblas") == 0)
            continue; /* a library whose blocks may depend on its threads */
        product_poison(&product);
        ck_assert_uint_eq(operation_run(*k, alone, &product.problem, NULL), GEMMD_OK);
        ck_assert_msg(memcmp(first, product.buffers[PRODUCT_C].data, bytes) == 0,
                      "%s gives other bytes with one thread", (*k)->name);
    }
    gemm_context_destroy(alone);
    free(first);
    product_destroy(&product);
}
END_TEST

/* Few rows, for which `tiled` reads B where it is, have the bits that they have among many. B has
 * more columns than a block, and a last one that fills no vector; k ends inside of an element. */
START_TEST(few_rows_have_the_bits_of_many)
{
    enum { FEW = 13, MANY = 26 };
    const struct case_types types = case_types[_i];
    const struct gemm_problem like = {.dtype = types.dtype,
                                      .out = types.out,
                                      .m = MANY,
                                      .n = 256 + 64 + 32 + 5,
                                      .k = 1031,
                                      .transa = _i & 1,
                                      .alpha = 1,
                                      .batch = 1};
    const struct gemm_device cpu = {.backend = GEMM_BACKEND_CPU};
    const struct operation_kernel *kernel = NULL;
    struct product product;
    ck_assert(product_create(&product, &like, 1, PRODUCT_UNIFORM, 6));
    const uint64_t bytes = product.buffers[PRODUCT_C].bytes;
    const uint64_t row_bytes = like.n * dtype_size(types.out);
    const uint64_t pitch = product.problem.ldc * dtype_size(types.out);
    unsigned char *many = malloc(bytes);
    ck_assert_ptr_nonnull(many);
    ck_assert_uint_eq(
        operation_select(&operation_gemm, &cpu, "tiled", &product.problem, &kernel, NULL),
        GEMMD_OK);
    product_poison(&product);
    run_kernel(kernel, &product.problem);
    memcpy(many, product.buffers[PRODUCT_C].data, bytes);
    for (uint64_t rows = 1; rows <= FEW; rows++) {
        struct gemm_problem few = product.problem;
        few.m = rows;
        product_poison(&product);
        run_kernel(kernel, &few);
        for (uint64_t i = 0; i < rows; i++)
            ck_assert_msg(
                memcmp((char *)few.c + i * pitch,
                       many + ((char *)few.c - (char *)product.buffers[PRODUCT_C].data) + i * pitch,
                       row_bytes) == 0,
                "row %lu of %lu has other bits", (unsigned long)i, (unsigned long)rows);
    }
    free(many);
    product_destroy(&product);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gemm_cpu");
    TCase *tests = tcase_create("kernels");
    const int types = (int)case_types_count();
    tcase_add_checked_fixture(tests, create_context, destroy_context);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, every_option, 0, types);
    tcase_add_loop_test(tests, every_size, 0, types);
    tcase_add_loop_test(tests, beyond_one_block, 0, types);
    tcase_add_loop_test(tests, scales, 0, (int)(sizeof scaled_types / sizeof scaled_types[0]));
    tcase_add_test(tests, no_scales);
    tcase_add_loop_test(tests, nan_and_infinity, 0, types);
    tcase_add_loop_test(tests, bytes_depend_on_the_request_alone, 0, types);
    tcase_add_loop_test(tests, few_rows_have_the_bits_of_many, 0, types);
    tcase_add_test(tests, overflow_of_f16);
    tcase_add_test(tests, subnormal_bf16);
    tcase_add_test(tests, sums_of_i8_wrap);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
