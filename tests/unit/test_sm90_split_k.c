/* Deep products in chunks of k: where they are cut and which problems the chunks are. The chunks'
 * products, computed here, add up to the whole. */
#include <check.h>
#include <stdlib.h>

#include "kernels/cuda/sm90/gemm/split_k.h"
#include "proto/dtype.h"
#include "tests/product/random.h"

static struct gemm_problem problem_of(enum gemmd_dtype dtype, uint64_t m, uint64_t n, uint64_t k)
{
    return (struct gemm_problem){.dtype = dtype,
                                 .out = dtype == GEMMD_I8 ? GEMMD_I32 : GEMMD_F32,
                                 .precision = GEMM_PRECISION_TF32,
                                 .m = m,
                                 .n = n,
                                 .k = k,
                                 .batch = 1,
                                 .alpha = 1};
}

static uint64_t chunk_of(enum gemmd_dtype dtype, uint64_t m, uint64_t n, uint64_t k)
{
    const struct gemm_problem p = problem_of(dtype, m, n, k);
    struct split_k split;
    ck_assert(split_k_plan(&p, &split));
    return split.chunk;
}

START_TEST(few_columns_and_much_k_are_cut)
{
    ck_assert_uint_eq(chunk_of(GEMMD_BF16, 1, 64, 6143), 0);
    ck_assert_uint_eq(chunk_of(GEMMD_BF16, 1, 64, 6144), 1024);
    ck_assert_uint_eq(chunk_of(GEMMD_BF16, 1, 65, 8191), 0);
    ck_assert_uint_eq(chunk_of(GEMMD_BF16, 1, 65, 8192), 2048);
    ck_assert_uint_eq(chunk_of(GEMMD_F16, 1, 256, 16383), 0);
    ck_assert_uint_eq(chunk_of(GEMMD_F16, 1, 256, 16384), 4096);
    ck_assert_uint_eq(chunk_of(GEMMD_F16, 1, 257, 1 << 20), 0);
    ck_assert_uint_eq(chunk_of(GEMMD_I8, 1, 64, 12287), 0);
    ck_assert_uint_eq(chunk_of(GEMMD_I8, 1, 64, 12288), 2048);
    ck_assert_uint_eq(chunk_of(GEMMD_I8, 1, 256, 12288), 2048);
    ck_assert_uint_eq(chunk_of(GEMMD_F32, 1, 64, 16384), 0); /* one launch adds its chunks */
    ck_assert_uint_eq(chunk_of(GEMMD_F32, 1, 64, 16385), 512);
    ck_assert_uint_eq(chunk_of(GEMMD_F32, 1, 256, 16385), 2048);
    ck_assert_uint_eq(chunk_of(GEMMD_BF16, 1, 1, 1 << 20), 8192); /* 128 of them */
}
END_TEST

START_TEST(neither_rows_nor_the_batch_move_a_cut)
{
    for (uint64_t n = 1; n <= 256; n += 51) {
        for (uint64_t k = 4000; k < 300000; k += 7777) {
            struct gemm_problem p = problem_of(GEMMD_BF16, 1, n, k);
            const uint64_t chunk = chunk_of(p.dtype, 1, n, k);
            struct split_k split;
            ck_assert_uint_eq(chunk_of(p.dtype, 100000, n, k), chunk);
            p.batch = 7;
            ck_assert(split_k_plan(&p, &split));
            ck_assert_uint_eq(split.chunk, chunk);
            ck_assert(chunk == 0 || (split.count >= 4 && split.count <= 128 &&
                                     (split.count - 1) * chunk < k && split.count * chunk >= k));
        }
    }
}
END_TEST

/* Chunks that one launch adds: of products of 16-bit types with results of 16 bits. */
static uint32_t chunks_of(uint64_t m, uint64_t n, uint64_t k)
{
    struct gemm_problem p = problem_of(GEMMD_BF16, m, n, k);
    p.out = GEMMD_BF16;
    return split_k_chunks(&p);
}

START_TEST(up_to_768_columns_have_chunks_that_one_launch_adds)
{
    ck_assert_uint_eq(chunks_of(1, 1, 3071), 1);
    ck_assert_uint_eq(chunks_of(1, 1, 3072), 4);
    ck_assert_uint_eq(chunks_of(1, 256, 8191), 4);
    ck_assert_uint_eq(chunks_of(1, 256, 8192), 8);
    ck_assert_uint_eq(chunks_of(1, 256, 16384), 8);
    ck_assert_uint_eq(chunks_of(1, 256, 16385), 1); /* chunks that are products of their own */
    ck_assert_uint_eq(chunks_of(1, 257, 6143), 1);
    ck_assert_uint_eq(chunks_of(1, 257, 6144), 4);
    ck_assert_uint_eq(chunks_of(1, 768, UINT64_C(1) << 31), 8);
    ck_assert_uint_eq(chunks_of(1, 769, 1 << 20), 1);
    struct gemm_problem p = problem_of(GEMMD_BF16, 1, 64, 6144);
    ck_assert_uint_eq(split_k_chunks(&p), 1); /* a result of 32 bits */
    p = problem_of(GEMMD_I8, 1, 64, 12288);
    ck_assert_uint_eq(split_k_chunks(&p), 1);
}
END_TEST

