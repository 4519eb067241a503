/* server/device/copy_in.c: the pieces of a body that are copied, when, and where to. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "proto/dtype.h"
#include "server/device/copy_in.h"

enum { M = 5, N = 9, K = 1031, BODY_OFFSET = 64, RANGE_BYTES = 1 << 17 };

static const struct device_span nowhere = {.start = NULL};
#define SPAN(at) ((struct device_span){(at), BODY_BYTES})
static const uint64_t ALL = UINT64_MAX;
static unsigned char body[RANGE_BYTES], range[RANGE_BYTES];

/* A body with A, B, bias and C0 in f16, one after another. */
static struct task task_in(unsigned char *at)
{
    struct task task = {.operation = &operation_gemm};
    struct gemm_problem *problem = &task.problem.gemm;
    *problem = (struct gemm_problem){
        .dtype = GEMMD_F16, .out = GEMMD_F16, .m = M, .n = N, .k = K, .batch = 1};
    gemm_problem_contiguous(problem);
    problem->a = at;
    problem->b = at + 2 * M * K;
    problem->bias = at + 2 * (M * K + K * N);
    problem->c0 = at + 2 * (M * K + K * N + N);
    return task;
}
enum { BODY_BYTES = 2 * (M * K + K * N + N + M * N) };

/* The layout of a product whose operands are all from the host. The leading dimension of A is
 * `leading`, unless that is 0. */
static struct device_layout layout_of(const struct task *task, uint64_t leading)
{
    struct device_layout layout = {.problem = task->problem};
    layout.problem.gemm.lda = leading != 0 ? leading : K;
    layout.count = task->operation->parts(&layout.problem, layout.list);
    ck_assert_uint_gt(layout.count, 0);
    layout.locations[GEMM_PART_A] = (struct device_location){0, 2 * M * layout.problem.gemm.lda};
    layout.locations[GEMM_PART_B] = (struct device_location){32768, 2 * K * N};
    layout.locations[GEMM_PART_BIAS] = (struct device_location){65536, 2 * N};
    layout.locations[GEMM_PART_C0] = (struct device_location){66048, 2 * M * N};
    layout.locations[GEMM_PART_C] = (struct device_location){114688, 2 * M * N};
    if (leading != 0)
        layout.staging[GEMM_PART_A] = (struct device_location){98304, 2 * M * K};
    return layout;
}

static void fill(void)
{
    for (uint32_t i = 0; i < sizeof body; i++)
        body[i] = (unsigned char)(i * 7 + i / 251);
    memset(range, 0xee, sizeof range);
}

/* Copies the pieces as a device does. Returns the number of bytes. */
static uint64_t run(struct copy_in *plan, uint64_t received)
{
    struct copy_in_piece piece;
    uint64_t bytes = 0;
    for (; copy_in_next(plan, received, &piece); bytes += piece.bytes) {
        const struct copy_in_operand *o = piece.operand;
        ck_assert_uint_gt(piece.bytes, 0);
        if (received != ALL)
            ck_assert_uint_le(o->begin + piece.first + piece.bytes, received);
        if (o->row_bytes == 0) {
            memcpy(o->to + piece.first, o->from + piece.first, piece.bytes);
            continue;
        }
        ck_assert_uint_eq(piece.first % o->row_bytes, 0);
        ck_assert_uint_eq(piece.bytes % o->row_bytes, 0);
        memcpy(o->staging + piece.first, o->from + piece.first, piece.bytes);
        for (uint64_t at = piece.first; at < piece.first + piece.bytes; at += o->row_bytes)
            memcpy(o->to + at / o->row_bytes * o->to_pitch, o->staging + at, o->row_bytes);
    }
    return bytes;
}

static const unsigned char *in_range(const struct device_layout *layout, uint32_t part)
{
    return range + layout->locations[part].offset;
}

static void assert_all_there(const struct task *task, const struct device_layout *layout)
{
    const struct gemm_problem *problem = &task->problem.gemm;
    const uint64_t leading = layout->problem.gemm.lda;
    for (uint64_t row = 0; row < M; row++)
        ck_assert_msg(memcmp(in_range(layout, GEMM_PART_A) + 2 * row * leading,
                             (const unsigned char *)problem->a + 2 * row * K, 2 * K) == 0,
                      "row %u of A is not what was sent", (unsigned)row);
    ck_assert_mem_eq(in_range(layout, GEMM_PART_B), problem->b, 2 * K * N);
    ck_assert_mem_eq(in_range(layout, GEMM_PART_BIAS), problem->bias, 2 * N);
    ck_assert_mem_eq(in_range(layout, GEMM_PART_C0), problem->c0, 2 * M * N);
}

