/* Which tiles compute what on sm_90a: a function of the problem alone, so no GPU is needed. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/context.h"
#include "kernels/cuda/sm90/grid.h"
#include "kernels/cuda/sm90/sm90.h"
#include "tests/bench/tile_name.h"

static const struct {
    enum gemmd_dtype dtype, out;
    enum gemm_precision precision;
    bool along_k; /* takes operands that lie along k only */
} TYPES[] = {
    {GEMMD_BF16, GEMMD_BF16, GEMM_PRECISION_FULL, false},
    {GEMMD_BF16, GEMMD_F32, GEMM_PRECISION_FULL, false},
    {GEMMD_F16, GEMMD_F16, GEMM_PRECISION_FULL, false},
    {GEMMD_F16, GEMMD_F32, GEMM_PRECISION_FULL, false},
    {GEMMD_F16, GEMMD_BF16, GEMM_PRECISION_FULL, false}, /* f8 that was widened */
    {GEMMD_I8, GEMMD_I32, GEMM_PRECISION_FULL, true},
    {GEMMD_F32, GEMMD_F32, GEMM_PRECISION_TF32, true},
    {GEMMD_F8_E4M3, GEMMD_BF16, GEMM_PRECISION_F8, true},
    {GEMMD_F8_E4M3, GEMMD_F32, GEMM_PRECISION_F8, true},
    {GEMMD_F32, GEMMD_F32, GEMM_PRECISION_FULL, false},
};
enum {
    TYPE_COUNT = sizeof TYPES / sizeof *TYPES,
    WIDENED_F8 = 4, /* no problem of a request */
    TF32_TYPE = 6,
    F32_IN_PARTS = TYPE_COUNT - 1,
};

static struct gemm_problem problem_of(int type, uint64_t m, uint64_t n, uint64_t k)
{
    struct gemm_problem p = {.dtype = TYPES[type].dtype,
                             .out = TYPES[type].out,
                             .precision = TYPES[type].precision,
                             .transb = TYPES[type].along_k,
                             .m = m,
                             .n = n,
                             .k = k,
                             .batch = 1,
                             .alpha = 1};
    const uint64_t widest = m > n ? (m > k ? m : k) : (n > k ? n : k);
    p.lda = p.ldb = sm90_leading(widest, p.dtype);
    p.ldc = sm90_leading(n, p.out);
    return p;
}

static bool is_fused(uint64_t m, uint64_t n, uint64_t k)
{
    const struct gemm_problem p = problem_of(TYPE_COUNT - 1, m, n, k);
    return sm90_choose(&p, &sm90_h100_sxm)->fused;
}

START_TEST(every_size_and_layout_has_a_kernel)
{
    static const uint64_t SIZES[] = {1, 63, 64, 129, 1001, 4096, 100000};
    enum { COUNT = sizeof SIZES / sizeof *SIZES };
    for (int shape = 0; shape < COUNT * COUNT * COUNT; shape++) {
        struct gemm_problem p = problem_of(_i, SIZES[shape % COUNT], SIZES[shape / COUNT % COUNT],
                                           SIZES[shape / COUNT / COUNT]);
        for (int lies = 0; lies < (TYPES[_i].along_k ? 1 : 4); lies++) {
            p.transa = lies / 2 == 1;
            p.transb = TYPES[_i].along_k || lies % 2 == 1;
            const struct sm90_kernel *kernel = sm90_choose(&p, &sm90_h100_sxm);
            ck_assert_msg(kernel != NULL && sm90_takes(kernel, &p),
                          "none for %llu x %llu x %llu, operands %d", (unsigned long long)p.m,
                          (unsigned long long)p.n, (unsigned long long)p.k, lies);
        }
    }
}
END_TEST

