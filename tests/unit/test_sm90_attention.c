/* Which attention kernel and which of flash_wgmma's tiles compute what on sm_90a: functions of a
 * request's own sizes, so no GPU is needed. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/decode.h"
#include "kernels/cuda/context.h"
#include "kernels/cuda/sm90/attention/decode_wgmma.h"
#include "kernels/cuda/sm90/attention/flash_wgmma.h"
#include "kernels/operations.h"
#include "kernels/subproblem.h"

static struct attention_problem problem_of(uint64_t heads, uint64_t kv_heads, uint64_t sq,
                                           uint64_t skv, uint64_t d)
{
    struct attention_problem p = {.dtype = GEMMD_BF16,
                                  .batch = 1,
                                  .heads = heads,
                                  .kv_heads = kv_heads,
                                  .sq = sq,
                                  .skv = skv,
                                  .d = d,
                                  .dv = d,
                                  .scale = 1};
    p.q_strides = p.o_strides = attention_strides(ATTENTION_BHSD, heads, sq, d);
    p.k_strides = p.v_strides = attention_strides(ATTENTION_BHSD, kv_heads, skv, d);
    return p;
}

static const char *chosen_on(uint32_t compute_capability, const struct attention_problem *p)
{
    const struct gemm_device device = {.backend = GEMM_BACKEND_CUDA,
                                       .compute_capability = compute_capability};
    const struct operation_kernel *kernel = NULL;
    struct fault fault = {0};
    ck_assert_msg(operation_select(&operation_attention, &device, "auto", p, &kernel, &fault) ==
                      GEMMD_OK,
                  "%s", fault.detail);
    return kernel->name;
}

static const struct {
    uint64_t heads, kv_heads, sq, skv;
    const char *name;
} FEW_QUERIES[] = {
    {32, 32, 1, 8192, "decode"},      {32, 32, 15, 512, "decode"},
    {32, 32, 16, 1, "flash_wgmma"},   {32, 32, 16, 2048, "flash_wgmma"},
    {32, 32, 16, 2049, "decode"},     {31, 31, 16, 77, "decode"},
    {32, 32, 17, 512, "flash_wgmma"}, {32, 32, 32, 8192, "flash_wgmma"},
    {32, 32, 32, 8193, "decode"},     {32, 32, 33, 9000, "flash_wgmma"},
    {32, 8, 8, 8192, "decode"},       {32, 16, 16, 512, "decode"},
    {31, 31, 17, 992, "flash_wgmma"}, {31, 31, 17, 993, "decode"},
    {8, 8, 32, 256, "flash_wgmma"},   {8, 8, 32, 257, "decode"},
};

START_TEST(few_queries_go_to_the_faster_kernel)
{
    struct attention_problem p = problem_of(FEW_QUERIES[_i].heads, FEW_QUERIES[_i].kv_heads,
                                            FEW_QUERIES[_i].sq, FEW_QUERIES[_i].skv, 128);
    ck_assert_str_eq(chosen_on(90, &p), FEW_QUERIES[_i].name);
    /* The kernels' bits may differ, so the choice must not depend on the rest of the launch. */
    p.batch = 1000;
    ck_assert_str_eq(chosen_on(90, &p), FEW_QUERIES[_i].name);
}
END_TEST

START_TEST(a_preferred_kernel_must_take_the_problem)
{
    struct attention_problem p = problem_of(4, 4, 20, 100, 128);
    const struct operation_kernel *kernel = NULL;
    struct fault fault = {0};
    const struct gemm_device hopper = {.backend = GEMM_BACKEND_CUDA, .compute_capability = 90};
    ck_assert_str_eq(chosen_on(80, &p), "decode");
    ck_assert_int_eq(operation_select(&operation_attention, &hopper, "decode", &p, &kernel, &fault),
                     GEMMD_OK);
    ck_assert_str_eq(kernel->name, "decode");
    p.k_strides.row++; /* not aligned for the copy engine */
    ck_assert_str_eq(chosen_on(90, &p), "decode");
}
END_TEST

/* The choice among kernels of other bits may depend on the lengths and the mask of an entry only.
 */
