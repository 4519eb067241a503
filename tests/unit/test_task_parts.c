/* server/device/task_parts.c: where the parts of a task lie in device memory. */
#include <check.h>
#include <stdlib.h>

#include "server/device/task_parts.h"

static const uint64_t WORKSPACE = 1000;

static bool workspace_bytes(const void *problem, uint64_t *out)
{
    (void)problem;
    *out = WORKSPACE;
    return true;
}

static bool overflowing_workspace(const void *problem, uint64_t *out)
{
    (void)problem;
    (void)out;
    return false;
}

static const struct operation_kernel kernel = {.workspace_bytes = workspace_bytes};
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

static bool place(const struct attention_problem *problem, const struct operation_kernel *by,
                  struct device_span tensor_memory, struct task_parts *parts)
{
    const struct task task = {
        .operation = &operation_attention, .kernel = by, .problem.attention = *problem};
    return task_parts_place(&task, tensor_memory, parts);
}

static struct attention_problem moved_problem(const struct task_parts *parts,
                                              const struct attention_problem *problem)
{
    const struct task task = {.operation = &operation_attention, .problem.attention = *problem};
    union operation_problem moved;
    task_parts_problem(parts, &task, range, &moved);
    return moved.attention;
}

START_TEST(parts_are_whole_aligned_and_apart)
{
    static const int32_t lens[3];
    static float lse;
    struct attention_problem p = problem_of(_i % 2 ? ATTENTION_BSHD : ATTENTION_BHSD);
    struct task_parts parts;
    p.lens_q = p.lens_kv = lens;
    p.lse = &lse;
    ck_assert(place(&p, &kernel, nowhere, &parts));
    const struct device_part all[] = {
        parts.places[ATTENTION_PART_LENS_Q], parts.places[ATTENTION_PART_LENS_KV],
        parts.places[ATTENTION_PART_Q],      parts.places[ATTENTION_PART_K],
        parts.places[ATTENTION_PART_V],      parts.places[ATTENTION_PART_O],
        parts.places[ATTENTION_PART_LSE],    parts.workspace};
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

    const struct attention_problem moved = moved_problem(&parts, &p);
    ck_assert_ptr_eq(moved.lens_q, range + parts.places[ATTENTION_PART_LENS_Q].offset);
    ck_assert_ptr_eq(moved.lens_kv, range + parts.places[ATTENTION_PART_LENS_KV].offset);
    ck_assert_ptr_eq(moved.q, range + parts.places[ATTENTION_PART_Q].offset);
    ck_assert_ptr_eq(moved.k, range + parts.places[ATTENTION_PART_K].offset);
    ck_assert_ptr_eq(moved.v, range + parts.places[ATTENTION_PART_V].offset);
    ck_assert_ptr_eq(moved.o, range + parts.places[ATTENTION_PART_O].offset);
    ck_assert_ptr_eq(moved.lse, range + parts.places[ATTENTION_PART_LSE].offset);
}
END_TEST

START_TEST(what_is_not_there_takes_no_memory)
{
    const struct attention_problem p = problem_of(ATTENTION_BHSD);
    struct task_parts parts;
    ck_assert(place(&p, &kernel, nowhere, &parts));
    ck_assert_uint_eq(parts.places[ATTENTION_PART_LENS_Q].bytes +
                          parts.places[ATTENTION_PART_LENS_KV].bytes +
                          parts.places[ATTENTION_PART_LSE].bytes,
                      0);
    ck_assert_uint_eq(parts.places[ATTENTION_PART_Q].offset, 0);
    const struct attention_problem moved = moved_problem(&parts, &p);
    ck_assert_ptr_null(moved.lens_q);
    ck_assert_ptr_null(moved.lens_kv);
    ck_assert_ptr_null(moved.lse);
}
END_TEST

START_TEST(what_lies_in_tensor_memory_stays_there)
{
    struct attention_problem p = problem_of(ATTENTION_BHSD);
    struct task_parts parts, with_both;
    p.k = _i & 1 ? tensors : NULL;
    p.v = _i & 2 ? tensors + 256 : NULL;
    ck_assert(place(&p, &kernel, nowhere, &with_both));
    ck_assert(place(&p, &kernel, there, &parts));
    const struct attention_problem moved = moved_problem(&parts, &p);
    ck_assert_uint_eq(parts.places[ATTENTION_PART_K].bytes,
                      _i & 1 ? 0 : with_both.places[ATTENTION_PART_K].bytes);
    ck_assert_uint_eq(parts.places[ATTENTION_PART_V].bytes,
                      _i & 2 ? 0 : with_both.places[ATTENTION_PART_V].bytes);
    ck_assert_ptr_eq(moved.k, _i & 1 ? tensors : range + parts.places[ATTENTION_PART_K].offset);
    ck_assert_ptr_eq(moved.v,
                     _i & 2 ? tensors + 256 : range + parts.places[ATTENTION_PART_V].offset);
    ck_assert_uint_eq(parts.total_bytes,
                      with_both.total_bytes - (_i & 1 ? 1024 : 0) - (_i & 2 ? 1280 : 0));
}
END_TEST

/* Up to the last element, gaps between rows included. */
START_TEST(gaps_are_part_of_a_tensor)
{
    struct attention_problem p = problem_of(ATTENTION_BHSD);
    struct task_parts parts;
    p.k_strides = attention_strides(ATTENTION_BHSD, p.kv_heads, p.skv, p.d + 5);
    ck_assert(place(&p, &kernel, nowhere, &parts));
    ck_assert_uint_eq(parts.places[ATTENTION_PART_K].bytes, (3 * 2 * 7 * 16 - 5) * 2);
}
END_TEST

START_TEST(sizes_that_overflow_are_refused)
{
    struct attention_problem p = problem_of(ATTENTION_BHSD);
    struct task_parts parts;
    p.batch = UINT64_MAX / 2;
    ck_assert(!place(&p, &kernel, nowhere, &parts));
    p = problem_of(ATTENTION_BHSD);
    p.q_strides.batch = UINT64_MAX / 4;
    ck_assert(!place(&p, &kernel, nowhere, &parts));
    p = problem_of(ATTENTION_BHSD);
    p.v_strides.head = UINT64_MAX - 3;
    ck_assert(!place(&p, &kernel, nowhere, &parts));
    p = problem_of(ATTENTION_BHSD);
    const struct operation_kernel overflowing = {.workspace_bytes = overflowing_workspace};
    ck_assert(!place(&p, &overflowing, nowhere, &parts));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("task_parts");
    TCase *tests = tcase_create("task_parts");
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