/* The tensor core takes numbers of 32 bits that don't lie along k from registers only. */
START_TEST(tf32_of_b_along_n_swaps_the_operands)
{
    static const uint64_t SIZES[] = {1, 63, 64, 129, 1001, 4096, 100000};
    enum { COUNT = sizeof SIZES / sizeof *SIZES };
    for (int shape = 0; shape < COUNT * COUNT * COUNT; shape++) {
        struct gemm_problem p =
            problem_of(TF32_TYPE, SIZES[shape % COUNT], SIZES[shape / COUNT % COUNT],
                       SIZES[shape / COUNT / COUNT]);
        p.transb = false;
        const struct sm90_kernel *kernel = sm90_choose(&p, &sm90_h100_sxm);
        ck_assert_msg(kernel != NULL && kernel->swapped, "%llu x %llu x %llu: %s",
                      (unsigned long long)p.m, (unsigned long long)p.n, (unsigned long long)p.k,
                      kernel != NULL ? kernel->name : "none");
    }
}
END_TEST

START_TEST(tf32_of_other_layouts_does_not_swap_the_operands)
{
    struct gemm_problem p = problem_of(TF32_TYPE, 4096, 4096, 4096);
    ck_assert(!sm90_choose(&p, &sm90_h100_sxm)->swapped);
    p.transa = true;
    ck_assert_ptr_null(sm90_choose(&p, &sm90_h100_sxm));
    p.transb = false;
    ck_assert_ptr_null(sm90_choose(&p, &sm90_h100_sxm));
}
END_TEST

/* The bits of chunks are not those of one chain, so the problem decides, and never m. */
START_TEST(only_kernels_with_chunks_compute_what_is_cut)
{
    static const uint64_t ROWS[] = {1, 100, 1000, 10000, 100000};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        const struct gemm_problem cut = problem_of(_i, ROWS[i], 200, 8192);
        const struct gemm_problem whole = problem_of(_i, ROWS[i], 200, 1500);
        const bool is_cut =
            _i == TF32_TYPE ||
            ((cut.dtype == GEMMD_BF16 || cut.dtype == GEMMD_F16) && cut.out != GEMMD_F32);
        ck_assert_uint_eq(sm90_choose(&cut, &sm90_h100_sxm)->chunks, is_cut);
        ck_assert(!sm90_choose(&whole, &sm90_h100_sxm)->chunks);
    }
}
END_TEST

/* What /info?explain=gemm says of wgmma: the tile that is chosen, and its estimate. */
START_TEST(the_tile_that_is_named_is_the_tile_that_is_chosen)
{
    struct cuda_context context = {.sm90.card = sm90_h100_sxm};
    for (uint64_t m = 64; m <= 8192 && _i != WIDENED_F8; m *= 8) {
        struct operation_tile tile = {.us = 0};
        const struct gemm_problem p = problem_of(_i, m, 1024, 1024);
        const struct sm90_kernel *kernel = sm90_choose(&p, &sm90_h100_sxm);
        ck_assert(gemm_cuda_wgmma.takes(&p));
        gemm_cuda_wgmma.tile(&context.base, &p, &tile);
        ck_assert_str_eq(tile.name, kernel->name);
        ck_assert_double_eq_tol(tile.us, sm90_estimate_us(kernel, &p, &sm90_h100_sxm), 1e-6);
    }
}
END_TEST

START_TEST(chunks_of_k_and_few_rows_have_a_tile_too)
{
    struct cuda_context context = {.sm90.card = sm90_h100_sxm};
    struct operation_tile chunks = {.us = 0}, few = {.us = 0};
    struct gemm_problem p = problem_of(0, 72, 152, 65536);
    p.out = GEMMD_F32; /* the join adds the chunks */
    p.ldc = sm90_leading(152, GEMMD_F32);
    gemm_cuda_wgmma.tile(&context.base, &p, &chunks);
    ck_assert_int_eq(strncmp(chunks.name, "bf16_", 5), 0);
    ck_assert(chunks.us > 0 && isfinite(chunks.us));
    p = problem_of(0, 16, 4096, 4096);
    p.dtype = GEMMD_F8_E4M3;
    p.lda = p.ldb = 4096;
    gemm_cuda_wgmma.tile(&context.base, &p, &few);
    ck_assert_int_eq(strncmp(few.name, "few_rows_", 9), 0);
    ck_assert_double_eq(few.us, 0);
}
END_TEST