START_TEST(the_batch_and_the_heads_do_not_change_the_bits)
{
    static const uint64_t lengths[] = {77, 128, 129, 197, 256, 512, 513, 1024, 1537, 4096};
    enum { COUNT = sizeof lengths / sizeof *lengths };
    for (int q = 0; q < COUNT; q++) {
        for (int k = 0; k < COUNT; k++) {
            struct attention_problem one = problem_of(1, 1, lengths[q], lengths[k], 64);
            struct attention_problem many = problem_of(128, 16, lengths[q], lengths[k], 64);
            one.causal = many.causal = _i == 1;
            one.windowed = many.windowed = _i == 2;
            many.batch = 100;
            ck_assert_ptr_eq(attention_wgmma_choose(&one), attention_wgmma_choose(&many));
        }
    }
}
END_TEST

/* In ascending order of width, and kernels of the same bits are not twice in the table. */
START_TEST(the_table_is_in_order)
{
    const struct attention_wgmma_kernel *first =
        attention_wgmma_kernels(_i == 0 ? GEMMD_BF16 : GEMMD_F16);
    for (const struct attention_wgmma_kernel *kernel = first; kernel[1].name != NULL; kernel++) {
        ck_assert_uint_le(kernel[0].width, kernel[1].width);
        for (const struct attention_wgmma_kernel *other = first; other != kernel; other++)
            ck_assert(!attention_wgmma_same_bits(kernel, other) || kernel->tile_m != other->tile_m);
    }
}
END_TEST

static const struct {
    uint64_t sq, skv;
    bool causal;
    uint32_t tile_m, tile_n;
    bool keeps_base;
} QUERIES[] = {
    {128, 128, false, 128, 128, false},  {256, 8192, false, 128, 128, false},
    {192, 192, false, 192, 128, false},  {197, 197, false, 256, 64, false},
    {256, 256, false, 256, 64, false},   {256, 256, true, 128, 128, false},
    {384, 384, false, 192, 128, false},  {512, 512, false, 256, 64, false},
    {513, 513, false, 192, 128, false},  {1023, 1023, false, 192, 128, false},
    {1024, 1024, false, 192, 128, true}, {1024, 1024, true, 128, 128, false},
    {512, 512, true, 128, 128, false},   {576, 576, true, 192, 128, false},
    {1536, 1536, true, 128, 128, false}, {1537, 1537, true, 192, 128, true},
    {1024, 4096, true, 192, 128, true},  {4096, 4096, true, 192, 128, true},
    {4096, 4096, false, 192, 128, true},
};

START_TEST(queries_get_the_tile_that_wastes_less)
{
    struct attention_problem p = problem_of(8, 8, QUERIES[_i].sq, QUERIES[_i].skv, 64);
    p.causal = QUERIES[_i].causal;
    const struct attention_wgmma_kernel *kernel = attention_wgmma_choose(&p);
    ck_assert_uint_eq(kernel->tile_m, QUERIES[_i].tile_m);
    ck_assert_uint_eq(kernel->tile_n, QUERIES[_i].tile_n);
    ck_assert_int_eq(kernel->keeps_base, QUERIES[_i].keeps_base);
}
END_TEST

/* One step over keys, whatever the batch; the kernel has the bits of the tiles. */
START_TEST(few_keys_get_a_kernel_of_one_step)
{
    const struct attention_wgmma_kernel *one_step =
        attention_one_step_kernels(_i == 0 ? GEMMD_BF16 : GEMMD_F16);
    struct attention_problem p = problem_of(16, 16, 77, 77, 64);
    p.dtype = _i == 0 ? GEMMD_BF16 : GEMMD_F16;
    ck_assert_ptr_eq(attention_wgmma_choose_alone(&p), one_step);
    ck_assert_uint_eq(attention_wgmma_choose(&p)->tile_n, one_step->tile_n);
    p.causal = true;
    p.batch = 64;
    ck_assert_ptr_eq(attention_wgmma_choose_alone(&p), one_step);
    p.skv = ATTENTION_ONE_STEP_KEYS;
    ck_assert_ptr_eq(attention_wgmma_choose_alone(&p), one_step);
    p.skv++;
    ck_assert_ptr_eq(attention_wgmma_choose_alone(&p), attention_wgmma_choose(&p));
    p.skv = 77;
    p.dv = 65;
    ck_assert_ptr_eq(attention_wgmma_choose_alone(&p), attention_wgmma_choose(&p));
    p.dv = 64;
    p.windowed = true;
    ck_assert_ptr_eq(attention_wgmma_choose_alone(&p), attention_wgmma_choose(&p));
    p.windowed = false;
    static const int32_t lengths[1] = {1};
    p.lens_q = p.lens_kv = lengths;
    ck_assert_ptr_eq(attention_wgmma_choose_alone(&p), attention_wgmma_choose(&p));
}
END_TEST

