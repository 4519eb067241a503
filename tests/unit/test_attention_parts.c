/* server/device/attention_parts.c: where the parts of an attention lie in device memory. */
#include <check.h>
#include <stdlib.h>

#include "server/device/attention_parts.h"

static const uint64_t WORKSPACE = 1000;

static bool workspace_bytes(const struct attention_problem *problem, uint64_t *out)
{
    (void)problem;
    *out = WORKSPACE;
    return true;
}

static bool overflowing_workspace(const struct attention_problem *problem, uint64_t *out)
{
    (void)problem;
    (void)out;
    return false;
}

static const struct attention_kernel kernel = {.workspace_bytes = workspace_bytes};
static const struct device_span nowhere = {.start = NULL};
static unsigned char tensors[4096], range[1 << 16];
static const struct device_span there = {tensors, sizeof tensors};

static struct attention_problem problem_of(enum attention_layout layout)
{
    struct attention_problem p = {.dtype = GEMMD_F16,
                                  .batch = 3,
                                  .heads = 4,
                                  .kv_heads = 2,
                                  .sq = 5,
                                  .skv = 7,
                                  .d = 11,
                                  .dv = 13};
    p.q_strides = attention_strides(layout, p.heads, p.sq, p.d);
    p.k_strides = attention_strides(layout, p.kv_heads, p.skv, p.d);
    p.v_strides = attention_strides(layout, p.kv_heads, p.skv, p.dv);
    p.o_strides = attention_strides(layout, p.heads, p.sq, p.dv);
    return p;
}

START_TEST(parts_are_whole_aligned_and_apart)
{
    static const int32_t lens[3];
    static float lse;
    struct attention_problem p = problem_of(_i % 2 ? ATTENTION_BSHD : ATTENTION_BHSD);
    struct attention_parts parts;
    p.lens_q = p.lens_kv = lens;
    p.lse = &lse;
    ck_assert(attention_parts_place(&p, &kernel, nowhere, &parts));
    const struct device_part all[] = {parts.lens_q, parts.lens_kv, parts.q,   parts.k,
                                      parts.v,      parts.o,       parts.lse, parts.workspace};
    const uint64_t bytes[] = {3 * 4,
                              3 * 4,
                              3 * 4 * 5 * 11 * 2,
                              3 * 2 * 7 * 11 * 2,
                              3 * 2 * 7 * 13 * 2,
                              3 * 4 * 5 * 13 * 2,
                              3 * 4 * 5 * 4,
                              WORKSPACE};
    uint64_t end = 0;
    for (int i = 0; i < 8; i++) {
        ck_assert_uint_eq(all[i].bytes, bytes[i]);
        ck_assert_uint_eq(all[i].offset % DEVICE_LAYOUT_ALIGNMENT, 0);
        ck_assert_uint_eq(all[i].offset, end);
        end = all[i].offset + (all[i].bytes + DEVICE_LAYOUT_ALIGNMENT - 1) /
                                  DEVICE_LAYOUT_ALIGNMENT * DEVICE_LAYOUT_ALIGNMENT;
    }
    ck_assert_uint_eq(parts.total_bytes, end);

    const struct attention_problem moved = attention_parts_problem(&parts, &p, range);
    ck_assert_ptr_eq(moved.lens_q, range + parts.lens_q.offset);
    ck_assert_ptr_eq(moved.lens_kv, range + parts.lens_kv.offset);
    ck_assert_ptr_eq(moved.q, range + parts.q.offset);
    ck_assert_ptr_eq(moved.k, range + parts.k.offset);
    ck_assert_ptr_eq(moved.v, range + parts.v.offset);
    ck_assert_ptr_eq(moved.o, range + parts.o.offset);
    ck_assert_ptr_eq(moved.lse, range + parts.lse.offset);
}
END_TEST

START_TEST(what_is_not_there_takes_no_memory)
{
    const struct attention_problem p = problem_of(ATTENTION_BHSD);
    struct attention_parts parts;
    ck_assert(attention_parts_place(&p, &kernel, nowhere, &parts));
    ck_assert_uint_eq(parts.lens_q.bytes + parts.lens_kv.bytes + parts.lse.bytes, 0);
    ck_assert_uint_eq(parts.q.offset, 0);
    const struct attention_problem moved = attention_parts_problem(&parts, &p, range);
    ck_assert_ptr_null(moved.lens_q);
    ck_assert_ptr_null(moved.lens_kv);
    ck_assert_ptr_null(moved.lse);
}
END_TEST

START_TEST(what_lies_in_tensor_memory_stays_there)
{
    struct attention_problem p = problem_of(ATTENTION_BHSD);
    struct attention_parts parts, with_both;
    p.k = _i & 1 ? tensors : NULL;
    p.v = _i & 2 ? tensors + 256 : NULL;
    ck_assert(attention_parts_place(&p, &kernel, nowhere, &with_both));
    ck_assert(attention_parts_place(&p, &kernel, there, &parts));
    const struct attention_problem moved = attention_parts_problem(&parts, &p, range);
    ck_assert_uint_eq(parts.k.bytes, _i & 1 ? 0 : with_both.k.bytes);
    ck_assert_uint_eq(parts.v.bytes, _i & 2 ? 0 : with_both.v.bytes);
    ck_assert_ptr_eq(moved.k, _i & 1 ? tensors : range + parts.k.offset);
    ck_assert_ptr_eq(moved.v, _i & 2 ? tensors + 256 : range + parts.v.offset);
    ck_assert_uint_eq(parts.total_bytes,
                      with_both.total_bytes - (_i & 1 ? 1024 : 0) - (_i & 2 ? 1280 : 0));
}
END_TEST

/* Up to the last element, gaps between rows included. */
START_TEST(gaps_are_part_of_a_tensor)
{
    struct attention_problem p = problem_of(ATTENTION_BHSD);
    struct attention_parts parts;
    p.k_strides = attention_strides(ATTENTION_BHSD, p.kv_heads, p.skv, p.d + 5);
    ck_assert(attention_parts_place(&p, &kernel, nowhere, &parts));
    ck_assert_uint_eq(parts.k.bytes, (3 * 2 * 7 * 16 - 5) * 2);
}
END_TEST

START_TEST(sizes_that_overflow_are_refused)
{
    struct attention_problem p = problem_of(ATTENTION_BHSD);
    struct attention_parts parts;
    p.batch = UINT64_MAX / 2;
    ck_assert(!attention_parts_place(&p, &kernel, nowhere, &parts));
    p = problem_of(ATTENTION_BHSD);
    p.q_strides.batch = UINT64_MAX / 4;
    ck_assert(!attention_parts_place(&p, &kernel, nowhere, &parts));
    p = problem_of(ATTENTION_BHSD);
    p.v_strides.head = UINT64_MAX - 3;
    ck_assert(!attention_parts_place(&p, &kernel, nowhere, &parts));
    p = problem_of(ATTENTION_BHSD);
    const struct attention_kernel overflowing = {.workspace_bytes = overflowing_workspace};
    ck_assert(!attention_parts_place(&p, &overflowing, nowhere, &parts));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("attention_parts");
    TCase *tests = tcase_create("attention_parts");
    tcase_add_loop_test(tests, parts_are_whole_aligned_and_apart, 0, 2);
    tcase_add_test(tests, what_is_not_there_takes_no_memory);
    tcase_add_loop_test(tests, what_lies_in_tensor_memory_stays_there, 0, 4);
    tcase_add_test(tests, gaps_are_part_of_a_tensor);
    tcase_add_test(tests, sizes_that_overflow_are_refused);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