/* Few tiles: the blocks of a cluster share one; many: each block adds the chunks itself. */
START_TEST(chunks_are_shared_where_tiles_are_few)
{
    static const struct {
        int type;
        bool transb;
    } CASES[] = {{0, false}, {TF32_TYPE, false}, {TF32_TYPE, true}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct gemm_problem few = problem_of(CASES[i].type, 72, 152, 9024),
                            many = problem_of(CASES[i].type, 20000, 152, 9024);
        few.transb = many.transb = CASES[i].transb;
        ck_assert(sm90_choose(&few, &sm90_h100_sxm)->split);
        ck_assert(!sm90_choose(&many, &sm90_h100_sxm)->split);
    }
}
END_TEST

/* The products whose chunks cost most before these tiles were there (long_k.md). */
START_TEST(chunks_of_many_rows_take_tiles_that_fill_one_turn)
{
    const struct gemm_problem wide = problem_of(0, 4880, 592, 7392),
                              narrow = problem_of(0, 2464, 168, 13952);
    ck_assert_str_eq(sm90_choose(&wide, &sm90_h100_sxm)->name, "bf16_192x128_chunks");
    ck_assert_str_eq(sm90_choose(&narrow, &sm90_h100_sxm)->name, "bf16_192x192_split");
}
END_TEST

/* Where both operands are much larger than the L2, tiles that read most per product are up to 2.2
 * times as slow as the model said that looked at the L2 alone (tf32_i8.md). */
START_TEST(tf32_of_operands_larger_than_the_l2_takes_the_tile_that_reads_least)
{
    const struct gemm_problem large = problem_of(TF32_TYPE, 3072, 12288, 28672),
                              small = problem_of(TF32_TYPE, 3072, 8192, 4096);
    ck_assert_str_eq(sm90_choose(&large, &sm90_h100_sxm)->name, "tf32_192x192");
    ck_assert_str_ne(sm90_choose(&small, &sm90_h100_sxm)->name, "tf32_192x192");
}
END_TEST

/* In the last row of tiles the half of A that one block of a pair loads would be empty (choice.md).
 * Measured 431 us instead of 494. */
START_TEST(tf32_of_a_half_empty_row_of_tiles_takes_no_pairs)
{
    struct gemm_problem half = problem_of(TF32_TYPE, 640, 20480, 5120),
                        full = problem_of(TF32_TYPE, 512, 20480, 5120);
    half.transb = full.transb = false;
    ck_assert_uint_eq(sm90_choose(&half, &sm90_h100_sxm)->cluster_n, 1);
    ck_assert_uint_eq(sm90_choose(&full, &sm90_h100_sxm)->cluster_n, 2);
}
END_TEST

/* The problems of a batch do not make each other's operands larger. */
START_TEST(the_problems_of_a_batch_take_no_longer_if_there_are_more_of_them)
{
    static const struct sm90_card *const card = &sm90_h100_sxm;
    struct gemm_problem few = problem_of(TF32_TYPE, 2048, 2048, 2048), many = few;
    few.batch = 4;
    many.batch = 400;
    few.stride_a = few.stride_b = few.stride_c = 2048 * 2048;
    many.stride_a = many.stride_b = many.stride_c = 2048 * 2048;
    for (const struct sm90_kernel *kernel = sm90_kernels_tf32; kernel->name != NULL; kernel++)
        if (sm90_takes(kernel, &few))
            ck_assert_double_le(sm90_estimate_us(kernel, &many, card),
                                100 * sm90_estimate_us(kernel, &few, card));
}
END_TEST

/* Two tiles leave no registers for C0. */
START_TEST(a_product_with_c0_takes_kernels_that_read_it)
{
    for (uint64_t m = 64; m <= 16384; m *= 2) {
        for (uint64_t n = 64; n <= 16384; n *= 2) {
            struct gemm_problem p = problem_of(0, m, n, 4096);
            p.beta = 1;
            p.ldc0 = p.ldc;
            ck_assert(sm90_choose(&p, &sm90_h100_sxm)->takes_c0);
        }
    }
}
END_TEST