/* 0: rows as they came; 1032: further apart. */
static const uint64_t leadings[] = {0, 1032, 1088};
/* Bytes that are received from one step to the next. */
static const uint64_t steps[] = {1, 1000, 4096, 2 * K, 3 * K, 50000};

START_TEST(all_goes_once_however_it_lands)
{
    const uint64_t leading = leadings[_i % 3], step = steps[_i / 3];
    fill();
    const struct task task = task_in(body + BODY_OFFSET);
    const struct device_layout layout = layout_of(&task, leading);
    struct copy_in plan;
    copy_in_plan(&plan, &task, &layout, range, SPAN(body + BODY_OFFSET));
    ck_assert_uint_eq(plan.count, 4);
    ck_assert_int_eq(plan.copy_stream, COPY_IN_NO_STREAM);
    uint64_t bytes = 0;
    for (uint64_t received = 0; received < BODY_BYTES; received += step)
        bytes += run(&plan, received);
    bytes += run(&plan, BODY_BYTES);
    ck_assert_uint_eq(bytes, BODY_BYTES);
    assert_all_there(&task, &layout);
    ck_assert_uint_eq(run(&plan, ALL), 0);
}
END_TEST

START_TEST(only_whole_rows_and_pages_go_early)
{
    struct copy_in plan;
    fill();
    const struct task task = task_in(body);
    const struct device_layout padded = layout_of(&task, 1032), plain = layout_of(&task, 0);
    copy_in_plan(&plan, &task, &padded, range, SPAN(body));
    ck_assert_uint_eq(run(&plan, 2 * K - 1), 0);
    ck_assert_uint_eq(run(&plan, 2 * K), 2 * K);
    ck_assert_uint_eq(run(&plan, 2 * M * K + 4095), 2 * (M - 1) * K); /* and nothing of B */
    ck_assert_uint_eq(run(&plan, 2 * M * K + 4096), 4096);
    copy_in_plan(&plan, &task, &plain, range, SPAN(body));
    ck_assert_uint_eq(run(&plan, 4095), 0);
    ck_assert_uint_eq(run(&plan, 5000), 4096);
}
END_TEST

START_TEST(a_restart_takes_all_once_more)
{
    struct copy_in plan;
    fill();
    const struct task task = task_in(body);
    const struct device_layout layout = layout_of(&task, 1032);
    copy_in_plan(&plan, &task, &layout, range, SPAN(body));
    ck_assert_uint_gt(run(&plan, BODY_BYTES / 2), 0);
    copy_in_restart(&plan);
    memset(range, 0xee, sizeof range);
    ck_assert_uint_eq(run(&plan, ALL), BODY_BYTES);
    assert_all_there(&task, &layout);
}
END_TEST

/* B is not in the body, and the location of the bias is not known before the body is complete. */
START_TEST(what_is_elsewhere_goes_when_the_work_is_complete)
{
    static unsigned char elsewhere[2 * K * N];
    struct copy_in plan, all;
    fill();
    for (uint32_t i = 0; i < sizeof elsewhere; i++)
        elsewhere[i] = (unsigned char)(i * 3);
    struct task task = task_in(body);
    const void *bias = task.problem.gemm.bias;
    const struct device_layout layout = layout_of(&task, 0);
    task.problem.gemm.b = elsewhere;
    task.problem.gemm.bias = &layout; /* anything but where it will be */
    copy_in_plan(&plan, &task, &layout, range, SPAN(body));
    ck_assert(copy_in_has_early(&plan));
    ck_assert_uint_eq(run(&plan, BODY_BYTES), 2 * (M * K + M * N));
    task.problem.gemm.bias = bias;
    copy_in_plan(&all, &task, &layout, range, nowhere);
    copy_in_settle(&plan, &all);
    ck_assert_uint_eq(run(&plan, ALL), 2 * (K * N + N));
    assert_all_there(&task, &layout);
    task.problem.gemm.a = task.problem.gemm.b = task.problem.gemm.bias = task.problem.gemm.c0 =
        elsewhere;
    copy_in_plan(&plan, &task, &layout, range, SPAN(body));
    ck_assert(!copy_in_has_early(&plan));
}
END_TEST

/* Operands whose source or destination differs from the early plan are copied again. */
START_TEST(what_was_wrong_goes_again)
{
    struct copy_in plan, all;
    fill();
    struct task task = task_in(body);
    struct device_layout layout = layout_of(&task, 0);
    task.problem.gemm.a = body + 512;
    copy_in_plan(&plan, &task, &layout, range, SPAN(body));
    ck_assert_uint_eq(run(&plan, BODY_BYTES), BODY_BYTES);
    task.problem.gemm.a = body;
    layout.locations[GEMM_PART_C0].offset += 2048;
    copy_in_plan(&all, &task, &layout, range, nowhere);
    copy_in_settle(&plan, &all);
    ck_assert_uint_eq(run(&plan, ALL), 2 * (M * K + M * N));
    assert_all_there(&task, &layout);
}
END_TEST

