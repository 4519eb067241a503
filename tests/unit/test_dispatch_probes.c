/* server/scheduler/dispatch.c and probe.c over a simulated device: readiness probes. */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch_stage.h"
#include "server/base/clock.h"
#include "server/device/device_ops.h"
#include "server/scheduler/probe.h"
#include "tests/unit/reservations.h"

START_TEST(a_probe_passes_a_full_queue_and_busy_streams)
{
    struct item *items[3];
    start(1, 3);
    for (int i = 0; i < 3; i++)
        items[i] = add_and_push(SIMULATED_RUNNING);
    wait_until_submitted(1);
    ck_assert_int_eq(take_reservation_in_queue(stage.queue, 0, 0, NULL), GEMMD_ERR_QUEUE_FULL);
    ck_assert(probe(PROBE_MS, NULL));
    ck_assert_uint_eq(atomic_load(&stage.device->probes), 1);
    ck_assert_uint_eq(device_in_flight(&stage.device->base), 1);
    for (int i = 0; i < 3; i++)
        end_with(items[i], SIMULATED_DONE);
    stop();
}
END_TEST

START_TEST(a_right_answer_is_good_for_a_second)
{
    start(1, ITEMS_MAX);
    uint64_t begun_ns = clock_now_ns();
    ck_assert(probe(PROBE_MS, NULL));
    ck_assert(probe(PROBE_MS, NULL));
    uint32_t probes = atomic_load(&stage.device->probes);
    const uint64_t known_ns = clock_now_ns();
    if (known_ns - begun_ns < 1000000000u)
        ck_assert_uint_eq(probes, 1);
    while (clock_now_ns() - known_ns < 1100000000u)
        wait_a_little();
    ck_assert(probe(PROBE_MS, NULL));
    ck_assert_uint_gt(atomic_load(&stage.device->probes), probes);
    stop();
}
END_TEST

START_TEST(a_wrong_answer_is_not_ready_until_a_right_one)
{
    char reason[PROBE_REASON_MAX];
    start(1, ITEMS_MAX);
    atomic_store(&stage.device->probe, SIMULATED_PROBE_WRONG);
    ck_assert(!probe(PROBE_MS, reason));
    ck_assert_ptr_nonnull(strstr(reason, "wrong element"));
    atomic_store(&stage.device->probe, SIMULATED_PROBE_RIGHT);
    ck_assert(probe(PROBE_MS, reason));
    ck_assert_str_eq(reason, "");
    stop();
}
END_TEST

START_TEST(a_silent_device_is_not_ready)
{
    char reason[PROBE_REASON_MAX];
    start(1, ITEMS_MAX);
    atomic_store(&stage.device->probe, SIMULATED_PROBE_SILENT);
    ck_assert(!probe(10, reason));
    ck_assert_ptr_nonnull(strstr(reason, "did not answer"));
    struct item *item = add_and_push(SIMULATED_DONE); /* it still does its other work */
    wait_until_ended(item);
    atomic_store(&stage.device->probe, SIMULATED_PROBE_RIGHT);
    ck_assert(probe(PROBE_MS, NULL));
    stop();
}
END_TEST

START_TEST(an_asker_keeps_its_time)
{
    struct asker hasty = {.wait.done = asker_told}, patient = {.wait.done = asker_told};
    start(1, ITEMS_MAX);
    atomic_store(&stage.device->probe, SIMULATED_PROBE_SILENT);
    ck_assert(!dispatch_probe(stage.dispatch, &patient.wait, PROBE_MS));
    ck_assert(!dispatch_probe(stage.dispatch, &hasty.wait, 0));
    dispatch_expire_probes(stage.dispatch, clock_now_ns());
    ck_assert(atomic_load(&hasty.answered) && !hasty.wait.right);
    ck_assert_str_eq(hasty.wait.reason, "the device did not answer within 0 ms");
    ck_assert(!atomic_load(&patient.answered));
    atomic_store(&stage.device->probe, SIMULATED_PROBE_RIGHT);
    while (!atomic_load(&patient.answered))
        wait_a_little();
    ck_assert(patient.wait.right);
    stop();
}
END_TEST

/* A CPU computes in the dispatch thread, where a product can take longer than a probe may. */
START_TEST(a_device_that_is_computing_is_ready)
{
    start_on(simulated_device_open_computing(look), ITEMS_MAX);
    atomic_store(&stage.device->probe, SIMULATED_PROBE_WRONG);
    struct item *item = add_and_push(SIMULATED_RUNNING);
    wait_until_submitted(1);
    ck_assert(probe(0, NULL));
    end_with(item, SIMULATED_DONE);
    ck_assert(!probe(PROBE_MS, NULL)); /* idle, it has to prove it */
    stop();
    ck_assert_int_eq(item->work.status, GEMMD_OK);
}
END_TEST

static void *ask(void *right)
{
    *(bool *)right = probe(PROBE_MS, NULL);
    return NULL;
}