START_TEST(the_estimates_of_the_largest_products_are_numbers)
{
    const struct gemm_problem p = problem_of(_i, INT32_MAX, 1, INT32_MAX);
    const struct sm90_kernel *kernel = sm90_kernels(p.dtype, p.precision, p.scales);
    for (; kernel->name != NULL; kernel++) {
        const double us = sm90_estimate_us(kernel, &p, &sm90_h100_sxm);
        ck_assert_msg(isfinite(us) && us > 0, "%s: %g", kernel->name, us);
    }
}
END_TEST

/* Measured: 29 and 56 us instead of 140, see kernels/experiments/f32.md. */
START_TEST(f32_of_few_rows_is_fused)
{
    ck_assert(is_fused(1, 4096, 4096));
    ck_assert(is_fused(64, 4096, 4096));
}
END_TEST

/* Measured (choice.md): other tiles took 8 to 19 % longer. */
START_TEST(large_short_and_few_rows_take_the_tiles_that_measured_best)
{
    static const struct {
        uint64_t m, n, k;
        const char *name;
    } CASES[] = {{7248, 6536, 3024, "bf16_128x192_pp"},  {4095, 4097, 515, "bf16_128x192_pp"},
                 {5000, 32768, 8192, "bf16_128x192_pp"}, {640, 57344, 8192, "bf16_128x192_pp"},
                 {8, 12288, 28672, "bf16_128x96"},       {64, 9216, 8192, "bf16_128x96"}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const struct gemm_problem p = problem_of(0, CASES[i].m, CASES[i].n, CASES[i].k);
        ck_assert_str_eq(sm90_choose(&p, &sm90_h100_sxm)->name, CASES[i].name);
    }
}
END_TEST

/* Enough tiles for all multiprocessors; where there are anyway, wider ones, B on the left. */
START_TEST(f32_of_few_rows_takes_the_tiles_that_measured_best)
{
    static const struct {
        uint64_t m, n;
        const char *name;
    } CASES[] = {{1, 1000, "f32_1x16"},          {1, 4096, "f32_1x32"},
                 {1, 5120, "f32_1x48"},          {1, 8192, "f32_1x64"},
                 {1, 14336, "f32_1x112"},        {1, 28672, "f32_1x112"},
                 {8, 4096, "f32_8x32_streamed"}, {16, 4096, "f32_16x32_streamed"},
                 {64, 4096, "f32_64x32_fused"},  {8, 14336, "f32_8x32_streamed"},
                 {16, 14336, "f32_16x64_fused"}, {64, 14336, "f32_64x64_fused"}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const struct gemm_problem p = problem_of(TYPE_COUNT - 1, CASES[i].m, CASES[i].n, 4096);
        ck_assert_str_eq(sm90_choose(&p, &sm90_h100_sxm)->name, CASES[i].name);
    }
    /* Both are bound by device memory; the fused kernel takes 8 % longer. */
    const struct gemm_problem wide = problem_of(TYPE_COUNT - 1, 16, 8192, 8192);
    ck_assert_str_eq(sm90_choose(&wide, &sm90_h100_sxm)->name, "f32_16x32_streamed");
}
END_TEST

/* The copy engine reads rows that start at multiples of 16 bytes. */
START_TEST(f32_of_few_rows_in_any_layout_has_a_kernel)
{
    struct gemm_problem layouts[6];
    for (size_t i = 0; i < 6; i++)
        layouts[i] = problem_of(TYPE_COUNT - 1, 4, 4096, 4096);
    layouts[0].lda++;
    layouts[1].ldb++;
    layouts[2].a = (const void *)(uintptr_t)4;
    layouts[3].b = (const void *)(uintptr_t)8;
    layouts[4].transa = true;
    layouts[5].batch = 2; /* of one A */
    for (size_t i = 0; i < 6; i++) {
        const struct sm90_kernel *kernel = sm90_choose(&layouts[i], &sm90_h100_sxm);
        ck_assert_msg(kernel != NULL && kernel->fused && kernel->consumers > 0, "%zu: %s", i,
                      kernel == NULL ? "none" : kernel->name);
    }
}
END_TEST

/* Measured: a fused kernel takes 1.18 times as long for 345 rows and 0.81 times as long for 227
 * rows. With a short k, storing the tiles takes most of the time: fused kernels take 1.35 to 2.8
 * times as long. */
