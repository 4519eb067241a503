/* The kernels of Hopper for operands with scales, and those for few rows of f8_e4m3: which problems
 * they take, and which kernel a problem gets. */
#include <check.h>
#include <stdlib.h>

#include "kernels/cuda/context.h"
#include "kernels/cuda/sm90/gemm/few_rows.h"

enum { MULTIPROCESSORS = 132 };

static struct gemm_problem problem_of(enum gemmd_dtype dtype, enum gemmd_dtype out,
                                      enum gemm_scales scales, uint64_t m, uint64_t n, uint64_t k)
{
    struct gemm_problem p = {.dtype = dtype,
                             .out = out,
                             .precision =
                                 dtype == GEMMD_F8_E4M3 ? GEMM_PRECISION_F8 : GEMM_PRECISION_FULL,
                             .scales = scales,
                             .transb = true,
                             .m = m,
                             .n = n,
                             .k = k,
                             .batch = 1,
                             .alpha = 1};
    gemm_problem_contiguous(&p);
    gemm_problem_scales_contiguous(&p, false, true);
    return p;
}

static const struct kind {
    enum gemmd_dtype dtype;
    enum gemm_scales scales;
} kinds[] = {{GEMMD_F8_E4M3, GEMM_SCALES_ROWCOL},
             {GEMMD_F8_E4M3, GEMM_SCALES_BLOCK},
             {GEMMD_I8, GEMM_SCALES_ROWCOL}};

START_TEST(chosen_kernels_apply_the_scales)
{
    static const enum gemmd_dtype outs[] = {GEMMD_F32, GEMMD_F16, GEMMD_BF16};
    static const uint64_t sizes[][3] = {{1, 4096, 4096}, {64, 256, 8192}, {4096, 4096, 4096}};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            const struct gemm_problem p = problem_of(kinds[_i].dtype, outs[i], kinds[_i].scales,
                                                     sizes[j][0], sizes[j][1], sizes[j][2]);
            const struct sm90_kernel *kernel = sm90_choose(&p, &sm90_h100_sxm);
            ck_assert_ptr_nonnull(kernel);
            ck_assert_int_eq(kernel->scales, (int)kinds[_i].scales);
            ck_assert(gemm_cuda_wgmma.takes(&p));
        }
}
END_TEST

/* The epilogue of 16-bit results is short. Measured 90 us instead of 105. */
START_TEST(large_products_of_i8_take_the_largest_tile)
{
    for (uint64_t side = 4096; side <= 8192; side *= 2) {
        const struct gemm_problem p =
            problem_of(GEMMD_I8, GEMMD_BF16, GEMM_SCALES_ROWCOL, side, side, side);
        ck_assert_str_eq(sm90_choose(&p, &sm90_h100_sxm)->name, "i8_128x256_1x2");
    }
}
END_TEST

/* Every type is taken by wgmma in every layout, with results of every type. */
START_TEST(every_layout_is_taken)
{
    for (unsigned i = 0; i < 16; i++) {
        struct gemm_problem p =
            problem_of(kinds[_i].dtype, GEMMD_BF16, kinds[_i].scales, 33, 130, 301);
        p.transa = i & 1;
        p.transb = i & 2;
        p.precision =
            (i & 4) != 0 && p.dtype == GEMMD_F8_E4M3 ? GEMM_PRECISION_F8 : GEMM_PRECISION_FULL;
        p.out = (i & 8) != 0 ? GEMMD_F32 : GEMMD_F16;
        gemm_problem_contiguous(&p);
        gemm_problem_scales_contiguous(&p, p.transa, p.transb);
        ck_assert(gemm_cuda_wgmma.takes(&p));
        ck_assert(gemm_cuda_scaled.takes(&p));
        ck_assert(!gemm_cuda_cublas.takes(&p) && !gemm_cuda_grouped.takes(&p) &&
                  !gemm_cuda_tensor_core.takes(&p));
    }
}
END_TEST

START_TEST(no_kernel_without_scales_takes_them)
{
    struct gemm_problem p = problem_of(kinds[_i].dtype, GEMMD_F32, kinds[_i].scales, 512, 512, 512);
    const struct sm90_kernel *plain = sm90_kernels(p.dtype, p.precision, GEMM_SCALES_NONE);
    for (; plain->name != NULL; plain++)
        ck_assert(!sm90_takes(plain, &p));
    const struct sm90_kernel *scaled = sm90_kernels(p.dtype, p.precision, p.scales);
    p.scales = GEMM_SCALES_NONE;
    for (; scaled->name != NULL; scaled++)
        ck_assert(!sm90_takes(scaled, &p));
    ck_assert(!gemm_cuda_scaled.takes(&p));
}
END_TEST

