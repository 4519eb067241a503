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
static struct gemm_problem problem_in(unsigned char *at)
{
    struct gemm_problem problem = {
        .dtype = GEMMD_F16, .out = GEMMD_F16, .m = M, .n = N, .k = K, .batch = 1};
    gemm_problem_contiguous(&problem);
    problem.a = at;
    problem.b = at + 2 * M * K;
    problem.bias = at + 2 * (M * K + K * N);
    problem.c0 = at + 2 * (M * K + K * N + N);
    return problem;
}
enum { BODY_BYTES = 2 * (M * K + K * N + N + M * N) };

/* A layout as of device_layout_padded. The leading dimension of A is `leading`, unless that is 0.
 */
static struct device_layout layout_of(const struct gemm_problem *problem, uint64_t leading)
{
    static const struct device_part none;
    struct device_layout layout = {.problem = *problem};
    layout.a = (struct device_part){0, 2 * M * (leading != 0 ? leading : K)};
    layout.b = (struct device_part){32768, 2 * K * N};
    layout.bias = (struct device_part){65536, 2 * N};
    layout.c0 = (struct device_part){66048, 2 * M * N};
    layout.a_staging = leading != 0 ? (struct device_part){98304, 2 * M * K} : none;
    layout.problem.lda = leading != 0 ? leading : K;
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

static void assert_all_there(const struct gemm_problem *problem, const struct device_layout *layout)
{
    const uint64_t leading = layout->problem.lda;
    for (uint64_t row = 0; row < M; row++)
        ck_assert_msg(memcmp(range + layout->a.offset + 2 * row * leading,
                             (const unsigned char *)problem->a + 2 * row * K, 2 * K) == 0,
                      "row %u of A is not what was sent", (unsigned)row);
    ck_assert_mem_eq(range + layout->b.offset, problem->b, 2 * K * N);
    ck_assert_mem_eq(range + layout->bias.offset, problem->bias, 2 * N);
    ck_assert_mem_eq(range + layout->c0.offset, problem->c0, 2 * M * N);
}

/* 0: rows as they came; 1032: further apart. */
static const uint64_t leadings[] = {0, 1032, 1088};
/* Bytes that are received from one step to the next. */
static const uint64_t steps[] = {1, 1000, 4096, 2 * K, 3 * K, 50000};

START_TEST(all_goes_once_however_it_lands)
{
    const uint64_t leading = leadings[_i % 3], step = steps[_i / 3];
    fill();
    const struct gemm_problem problem = problem_in(body + BODY_OFFSET);
    const struct device_layout layout = layout_of(&problem, leading);
    struct copy_in plan;
    copy_in_plan(&plan, &problem, &layout, nowhere, range, SPAN(body + BODY_OFFSET));
    ck_assert_uint_eq(plan.count, 4);
    ck_assert_int_eq(plan.copy_stream, COPY_IN_NO_STREAM);
    uint64_t bytes = 0;
    for (uint64_t received = 0; received < BODY_BYTES; received += step)
        bytes += run(&plan, received);
    bytes += run(&plan, BODY_BYTES);
    ck_assert_uint_eq(bytes, BODY_BYTES);
    assert_all_there(&problem, &layout);
    ck_assert_uint_eq(run(&plan, ALL), 0);
}
END_TEST

START_TEST(only_whole_rows_and_pages_go_early)
{
    struct copy_in plan;
    fill();
    const struct gemm_problem problem = problem_in(body);
    const struct device_layout padded = layout_of(&problem, 1032), plain = layout_of(&problem, 0);
    copy_in_plan(&plan, &problem, &padded, nowhere, range, SPAN(body));
    ck_assert_uint_eq(run(&plan, 2 * K - 1), 0);
    ck_assert_uint_eq(run(&plan, 2 * K), 2 * K);
    ck_assert_uint_eq(run(&plan, 2 * M * K + 4095), 2 * (M - 1) * K); /* and nothing of B */
    ck_assert_uint_eq(run(&plan, 2 * M * K + 4096), 4096);
    copy_in_plan(&plan, &problem, &plain, nowhere, range, SPAN(body));
    ck_assert_uint_eq(run(&plan, 4095), 0);
    ck_assert_uint_eq(run(&plan, 5000), 4096);
}
END_TEST

START_TEST(a_restart_takes_all_once_more)
{
    struct copy_in plan;
    fill();
    const struct gemm_problem problem = problem_in(body);
    const struct device_layout layout = layout_of(&problem, 1032);
    copy_in_plan(&plan, &problem, &layout, nowhere, range, SPAN(body));
    ck_assert_uint_gt(run(&plan, BODY_BYTES / 2), 0);
    copy_in_restart(&plan);
    memset(range, 0xee, sizeof range);
    ck_assert_uint_eq(run(&plan, ALL), BODY_BYTES);
    assert_all_there(&problem, &layout);
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
    struct gemm_problem problem = problem_in(body);
    const void *bias = problem.bias;
    const struct device_layout layout = layout_of(&problem, 0);
    problem.b = elsewhere;
    problem.bias = &layout; /* anything but where it will be */
    copy_in_plan(&plan, &problem, &layout, nowhere, range, SPAN(body));
    ck_assert(copy_in_has_early(&plan));
    ck_assert_uint_eq(run(&plan, BODY_BYTES), 2 * (M * K + M * N));
    problem.bias = bias;
    copy_in_plan(&all, &problem, &layout, nowhere, range, nowhere);
    copy_in_settle(&plan, &all);
    ck_assert_uint_eq(run(&plan, ALL), 2 * (K * N + N));
    assert_all_there(&problem, &layout);
    problem.a = problem.b = problem.bias = problem.c0 = elsewhere;
    copy_in_plan(&plan, &problem, &layout, nowhere, range, SPAN(body));
    ck_assert(!copy_in_has_early(&plan));
}
END_TEST

/* Operands whose source or destination differs from the early plan are copied again. */
START_TEST(what_was_wrong_goes_again)
{
    struct copy_in plan, all;
    fill();
    struct gemm_problem problem = problem_in(body);
    struct device_layout layout = layout_of(&problem, 0);
    problem.a = body + 512;
    copy_in_plan(&plan, &problem, &layout, nowhere, range, SPAN(body));
    ck_assert_uint_eq(run(&plan, BODY_BYTES), BODY_BYTES);
    problem.a = body;
    layout.c0.offset += 2048;
    copy_in_plan(&all, &problem, &layout, nowhere, range, nowhere);
    copy_in_settle(&plan, &all);
    ck_assert_uint_eq(run(&plan, ALL), 2 * (M * K + M * N));
    assert_all_there(&problem, &layout);
}
END_TEST

START_TEST(an_attention_goes_as_it_lands)
{
    enum { ROWS = 3000, D = 4, LENS = 8, BYTES = 2 * ROWS * D };
    struct task task = {.operation = &operation_attention};
    struct task_parts parts = {.total_bytes = 0};
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
    parts.count = task.operation->parts(problem, parts.list);
    parts.places[ATTENTION_PART_LENS_Q] = (struct device_part){0, LENS};
    parts.places[ATTENTION_PART_LENS_KV] = (struct device_part){256, LENS};
    parts.places[ATTENTION_PART_Q] = (struct device_part){512, BYTES};
    parts.places[ATTENTION_PART_K] = (struct device_part){32768, BYTES};
    static unsigned char v[BYTES];
    struct copy_in plan;
    fill();
    problem->v = v; /* in tensor memory, and so without a place */
    copy_in_plan_task(&plan, &task, &parts, range, (struct device_span){body, sizeof body});
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
    struct gemm_problem problem = problem_in(body);
    struct device_layout layout = layout_of(&problem, 0);
    problem.b = resident;
    problem.bias = problem.c0 = NULL;
    layout.bias.bytes = layout.c0.bytes = 0;
    const struct device_span there = {resident, sizeof resident};
    copy_in_plan(&plan, &problem, &layout, there, range, nowhere);
    ck_assert_uint_eq(plan.count, 1);
    ck_assert_uint_eq(run(&plan, ALL), 2 * M * K);
    ck_assert_mem_eq(range + layout.a.offset, body, 2 * M * K);
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
    tcase_add_test(tcase, an_attention_goes_as_it_lands);
    tcase_add_test(tcase, what_is_on_the_device_is_not_copied);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