/* Heads are divided where that keeps more multiprocessors busy. */
START_TEST(items_of_one_step)
{
    const struct attention_wgmma_kernel *one_step = attention_one_step_kernels(GEMMD_BF16);
    struct attention_problem p = problem_of(16, 16, 77, 77, 64);
    p.batch = 64;
    ck_assert_uint_eq(attention_wgmma_tiles(one_step, &p), 64 * 16);
    p = problem_of(16, 16, 4096, 77, 64);
    p.batch = 8;
    ck_assert_uint_eq(attention_wgmma_tiles(one_step, &p), 8 * 16);
    p.batch = 1;
    ck_assert_uint_gt(attention_wgmma_tiles(one_step, &p), 100);
    p.sq = ATTENTION_LENGTH_MAX;
    ck_assert_uint_gt(attention_wgmma_tiles(one_step, &p), 16);
}
END_TEST

/* A tile of 192 rows reads keys that a tile of 128 rows does not. */
START_TEST(members_of_a_group_with_masks_get_the_tile_that_they_get_alone)
{
    static const uint64_t queries[] = {128, 192, 256, 192, 128};
    enum { COUNT = sizeof queries / sizeof *queries };
    struct attention_problem problems[COUNT];
    struct attention_member members[COUNT];
    for (int i = 0; i < COUNT; i++) {
        problems[i] = problem_of(2, 2, queries[i], 128, 64);
        problems[i].causal = _i == 1;
        problems[i].windowed = _i == 2;
        members[i] = (struct attention_member){&problems[i], NULL};
    }
    static const int unmasked[COUNT] = {0, 1, 2, 3, 4}, masked[COUNT] = {0, 2, 4, 1, 3};
    ck_assert_uint_eq(attention_wgmma_alike(members, COUNT), _i == 0 ? COUNT : 3);
    for (int i = 0; i < COUNT; i++)
        ck_assert_ptr_eq(members[i].problem, &problems[_i == 0 ? unmasked[i] : masked[i]]);
    if (_i != 0)
        ck_assert_uint_eq(attention_wgmma_alike(members + 3, COUNT - 3), COUNT - 3);
}
END_TEST

/* Members of one launch have the bits that they have alone. */
START_TEST(members_of_a_group_with_other_bits_get_a_launch_of_their_own)
{
    static const uint64_t lengths[] = {256, 384, 256, 2048, 200};
    enum { COUNT = sizeof lengths / sizeof *lengths };
    struct attention_problem problems[COUNT];
    struct attention_member members[COUNT];
    for (int i = 0; i < COUNT; i++) {
        problems[i] = problem_of(2, 2, lengths[i], lengths[i], 64);
        members[i] = (struct attention_member){&problems[i], NULL};
    }
    ck_assert_uint_eq(attention_wgmma_alike(members, COUNT), 3);
    ck_assert_ptr_eq(members[1].problem, &problems[2]);
    ck_assert_ptr_eq(members[2].problem, &problems[4]);
    ck_assert_uint_eq(attention_wgmma_alike(members + 3, 2), 1);
}
END_TEST

START_TEST(every_width_has_a_tile)
{
    for (uint64_t d = 1; d <= ATTENTION_WIDTH_MAX; d++) {
        for (int causal = 0; causal < 2; causal++) {
            struct attention_problem p = problem_of(2, 1, 100, 200, d);
            p.causal = causal;
            p.dv = ATTENTION_WIDTH_MAX + 1 - d;
            const struct attention_wgmma_kernel *kernel = attention_wgmma_choose(&p);
            ck_assert_ptr_nonnull(kernel);
            ck_assert_uint_ge(kernel->width, p.d);
            ck_assert_uint_ge(kernel->width, p.dv);
        }
    }
}
END_TEST