START_TEST(f32_of_many_rows_reads_parts)
{
    ck_assert(is_fused(227, 2048, 6144));
    ck_assert(!is_fused(345, 4096, 4096));
    ck_assert(!is_fused(4096, 4096, 4096));
    ck_assert(!is_fused(466, 14304, 64));
    ck_assert(!is_fused(1776, 1688, 96));
    ck_assert(!is_fused(565, 456, 96));
}
END_TEST

/* Ping-pong hides what follows the sums; measured 0.95 of cuBLASLt instead of 0.83. */
START_TEST(a_fused_product_can_take_other_tiles)
{
    struct gemm_problem p = problem_of(0, 1024, 14336, 4096);
    p.act = GEMM_ACT_GELU_TANH;
    const struct sm90_kernel *kernel = sm90_choose(&p, &sm90_h100_sxm);
    ck_assert_msg(kernel->pingpong, "%s", kernel->name);
}
END_TEST

/* Measured: 0.94 to 1.04 of cuBLASLt instead of 0.86 to 0.90, see kernels/experiments/wgmma.md. */
START_TEST(columns_that_are_no_multiple_of_128_take_tiles_of_96_or_160)
{
    static const struct {
        uint64_t m, n, k;
        const char *name;
    } CASES[] = {{1000, 5120, 5120, "bf16_256x160"},
                 {640, 20480, 5120, "bf16_128x160_pp"},
                 {384, 4096, 4096, "bf16_128x96"},
                 {2, 5120, 20480, "bf16_64x96"}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const struct gemm_problem p = problem_of(0, CASES[i].m, CASES[i].n, CASES[i].k);
        ck_assert_str_eq(sm90_choose(&p, &sm90_h100_sxm)->name, CASES[i].name);
    }
}
END_TEST

/* One row of tiles: B leaves the L2 before the results. Measured 15.9 us instead of 17.5. */
START_TEST(wide_products_of_short_sums_take_tiles_that_read_b_once)
{
    const struct gemm_problem p = problem_of(0, 100, 30000, 513);
    const struct sm90_kernel *kernel = sm90_choose(&p, &sm90_h100_sxm);
    ck_assert_msg(kernel->tile_m == 128 && kernel->tile_n == 128 && kernel->cluster_m == 1, "%s",
                  kernel->name);
}
END_TEST

/* The same; they read device memory faster. Measured 42.1 us instead of 44.2. */
START_TEST(wide_products_of_few_rows_take_tiles_that_read_b_once)
{
    static const uint64_t ROWS[] = {1, 16, 64};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        const struct gemm_problem p = problem_of(0, ROWS[i], 14336, 4096);
        ck_assert_str_eq(sm90_choose(&p, &sm90_h100_sxm)->name, "bf16_128x128");
    }
}
END_TEST

/* An H200 has the multiprocessors of an H100 and 1.44 times the bandwidth of its memory. */
START_TEST(a_card_with_faster_memory_shortens_what_memory_bounds)
{
    struct sm90_card card = sm90_h100_sxm;
    card.memory_rate = 1.44;
    const struct gemm_problem row = problem_of(0, 1, 14336, 4096);
    const struct gemm_problem square = problem_of(0, 8192, 8192, 8192);
    const struct sm90_kernel *kernel = sm90_choose(&row, &card);
    ck_assert_double_lt(sm90_estimate_us(kernel, &row, &card),
                        0.85 * sm90_estimate_us(kernel, &row, &sm90_h100_sxm));
    kernel = sm90_choose(&square, &card);
    ck_assert_double_gt(sm90_estimate_us(kernel, &square, &card),
                        0.97 * sm90_estimate_us(kernel, &square, &sm90_h100_sxm));
}
END_TEST

/* What a tile reads again does not fit a small L2: 192x192 reads less than the others. */
START_TEST(a_card_with_a_small_l2_reads_more_again)
{
    struct sm90_card card = sm90_h100_sxm;
    card.l2_size = 0.5;
    const int type = TF32_TYPE;
    struct gemm_problem p = problem_of(type, 4096, 4096, 16384);
    p.transb = true;
    p.ldb = p.k;
    const struct sm90_kernel *kernel = sm90_choose(&p, &card);
    ck_assert_double_gt(sm90_estimate_us(kernel, &p, &card),
                        sm90_estimate_us(kernel, &p, &sm90_h100_sxm));
}
END_TEST