START_TEST(products_of_tf32_have_chunks_that_one_launch_adds)
{
    static const struct {
        uint64_t n, k;
        uint32_t chunks;
    } CASES[] = {
        {1, 1535, 1},       {1, 1536, 8},    {512, 1536, 8},  {256, 16384, 8},
        {256, 16385, 1},    {257, 16385, 8}, {513, 2047, 1},  {513, 2048, 4},
        {768, 8191, 4},     {768, 8192, 8},  {769, 3071, 1},  {769, 3072, 4},
        {1024, 1 << 20, 4}, {1025, 4095, 1}, {1664, 4096, 4}, {1665, 1 << 20, 1},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct gemm_problem p = problem_of(GEMMD_F32, 1, CASES[i].n, CASES[i].k);
        ck_assert_uint_eq(split_k_chunks(&p), CASES[i].chunks);
        p.m = 100000;
        p.batch = 5;
        ck_assert_uint_eq(split_k_chunks(&p), CASES[i].chunks);
        p.out = GEMMD_F16;
        ck_assert_uint_eq(split_k_chunks(&p), CASES[i].chunks);
        p.precision = GEMM_PRECISION_FULL;
        ck_assert_uint_eq(split_k_chunks(&p), 1);
    }
}
END_TEST

/* No product is cut twice. */
START_TEST(chunks_that_one_launch_adds_are_not_launched_apart)
{
    for (uint64_t n = 1; n <= 1000; n += 37) {
        for (uint64_t k = 1000; k < 100000; k += 999) {
            struct gemm_problem p = problem_of(GEMMD_F16, 1, n, k);
            struct split_k split;
            p.out = GEMMD_F16;
            ck_assert(split_k_plan(&p, &split));
            ck_assert(split.chunk == 0 || split_k_chunks(&p) == 1);
            const uint32_t chunks = split_k_chunks(&p);
            p.m = 100000;
            p.batch = 5;
            ck_assert_uint_eq(split_k_chunks(&p), chunks);
        }
    }
}
END_TEST

/* What a kernel would do. */
static void multiply(const struct gemm_problem *p)
{
    ck_assert_double_eq(p->alpha, 1);
    ck_assert_double_eq(p->beta, 0);
    ck_assert_uint_eq(p->act, GEMM_ACT_NONE);
    ck_assert_ptr_null(p->bias);
    ck_assert_ptr_null(p->c0);
    ck_assert_uint_eq(p->ldc % 4, 0);
    for (uint64_t b = 0; b < p->batch; b++) {
        const float *x = (const float *)p->a + b * p->stride_a;
        const float *y = (const float *)p->b + b * p->stride_b;
        float *c = (float *)p->c + b * p->stride_c;
        for (uint64_t i = 0; i < p->m * p->n; i++) {
            const uint64_t row = i / p->n, column = i % p->n;
            float sum = 0;
            for (uint64_t k = 0; k < p->k; k++)
                sum += x[p->transa ? k * p->lda + row : row * p->lda + k] *
                       y[p->transb ? column * p->ldb + k : k * p->ldb + column];
            c[row * p->ldc + column] = sum;
        }
    }
}

static float *drawn(uint64_t count, uint64_t *seed)
{
    float *x = malloc(count * sizeof *x);
    ck_assert_ptr_nonnull(x);
    for (uint64_t i = 0; i < count; i++)
        x[i] = (float)(random_next(seed) % 5) - 2; /* sums are exact */
    return x;
}

/* Both transposes, a short last chunk or none, one matrix or three. */
START_TEST(chunks_add_up_to_the_product)
{
    const uint64_t m = 3, n = 5, k = _i & 4 ? 16896 : 17000, batch = _i & 8 ? 3 : 1;
    struct gemm_problem p = problem_of(GEMMD_F32, m, n, k);
    p.transa = _i & 1;
    p.transb = _i & 2;
    p.batch = batch;
    p.alpha = 3; /* and what follows, which is not the chunks' */
    p.beta = 2;
    p.act = GEMM_ACT_RELU;
    gemm_problem_contiguous(&p);
    uint64_t seed = 1;
    float *a = drawn(batch * m * k, &seed), *b = drawn(batch * k * n, &seed);
    float *c = drawn(batch * m * n, &seed);
    p.a = a;
    p.b = b;
    p.bias = p.c0 = c;
    struct split_k split;
    ck_assert(split_k_plan(&p, &split));
    ck_assert_uint_eq(split.chunk, 512);
    ck_assert_uint_ge(split.bytes, split.count * batch * split.stride * sizeof(float));
    float *sums = calloc(split.bytes, 1);
    ck_assert_ptr_nonnull(sums);
    for (uint64_t i = 0; i < split_k_launches(&split, &p); i++) {
        const struct gemm_problem part = split_k_problem(&split, &p, i, sums);
        multiply(&part);
    }
    float *all = calloc(batch * split.stride, sizeof(float));
    ck_assert_ptr_nonnull(all);
    const struct gemm_problem whole = split_k_one_launch(&split, &p, all);
    multiply(&whole);
    for (uint64_t i = 0; i < batch * split.stride; i++) {
        float sum = 0;
        for (uint64_t chunk = 0; chunk < split.count; chunk++)
            sum += sums[chunk * batch * split.stride + i];
        ck_assert_float_eq(sum, all[i]);
    }
    free(all);
    free(sums);
    free(a);
    free(b);
    free(c);
}
END_TEST

START_TEST(sums_beyond_64_bits_are_refused)
{
    struct gemm_problem p = problem_of(GEMMD_BF16, UINT64_MAX / 64, 64, 8192);
    struct split_k split;
    ck_assert(!split_k_plan(&p, &split));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("split_k");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, up_to_768_columns_have_chunks_that_one_launch_adds);
    tcase_add_test(tc, products_of_tf32_have_chunks_that_one_launch_adds);
    tcase_add_test(tc, chunks_that_one_launch_adds_are_not_launched_apart);
    tcase_add_test(tc, few_columns_and_much_k_are_cut);
    tcase_add_test(tc, neither_rows_nor_the_batch_move_a_cut);
    tcase_add_loop_test(tc, chunks_add_up_to_the_product, 0, 16);
    tcase_add_test(tc, sums_beyond_64_bits_are_refused);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