static const struct {
    uint32_t keys, kv_heads, rows, width, split_keys;
} KV_SPLITS[] = {
    {512, 8, 1, 128, 128},     {2048, 8, 16, 128, 128},    {2048, 32, 12, 128, 256},
    {2049, 8, 16, 128, 256},   {8192, 32, 7, 128, 256},    {8192, 32, 8, 128, 1024},
    {8191, 32, 8, 128, 512},   {8192, 32, 32, 64, 1024},   {8192, 8, 32, 128, 512},
    {8193, 8, 1, 128, 512},    {32768, 32, 16, 128, 8192}, {32768, 32, 16, 64, 512},
    {32768, 32, 16, 65, 8192}, {8192, 8, 15, 128, 256},    {1u << 30, 1000, 8, 128, 8192},
};

START_TEST(kv_splits_are_longer_while_an_entry_has_enough_blocks)
{
    ck_assert_uint_eq(attention_decode_kv_split_keys(KV_SPLITS[_i].keys, KV_SPLITS[_i].kv_heads,
                                                     KV_SPLITS[_i].rows, KV_SPLITS[_i].width),
                      KV_SPLITS[_i].split_keys);
}
END_TEST

/* The workspace of a problem with lengths has room for the KV splits of every length. */
START_TEST(no_shorter_entry_has_more_kv_splits)
{
    static const uint32_t longest[] = {1, 127, 2048, 2049, 8192, 8193, 20000};
    for (unsigned i = 0; i < sizeof longest / sizeof *longest; i++)
        for (uint32_t keys = 0; keys <= longest[i]; keys++)
            for (uint32_t rows = 1; rows <= 17; rows += 8) {
                const uint32_t split_keys =
                    attention_decode_kv_split_keys(keys, 64, rows, 64 + rows);
                ck_assert_uint_le((keys + split_keys - 1) / split_keys,
                                  attention_decode_kv_splits_max(longest[i]));
            }
}
END_TEST

/* So that the bits of the attention are the same on one device and on several. */
START_TEST(parts_have_the_kv_splits_of_the_whole)
{
    const struct attention_problem whole = problem_of(64, 32, 8, 8192, 128);
    const struct attention_range halves = {0, 1, 16, 16}, quarters = {0, 1, 0, 8};
    const struct attention_problem half = attention_subproblem(&whole, &halves);
    const struct attention_problem quarter = attention_subproblem(&half, &quarters);
    ck_assert_uint_eq(attention_decode_kv_splits(&whole), 4);
    ck_assert_uint_eq(attention_decode_kv_splits(&half), 4);
    ck_assert_uint_eq(quarter.kv_heads, 8);
    ck_assert_uint_eq(attention_decode_kv_splits(&quarter), 4);
}
END_TEST

static const struct {
    uint64_t heads, kv_heads, sq, d;
    bool takes;
} ROWS[] = {
    {128, 8, 1, 128, false}, {136, 8, 1, 128, true},  {32, 8, 8, 128, true},  {32, 8, 8, 64, true},
    {32, 32, 32, 96, true},  {32, 32, 16, 96, false}, {32, 8, 8, 136, false},
};

START_TEST(more_than_16_rows_are_multiplied_by_wgmma)
{
    struct attention_problem p =
        problem_of(ROWS[_i].heads, ROWS[_i].kv_heads, ROWS[_i].sq, 20000, ROWS[_i].d);
    ck_assert_int_eq(decode_wgmma_takes(&p), ROWS[_i].takes);
    p.batch = 100; /* which does not change the bits */
    ck_assert_int_eq(decode_wgmma_takes(&p), ROWS[_i].takes);
    p.v = (const void *)(uintptr_t)8;
    ck_assert(!decode_wgmma_takes(&p));
    p.v = NULL;
    p.k_strides.row += 4;
    ck_assert(!decode_wgmma_takes(&p));
}
END_TEST

/* The workspace has room for the KV splits that decode.h counts. */
START_TEST(kv_splits_of_wgmma_are_no_shorter)
{
    static const uint32_t keys[] = {1, 2048, 4096, 8192, 8193, 20000, 1u << 20};
    bool longer = false;
    for (unsigned i = 0; i < sizeof keys / sizeof *keys; i++)
        for (uint32_t rows = 1; rows <= ATTENTION_DECODE_ROWS_MAX; rows++)
            for (uint32_t width = 64; width <= DECODE_WGMMA_WIDTH_MAX; width += 64) {
                const uint32_t own = decode_wgmma_split_keys(keys[i], 8, rows, width);
                const uint32_t other = attention_decode_kv_split_keys(keys[i], 8, rows, width);
                ck_assert_uint_ge(own, other);
                ck_assert_uint_eq(own % DECODE_WGMMA_KEYS, 0);
                longer = longer || own > other;
            }
    ck_assert(longer);
}
END_TEST