/* Whole tiles in full waves, then at most one half tile in each multiprocessor, and a second one in
 * those that have a whole tile fewer. */
START_TEST(half_tiles_take_the_place_of_the_last_wave)
{
    static const uint64_t ROWS[] = {1, 128, 1000, 5000, 6904, 13768};
    static const uint64_t COLUMNS[] = {8, 200, 640, 1384, 3208, 11080};
    enum { COUNT = sizeof ROWS / sizeof *ROWS };
    const uint64_t blocks = sm90_h100_sxm.multiprocessors;
    int with_halves = 0;
    for (int shape = 0; shape < COUNT * COUNT; shape++) {
        const struct gemm_problem p =
            problem_of(0, ROWS[shape % COUNT], COLUMNS[shape / COUNT], 216);
        for (const struct sm90_kernel *kernel = sm90_kernels_bf16; kernel->name != NULL; kernel++) {
            const struct sm90_tile_rows rows = sm90_tile_rows(kernel, &p, &sm90_h100_sxm);
            const uint64_t height = (uint64_t)kernel->tile_m * kernel->cluster_m;
            const uint64_t width = (uint64_t)kernel->tile_n * kernel->cluster_n;
            const uint64_t columns = (p.n + width - 1) / width, tiles = rows.whole * columns;
            const uint64_t last = rows.half > 0 ? height / 2 : height; /* the last row of tiles */
            const uint64_t end = rows.whole * height + rows.half * height / 2;
            ck_assert_uint_ge(end, p.m);
            ck_assert_uint_lt(end - p.m, last);
            if (rows.half == 0)
                continue;
            with_halves++;
            ck_assert(kernel->halves);
            ck_assert_uint_gt(rows.whole, 0);
            ck_assert_uint_le(rows.half * columns, blocks + (blocks - tiles % blocks) % blocks);
        }
    }
    ck_assert_int_gt(with_halves, 0);
}
END_TEST

START_TEST(batches_and_a_b_that_does_not_stay_in_the_l2_have_no_half_tiles)
{
    const struct sm90_kernel *kernel = sm90_kernels_bf16;
    while (kernel->tile_m != 128 || kernel->tile_n != 192 || !kernel->pingpong)
        kernel++;
    struct gemm_problem p = problem_of(0, 7024, 2488, 2064);
    struct sm90_card card = sm90_h100_sxm;
    ck_assert_uint_gt(sm90_tile_rows(kernel, &p, &card).half, 0);
    p.batch = 2;
    ck_assert_uint_eq(sm90_tile_rows(kernel, &p, &card).half, 0);
    p.batch = 1;
    p.k = 8192;
    ck_assert_uint_eq(sm90_tile_rows(kernel, &p, &card).half, 0);
    card.l2_size = 2;
    ck_assert_uint_gt(sm90_tile_rows(kernel, &p, &card).half, 0);
}
END_TEST

/* fit_tiles.py knows of a kernel what its name says. */
START_TEST(the_name_of_a_tile_says_all_that_the_model_reads)
{
    static const struct {
        enum gemmd_dtype dtype;
        const struct sm90_kernel *kernels;
    } TABLES[] = {{GEMMD_BF16, sm90_kernels_bf16},
                  {GEMMD_F16, sm90_kernels_f16},
                  {GEMMD_I8, sm90_kernels_i8},
                  {GEMMD_F32, sm90_kernels_tf32},
                  {GEMMD_F8_E4M3, sm90_kernels_f8}};
    for (const struct sm90_kernel *k = TABLES[_i].kernels; k->name != NULL; k++) {
        struct sm90_kernel named;
        const char *name = strchr(k->name, '_') + 1;
        ck_assert_msg(bench_tile_of(name, TABLES[_i].dtype, &named), "%s", k->name);
        ck_assert_msg(named.tile_m == k->tile_m && named.tile_n == k->tile_n &&
                          named.tile_k == k->tile_k && named.cluster_m == k->cluster_m &&
                          named.cluster_n == k->cluster_n && named.consumers == k->consumers &&
                          named.pingpong == k->pingpong && named.swapped == k->swapped &&
                          named.half_box == k->half_box && named.halves == k->halves &&
                          named.chunks == k->chunks && named.split == k->split,
                      "%s", k->name);
    }
}
END_TEST