/* Of a plan that is settled with fewer operands, the operands that it had before are not copied. */
START_TEST(what_is_no_longer_in_the_plan_stays)
{
    struct copy_in plan, all;
    fill();
    struct task task = task_in(body);
    struct device_layout layout = layout_of(&task, 0);
    copy_in_plan(&plan, &task, &layout, range, SPAN(body));
    layout.locations[GEMM_PART_C0].bytes = 0;
    copy_in_plan(&all, &task, &layout, range, nowhere);
    copy_in_settle(&plan, &all);
    ck_assert_uint_eq(run(&plan, ALL), BODY_BYTES - 2 * M * N);
}
END_TEST

START_TEST(an_attention_goes_as_it_lands)
{
    enum { ROWS = 3000, D = 4, LENS = 8, BYTES = 2 * ROWS * D };
    struct task task = {.operation = &operation_attention};
    struct device_layout layout = {.problem = {{.dtype = GEMMD_F16}}};
    struct attention_problem *problem = &task.problem.attention;
    *problem = (struct attention_problem){.batch = LENS / 4,
                                          .heads = 1,
                                          .kv_heads = 1,
                                          .sq = ROWS,
                                          .skv = ROWS,
                                          .d = D,
                                          .dv = D,
                                          .lens_q = (const int32_t *)(void *)body,
                                          .lens_kv = (const int32_t *)(void *)(body + LENS),
                                          .q = body + 2 * LENS,
                                          .k = body + 2 * LENS + BYTES};
    layout.problem = task.problem;
    layout.count = task.operation->parts(problem, layout.list);
    layout.locations[ATTENTION_PART_LENS_Q] = (struct device_location){0, LENS};
    layout.locations[ATTENTION_PART_LENS_KV] = (struct device_location){256, LENS};
    layout.locations[ATTENTION_PART_Q] = (struct device_location){512, BYTES};
    layout.locations[ATTENTION_PART_K] = (struct device_location){32768, BYTES};
    static unsigned char v[BYTES];
    struct copy_in plan;
    fill();
    problem->v = v; /* in tensor memory, and so without a place */
    copy_in_plan(&plan, &task, &layout, range, (struct device_span){body, sizeof body});
    ck_assert_uint_eq(plan.count, 4);
    ck_assert_uint_eq(run(&plan, 2 * LENS + 5000), 2 * LENS + 4096);
    ck_assert_uint_eq(run(&plan, 2 * LENS + 2 * BYTES), 2 * BYTES - 4096);
    ck_assert_mem_eq(range, body, LENS);
    ck_assert_mem_eq(range + 256, body + LENS, LENS);
    ck_assert_mem_eq(range + 512, body + 2 * LENS, BYTES);
    ck_assert_mem_eq(range + 32768, body + 2 * LENS + BYTES, BYTES);
}
END_TEST

START_TEST(what_is_on_the_device_is_not_copied)
{
    static unsigned char resident[2 * K * N];
    struct copy_in plan;
    fill();
    struct task task = task_in(body);
    struct device_layout layout = layout_of(&task, 0);
    task.problem.gemm.b = resident;
    task.problem.gemm.bias = task.problem.gemm.c0 = NULL;
    layout.locations[GEMM_PART_BIAS].bytes = layout.locations[GEMM_PART_C0].bytes = 0;
    layout.resident = 1u << GEMM_PART_B; /* and has a place, because its rows are packed */
    copy_in_plan(&plan, &task, &layout, range, nowhere);
    ck_assert_uint_eq(plan.count, 1);
    ck_assert_uint_eq(run(&plan, ALL), 2 * M * K);
    ck_assert_mem_eq(in_range(&layout, GEMM_PART_A), body, 2 * M * K);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("copy_in");
    TCase *tcase = tcase_create("copy_in");
    tcase_add_loop_test(tcase, all_goes_once_however_it_lands, 0, 18);
    tcase_add_test(tcase, only_whole_rows_and_pages_go_early);
    tcase_add_test(tcase, a_restart_takes_all_once_more);
    tcase_add_test(tcase, what_is_elsewhere_goes_when_the_work_is_complete);
    tcase_add_test(tcase, what_was_wrong_goes_again);
    tcase_add_test(tcase, what_is_no_longer_in_the_plan_stays);
    tcase_add_test(tcase, an_attention_goes_as_it_lands);
    tcase_add_test(tcase, what_is_on_the_device_is_not_copied);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