/* What /info?explain=attention says of a kernel; "": nothing. */
static const char *tile_of(const struct operation_kernel *kernel, const struct attention_problem *p)
{
    static struct operation_tile tile;
    struct cuda_context context = {.multiprocessors = 132, .shared_bytes = 227 << 10};
    tile = (struct operation_tile){.us = 0};
    ck_assert_msg(kernel->takes(p), "%s", kernel->name);
    kernel->tile(&context.base, p, &tile);
    ck_assert_double_eq(tile.us, 0);
    return tile.name;
}

START_TEST(the_tile_that_is_named_is_the_tile_that_is_chosen)
{
    struct attention_problem many = problem_of(32, 32, 4096, 4096, 128),
                             few_keys = problem_of(32, 32, 4096, 77, 64),
                             wide = problem_of(32, 32, 4096, 4096, 256),
                             decode = problem_of(32, 8, 1, 8192, 128);
    ck_assert_str_eq(tile_of(&attention_cuda_wgmma, &many), attention_wgmma_choose(&many)->name);
    ck_assert_str_eq(tile_of(&attention_cuda_wgmma, &few_keys),
                     attention_wgmma_choose_alone(&few_keys)->name);
    ck_assert_str_ne(tile_of(&attention_cuda_wgmma, &few_keys),
                     attention_wgmma_choose(&few_keys)->name);
    ck_assert_str_eq(tile_of(&attention_cuda_flash_mma, &many), "128x64");
    ck_assert_str_eq(tile_of(&attention_cuda_flash_mma, &wide), "64x32");
    ck_assert_str_eq(tile_of(&attention_cuda_tiled, &many), "128x32");
    ck_assert_str_eq(tile_of(&attention_cuda_tiled, &decode), "32x32");
    char splits[32];
    snprintf(splits, sizeof splits, "4x%u", attention_decode_kv_split_keys(8192, 8, 4, 128));
    ck_assert_str_eq(tile_of(&attention_cuda_decode, &decode), splits);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sm90_attention");
    TCase *tests = tcase_create("choice");
    tcase_add_loop_test(tests, few_queries_go_to_the_faster_kernel, 0,
                        sizeof FEW_QUERIES / sizeof *FEW_QUERIES);
    tcase_add_test(tests, a_preferred_kernel_must_take_the_problem);
    tcase_add_loop_test(tests, the_batch_and_the_heads_do_not_change_the_bits, 0, 3);
    tcase_add_loop_test(tests, the_table_is_in_order, 0, 2);
    tcase_add_loop_test(tests, queries_get_the_tile_that_wastes_less, 0,
                        sizeof QUERIES / sizeof *QUERIES);
    tcase_add_test(tests, members_of_a_group_with_other_bits_get_a_launch_of_their_own);
    tcase_add_loop_test(tests, members_of_a_group_with_masks_get_the_tile_that_they_get_alone, 0,
                        3);
    tcase_add_loop_test(tests, few_keys_get_a_kernel_of_one_step, 0, 2);
    tcase_add_test(tests, items_of_one_step);
    tcase_add_test(tests, every_width_has_a_tile);
    tcase_add_loop_test(tests, kv_splits_are_longer_while_an_entry_has_enough_blocks, 0,
                        sizeof KV_SPLITS / sizeof *KV_SPLITS);
    tcase_add_test(tests, no_shorter_entry_has_more_kv_splits);
    tcase_add_test(tests, parts_have_the_kv_splits_of_the_whole);
    tcase_add_loop_test(tests, more_than_16_rows_are_multiplied_by_wgmma, 0,
                        sizeof ROWS / sizeof *ROWS);
    tcase_add_test(tests, kv_splits_of_wgmma_are_no_shorter);
    tcase_add_test(tests, the_tile_that_is_named_is_the_tile_that_is_chosen);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