START_TEST(many_may_ask_at_once)
{
    pthread_t threads[8];
    bool right[8] = {false};
    start(1, ITEMS_MAX);
    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, ask, &right[i]), 0);
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
        ck_assert(right[i]);
    }
    stop();
}
END_TEST

static void look_after(uint64_t *now_ns, uint64_t step_ns)
{
    *now_ns += step_ns;
    dispatch_look(stage.dispatch, *now_ns);
}

/* The probe has a stream of its own, and says nothing about the streams of requests. */
START_TEST(a_device_that_finishes_nothing_is_not_ready_until_it_does)
{
    const uint64_t limit_ns = UINT64_C(10000000000);
    char reason[PROBE_REASON_MAX];
    uint64_t now_ns = 1;
    start(1, ITEMS_MAX);
    dispatch_set_stall_limit(stage.dispatch, limit_ns);
    look_after(&now_ns, 0);
    look_after(&now_ns, 10 * limit_ns); /* without work it may rest */
    ck_assert_uint_eq(dispatch_stalled_ns(stage.dispatch), 0);
    struct item *item = add_and_push(SIMULATED_RUNNING);
    wait_until_submitted(1);
    look_after(&now_ns, 0);
    look_after(&now_ns, limit_ns);
    ck_assert(probe(PROBE_MS, NULL));
    look_after(&now_ns, limit_ns / 2);
    ck_assert_uint_eq(dispatch_stalled_ns(stage.dispatch), limit_ns + limit_ns / 2);
    ck_assert(!probe(PROBE_MS, reason));
    ck_assert_str_eq(reason, "the device has work and has finished nothing for 15 seconds");
    device_note_progress(&stage.device->base);
    look_after(&now_ns, 0);
    ck_assert(probe(PROBE_MS, NULL));
    look_after(&now_ns, 2 * limit_ns);
    ck_assert(!probe(PROBE_MS, NULL));
    end_with(item, SIMULATED_DONE);
    look_after(&now_ns, 0);
    ck_assert(probe(PROBE_MS, NULL));
    stop();
}
END_TEST

START_TEST(no_limit_is_no_stall)
{
    uint64_t now_ns = 1;
    start(1, ITEMS_MAX);
    struct item *item = add_and_push(SIMULATED_RUNNING);
    wait_until_submitted(1);
    look_after(&now_ns, 0);
    look_after(&now_ns, UINT64_MAX / 2);
    ck_assert(probe(PROBE_MS, NULL));
    end_with(item, SIMULATED_DONE);
    stop();
}
END_TEST

/* The linker sends the calls of device_cpu_host_alloc and device_cpu_host_free here (-Wl,--wrap).
 */
void *__real_device_cpu_host_alloc(uint64_t bytes, struct fault *fault);
void __real_device_cpu_host_free(void *memory, uint64_t bytes);
void *__wrap_device_cpu_host_alloc(uint64_t bytes, struct fault *fault);
void __wrap_device_cpu_host_free(void *memory, uint64_t bytes);
static uint64_t host_bytes; /* that are allocated */

void *__wrap_device_cpu_host_alloc(uint64_t bytes, struct fault *fault)
{
    void *memory = __real_device_cpu_host_alloc(bytes, fault);
    host_bytes += memory != NULL ? bytes : 0;
    return memory;
}

void __wrap_device_cpu_host_free(void *memory, uint64_t bytes)
{
    host_bytes -= bytes;
    __real_device_cpu_host_free(memory, bytes);
}

START_TEST(a_probe_without_device_memory_gives_its_host_memory_back)
{
    struct simulated_device *device = simulated_device_open(1, look);
    ck_assert_ptr_nonnull(device);
    struct arena *arena = device_arena(&device->base);
    uint64_t all;
    struct probe *made = probe_create(&device->base);
    ck_assert_ptr_nonnull(made);
    ck_assert_uint_gt(host_bytes, 0);
    probe_destroy(made);
    ck_assert_uint_eq(host_bytes, 0);
    ck_assert(arena_alloc(arena, arena_capacity_bytes(arena), &all));
    ck_assert_ptr_null(probe_create(&device->base));
    ck_assert_uint_eq(host_bytes, 0);
    arena_free(arena, all);
    device_close(&device->base);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("dispatch_probes");
    TCase *tests = tcase_create("dispatch_probes");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_probe_passes_a_full_queue_and_busy_streams);
    tcase_add_test(tests, a_right_answer_is_good_for_a_second);
    tcase_add_test(tests, a_wrong_answer_is_not_ready_until_a_right_one);
    tcase_add_test(tests, a_silent_device_is_not_ready);
    tcase_add_test(tests, an_asker_keeps_its_time);
    tcase_add_test(tests, a_device_that_is_computing_is_ready);
    tcase_add_test(tests, many_may_ask_at_once);
    tcase_add_test(tests, a_device_that_finishes_nothing_is_not_ready_until_it_does);
    tcase_add_test(tests, no_limit_is_no_stall);
    tcase_add_test(tests, a_probe_without_device_memory_gives_its_host_memory_back);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
