/* server/api/compute/compute_call.c: a product whose body goes to the device as it lands, on a
 * simulated one; what it holds is given back whatever becomes of it. The rest of a call is the
 * integration tests'.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "call_stage.h"
#include "server/api/compute/compute_call.h"

/* m and k; n is 4. A, B and C0 in f32, so that the body is more than two steps. */
enum { M = 1100, N = 4, K = 1000, MEMORY_BYTES = 64 << 20 };
enum { A_BYTES = M * K * 4, B_BYTES = K * N * 4, C0_BYTES = M * N * 4 };
enum { BODY_BYTES = A_BYTES + B_BYTES + C0_BYTES, PART = 300000 };

static struct call_stage stage;
static unsigned char *body;

static void start(void)
{
    call_stage_start(&stage, MEMORY_BYTES);
    body = malloc(BODY_BYTES);
    ck_assert_ptr_nonnull(body);
    for (uint32_t i = 0; i < BODY_BYTES; i++)
        body[i] = (unsigned char)(i * 13 + i / 4099);
}

static void stop(void)
{
    call_stage_stop(&stage);
    free(body);
}

/* A call of so many rows, and C0 if `beta` is not 0; all but the body has come. */
static void open_call_of(struct compute_call *call, const char *m, const char *beta,
                         const char *kernel)
{
    const char *const parameters[][2] = {{"m", m},       {"n", "4"},       {"k", "1000"},
                                         {"beta", beta}, {"dtype", "f32"}, {"kernel", kernel}};
    struct fault fault = {.detail = ""};
    *call = (struct compute_call){.config = &stage.config, .memory = stage.memory};
    compute_call_begin(call, &call_gemm);
    for (uint32_t i = 0; i < sizeof parameters / sizeof *parameters; i++)
        ck_assert_int_eq(parameter_set(call->operation->parameters, &call->request,
                                       parameters[i][0], parameters[i][1], &fault),
                         GEMMD_OK);
    ck_assert_int_eq(compute_call_settle(call, &stage.services, "", &fault), GEMMD_OK);
    ck_assert_int_eq(compute_call_layout(call, &fault), GEMMD_OK);
    const struct body_length length = {.known = true, .bytes = call->layout.bytes};
    ck_assert_msg(compute_call_open(call, &stage.services, length, &fault) == GEMMD_OK, "%s",
                  fault.detail);
    ck_assert_int_eq(compute_call_look_ahead(call, &stage.services, &fault), GEMMD_OK);
}

static void open_call(struct compute_call *call, const char *m, const char *beta)
{
    open_call_of(call, m, beta, "auto");
}

static void append(struct compute_call *call, uint64_t from, uint64_t to)
{
    for (uint64_t at = from; at < to; at += PART)
        ck_assert_int_eq(compute_call_append(call, &stage.services, body + at,
                                             at + PART < to ? PART : to - at, NULL),
                         GEMMD_OK);
}

static void assert_part_is(const struct compute_call *call, uint64_t offset, const void *bytes,
                           uint64_t count)
{
    ck_assert_mem_eq(stage.device->memory + call->work.device_offset + offset, bytes, count);
}

/* Up to the end of its work. */
static void compute(struct compute_call *call)
{
    ck_assert_int_eq(compute_call_bind(call, &stage.services, NULL), GEMMD_OK);
    ck_assert_ptr_nonnull(call->work.copy_in);
    early_copy_feed(stage.services.executors.list[0].early_copy);
    device_submit(stage.services.executors.list[0].device, &call->work);
    ck_assert_ptr_eq(device_poll(stage.services.executors.list[0].device), &call->work);
    ck_assert_int_eq(call->work.status, GEMMD_OK);
}

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + DEVICE_LAYOUT_ALIGNMENT - 1) / DEVICE_LAYOUT_ALIGNMENT *
           DEVICE_LAYOUT_ALIGNMENT;
}

START_TEST(operands_are_on_the_device_when_their_body_is_there)
{
    struct compute_call call;
    start();
    open_call(&call, "1100", "1");
    ck_assert_ptr_nonnull(call.early_copy);
    append(&call, 0, BODY_BYTES / PART * PART);
    ck_assert_uint_ge(early_copy_feed(stage.services.executors.list[0].early_copy),
                      EARLY_COPY_STEP_BYTES);
    append(&call, BODY_BYTES / PART * PART, BODY_BYTES);
    compute(&call);
    assert_part_is(&call, 0, body, A_BYTES);
    assert_part_is(&call, aligned(A_BYTES), body + A_BYTES, B_BYTES);
    assert_part_is(&call, aligned(A_BYTES) + aligned(B_BYTES), body + A_BYTES + B_BYTES, C0_BYTES);
    compute_call_finish(&call, &stage.services);
    ck_assert_ptr_null(call.work.copy_in);
    compute_call_close(&call, &stage.services);
    stop();
}
END_TEST

START_TEST(a_call_that_is_moved_takes_its_copies_along)
{
    struct compute_call call, job;
    start();
    open_call(&call, "1100", "0");
    append(&call, 0, A_BYTES + B_BYTES);
    ck_assert_uint_gt(early_copy_feed(stage.services.executors.list[0].early_copy), 0);
    ck_assert_int_eq(compute_call_bind(&call, &stage.services, NULL), GEMMD_OK);
    compute_call_move(&job, &call);
    compute_call_close(&call, &stage.services);
    ck_assert_ptr_null(call.early_copy);
    compute(&job);
    assert_part_is(&job, 0, body, A_BYTES);
    compute_call_close(&job, &stage.services);
    stop();
}
END_TEST