START_TEST(few_rows_of_f8)
{
    struct gemm_problem p = problem_of(GEMMD_F8_E4M3, GEMMD_BF16, GEMM_SCALES_NONE, 64, 4096, 4096);
    uint64_t few, many;
    p.precision = GEMM_PRECISION_FULL;
    ck_assert(few_rows_takes(&p));
    ck_assert(gemm_cuda_wgmma.workspace_bytes(&p, &few));
    ck_assert_uint_eq(few, 0); /* nothing is widened in memory */
    p.m = 65;
    gemm_problem_contiguous(&p);
    ck_assert(!few_rows_takes(&p));
    ck_assert(gemm_cuda_wgmma.workspace_bytes(&p, &many));
    ck_assert_uint_ge(many, 2 * p.n * p.k);
    p.m = 64;
    p.transa = true;
    gemm_problem_contiguous(&p);
    ck_assert(!few_rows_takes(&p));
    p.transa = false;
    p.k = 4090; /* rows do not begin at multiples of 16 bytes */
    gemm_problem_contiguous(&p);
    ck_assert(!few_rows_takes(&p) && gemm_cuda_wgmma.takes(&p));
    p.n = 512; /* k is cut into chunks, for which there are other kernels */
    p.k = 8192;
    gemm_problem_contiguous(&p);
    ck_assert(gemm_cuda_wgmma.workspace_bytes(&p, &few));
    ck_assert_uint_ge(few, 2 * p.n * p.k);
}
END_TEST

/* Of more than 16 rows, narrow kernels for up to one block a multiprocessor: with 32 columns for up
 * to 32 rows if B lies along k, and otherwise with 64 columns and two blocks of rows. Each kernel
 * of the table is chosen for some problem. */
START_TEST(kernels_for_few_rows_are_chosen_by_blocks)
{
    static const struct {
        uint64_t n, batch;
        bool narrow;
    } widths[] = {
        {32, 1, true},   {4096, 1, true},  {4224, 1, true}, {4225, 1, false}, {14336, 1, false},
        {1408, 3, true}, {1409, 3, false}, {1, 66, true},   {1, 133, false},
    };
    static const uint64_t rows[][2] = {{1, 8},   {8, 8},   {9, 16},  {16, 16},
                                       {17, 32}, {32, 32}, {33, 64}, {64, 64}};
    static const uint64_t depths[] = {4096, 8191, 8192};
    enum { WIDTHS = sizeof widths / sizeof widths[0], DEPTHS = sizeof depths / sizeof depths[0] };
    const struct few_rows_kernel *kernels = few_rows_kernels;
    bool chosen[64] = {0};
    for (unsigned i = 0; i < 4 * WIDTHS * DEPTHS; i++)
        for (unsigned j = 0; j < sizeof rows / sizeof rows[0]; j++) {
            const uint64_t k = depths[i / 4 / WIDTHS];
            struct gemm_problem p =
                problem_of(GEMMD_F8_E4M3, i & 1 ? GEMMD_F32 : GEMMD_F16, GEMM_SCALES_NONE,
                           rows[j][0], widths[i / 4 % WIDTHS].n, k);
            p.transb = i & 2;
            p.batch = widths[i / 4 % WIDTHS].batch;
            gemm_problem_contiguous(&p);
            const struct few_rows_kernel *kernel = few_rows_choose(&p, MULTIPROCESSORS);
            const bool narrow = widths[i / 4 % WIDTHS].narrow && rows[j][1] >= 32;
            const bool columns_32 = narrow && rows[j][1] == 32 && p.transb;
            ck_assert_uint_eq(kernel->columns, columns_32 ? 32 : 64);
            ck_assert_uint_eq(kernel->rows * kernel->row_blocks, rows[j][1]);
            ck_assert_uint_eq(kernel->row_blocks, narrow && !columns_32 ? 2 : 1);
            ck_assert_int_eq(kernel->narrow, narrow);
            ck_assert_int_eq(kernel->pair, narrow && rows[j][1] == 32 && !p.transb && k >= 8192);
            ck_assert_int_eq(kernel->b_along_k, p.transb);
            ck_assert_int_eq(kernel->f32_out, p.out == GEMMD_F32);
            ck_assert_uint_lt((uint64_t)(kernel - kernels), sizeof chosen / sizeof chosen[0]);
            chosen[kernel - kernels] = true;
        }
    for (unsigned i = 0; kernels[i].function != NULL; i++)
        ck_assert(chosen[i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sm90_scales");
    TCase *tests = tcase_create("kernels");
    const int count = (int)(sizeof kinds / sizeof kinds[0]);
    tcase_add_loop_test(tests, chosen_kernels_apply_the_scales, 0, count);
    tcase_add_test(tests, large_products_of_i8_take_the_largest_tile);
    tcase_add_loop_test(tests, every_layout_is_taken, 0, count);
    tcase_add_loop_test(tests, no_kernel_without_scales_takes_them, 0, count);
    tcase_add_test(tests, few_rows_of_f8);
    tcase_add_test(tests, kernels_for_few_rows_are_chosen_by_blocks);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