/* wgmma takes a problem if a kernel does, without an estimate. */
START_TEST(a_problem_is_taken_if_a_kernel_can_be_chosen)
{
    static const uint64_t SIZES[] = {1, 129, 1001, 100000};
    enum { COUNT = sizeof SIZES / sizeof *SIZES };
    for (int shape = 0; shape < COUNT * COUNT * COUNT * 4; shape++) {
        struct gemm_problem p = problem_of(_i, SIZES[shape % COUNT], SIZES[shape / COUNT % COUNT],
                                           SIZES[shape / COUNT / COUNT % COUNT]);
        p.transa = shape / COUNT / COUNT / COUNT / 2 == 1;
        p.transb = shape / COUNT / COUNT / COUNT % 2 == 1;
        ck_assert_uint_eq(sm90_any_takes(&p), (sm90_choose(&p, &sm90_h100_sxm) != NULL));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sm90_choose");
    TCase *tests = tcase_create("choose");
    tcase_add_loop_test(tests, every_size_and_layout_has_a_kernel, 0, TYPE_COUNT);
    tcase_add_loop_test(tests, a_problem_is_taken_if_a_kernel_can_be_chosen, 0, TYPE_COUNT);
    tcase_add_loop_test(tests, the_name_of_a_tile_says_all_that_the_model_reads, 0, 5);
    tcase_add_loop_test(tests, only_kernels_with_chunks_compute_what_is_cut, 0, TYPE_COUNT);
    tcase_add_loop_test(tests, the_tile_that_is_named_is_the_tile_that_is_chosen, 0, F32_IN_PARTS);
    tcase_add_test(tests, chunks_of_k_and_few_rows_have_a_tile_too);
    tcase_add_test(tests, chunks_are_shared_where_tiles_are_few);
    tcase_add_test(tests, chunks_of_many_rows_take_tiles_that_fill_one_turn);
    tcase_add_test(tests, tf32_of_operands_larger_than_the_l2_takes_the_tile_that_reads_least);
    tcase_add_test(tests, tf32_of_a_half_empty_row_of_tiles_takes_no_pairs);
    tcase_add_test(tests, the_problems_of_a_batch_take_no_longer_if_there_are_more_of_them);
    tcase_add_test(tests, a_product_with_c0_takes_kernels_that_read_it);
    tcase_add_loop_test(tests, the_estimates_of_the_largest_products_are_numbers, 0, TYPE_COUNT);
    tcase_add_test(tests, tf32_of_b_along_n_swaps_the_operands);
    tcase_add_test(tests, tf32_of_other_layouts_does_not_swap_the_operands);
    tcase_add_test(tests, f32_of_few_rows_is_fused);
    tcase_add_test(tests, f32_of_few_rows_in_any_layout_has_a_kernel);
    tcase_add_test(tests, large_short_and_few_rows_take_the_tiles_that_measured_best);
    tcase_add_test(tests, f32_of_few_rows_takes_the_tiles_that_measured_best);
    tcase_add_test(tests, f32_of_many_rows_reads_parts);
    tcase_add_test(tests, a_fused_product_can_take_other_tiles);
    tcase_add_test(tests, columns_that_are_no_multiple_of_128_take_tiles_of_96_or_160);
    tcase_add_test(tests, wide_products_of_short_sums_take_tiles_that_read_b_once);
    tcase_add_test(tests, wide_products_of_few_rows_take_tiles_that_read_b_once);
    tcase_add_test(tests, a_card_with_faster_memory_shortens_what_memory_bounds);
    tcase_add_test(tests, a_card_with_a_small_l2_reads_more_again);
    tcase_add_test(tests, half_tiles_take_the_place_of_the_last_wave);
    tcase_add_test(tests, batches_and_a_b_that_does_not_stay_in_the_l2_have_no_half_tiles);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