/* Its client leaves within the body, or its body is there and its work is never run. */
START_TEST(what_copies_use_outlives_the_call)
{
    struct compute_call call;
    start();
    open_call(&call, "1100", "0");
    atomic_store(&stage.device->copies, SIMULATED_RUNNING);
    append(&call, 0, _i == 0 ? A_BYTES - 1 : A_BYTES + B_BYTES);
    ck_assert_uint_gt(early_copy_feed(stage.services.executors.list[0].early_copy), 0);
    if (_i == 1)
        ck_assert_int_eq(compute_call_bind(&call, &stage.services, NULL), GEMMD_OK);
    compute_call_close(&call, &stage.services);
    early_copy_feed(stage.services.executors.list[0].early_copy);
    ck_assert_uint_ge(pool_used_bytes(stage.services.pool), A_BYTES + B_BYTES);
    ck_assert_uint_ge(arena_used_bytes(device_arena(stage.services.executors.list[0].device)),
                      A_BYTES);
    ck_assert_uint_eq(
        admission_held(queue_admission(stage.services.executors.list[0].queue)).requests, 0);
    atomic_store(&stage.device->copies, SIMULATED_DONE);
    early_copy_feed(stage.services.executors.list[0].early_copy);
    stop();
}
END_TEST

START_TEST(a_body_that_is_cut_short_gives_all_back)
{
    struct compute_call call;
    start();
    open_call(&call, "1100", "0");
    append(&call, 0, A_BYTES);
    early_copy_feed(stage.services.executors.list[0].early_copy);
    ck_assert_int_eq(compute_call_bind(&call, &stage.services, NULL), GEMMD_ERR_MALFORMED);
    compute_call_close(&call, &stage.services);
    early_copy_feed(stage.services.executors.list[0].early_copy);
    stop();
}
END_TEST

static struct work *ended; /* the work of a call that was pushed */

static void note_end(struct work *work)
{
    ck_assert_ptr_null(ended);
    ended = work;
}

/* Adds a device of the same model as the first, and makes both so slow that they compute together.
 */
static void add_device(void)
{
    struct executors *all = &stage.services.executors;
    struct simulated_device *other =
        simulated_device_open_copying(2, MEMORY_BYTES, stage.device->look);
    ck_assert_ptr_nonnull(other);
    all->list[1].device = &other->base;
    all->list[1].queue = queue_create(stage.services.admission, 1);
    ck_assert_ptr_nonnull(all->list[1].queue);
    stage.device->base.info.peak_flops[GEMMD_F32] = other->base.info.peak_flops[GEMMD_F32] = 1e8;
    all->count = 2;
}

/* For _i: the part that fails. */
START_TEST(nobody_needs_the_other_parts_of_a_call_if_one_fails)
{
    const struct queue_room room = {.exclusive = 1};
    struct compute_call call;
    struct work *parts[2];
    start();
    add_device();
    struct executors *all = &stage.services.executors;
    open_call_of(&call, "1100", "0", "naive"); /* whose results may be divided */
    ck_assert_uint_eq(call.devices, 2);
    append(&call, 0, A_BYTES + B_BYTES);
    ck_assert_int_eq(compute_call_bind(&call, &stage.services, NULL), GEMMD_OK);
    call.work.done = note_end;
    compute_call_push(&call);
    for (int i = 0; i < 2; i++) {
        parts[i] = queue_pop(all->list[i].queue, room, 0);
        ck_assert_ptr_nonnull(parts[i]);
        ck_assert(!atomic_load(&parts[i]->stop));
    }
    parts[_i]->status = fault_set(&parts[_i]->fault, GEMMD_ERR_INTERNAL, NULL, "a failure");
    parts[_i]->done(parts[_i]);
    ck_assert_ptr_null(ended);
    ck_assert(atomic_load(&parts[1 - _i]->stop));
    work_set_stopped(parts[1 - _i]);
    parts[1 - _i]->done(parts[1 - _i]);
    ck_assert_ptr_eq(ended, &call.work);
    ck_assert_int_eq(call.work.status, GEMMD_ERR_INTERNAL);
    ck_assert_str_eq(call.work.fault.detail, "a failure");
    compute_call_close(&call, &stage.services);
    ck_assert_uint_eq(arena_used_bytes(device_arena(all->list[1].device)), 0);
    queue_destroy(all->list[1].queue);
    device_close(all->list[1].device);
    stop();
}
END_TEST

START_TEST(small_bodies_do_not_go_early)
{
    struct compute_call call;
    start();
    open_call(&call, "900", "0");
    ck_assert_ptr_null(call.early_copy);
    append(&call, 0, (900 * K + K * N) * 4);
    ck_assert_int_eq(compute_call_bind(&call, &stage.services, NULL), GEMMD_OK);
    ck_assert_ptr_null(call.work.copy_in);
    compute_call_close(&call, &stage.services);
    stop();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("compute_call");
    TCase *tcase = tcase_create("compute_call");
    tcase_add_test(tcase, operands_are_on_the_device_when_their_body_is_there);
    tcase_add_test(tcase, a_call_that_is_moved_takes_its_copies_along);
    tcase_add_loop_test(tcase, what_copies_use_outlives_the_call, 0, 2);
    tcase_add_test(tcase, a_body_that_is_cut_short_gives_all_back);
    tcase_add_loop_test(tcase, nobody_needs_the_other_parts_of_a_call_if_one_fails, 0, 2);
    tcase_add_test(tcase, small_bodies_do_not_go_early);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
