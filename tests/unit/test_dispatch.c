/* server/scheduler/dispatch.c over a simulated device: streams, failures, deadlines, stopping. */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch_stage.h"
#include "server/base/clock.h"
#include "tests/unit/reservations.h"

enum { PRODUCERS = 3, EACH = 500 };

START_TEST(work_runs_and_its_times_are_told)
{
    start(2, ITEMS_MAX);
    struct item *item = add_and_push(SIMULATED_DONE);
    wait_until_ended(item);
    stop();
    ck_assert_uint_eq(atomic_load(&item->ended), 1);
    ck_assert_int_eq(item->work.status, GEMMD_OK);
    ck_assert_uint_eq(item->work.launch_works, 1);
    ck_assert_uint_eq(item->work.kernel_ns, 2000);
    ck_assert_uint_le(item->work.queued_ns, item->work.started_ns);
    ck_assert_uint_le(item->work.started_ns, item->work.done_ns);
}
END_TEST

static void item_started(struct work *work)
{
    struct item *item = (struct item *)work;
    ck_assert_uint_eq(atomic_load(&item->ended), 0);
    atomic_fetch_add(&item->begun, 1);
}

START_TEST(who_wants_to_know_is_told_when_his_work_begins)
{
    struct item *items[3];
    start(1, ITEMS_MAX);
    for (int i = 0; i < 3; i++) {
        items[i] = add(SIMULATED_RUNNING);
        items[i]->work.started = item_started;
        push(items[i]);
    }
    wait_until_submitted(1);
    ck_assert_uint_eq(atomic_load(&items[0]->begun), 1);
    ck_assert_uint_eq(atomic_load(&items[1]->begun), 0);
    ck_assert(queue_cancel(stage.queue, &items[2]->work));
    end_with(items[0], SIMULATED_DONE);
    end_with(items[1], SIMULATED_FAILED);
    stop();
    ck_assert_uint_eq(atomic_load(&items[0]->begun), 1);
    ck_assert_uint_eq(atomic_load(&items[1]->begun), 1);
    ck_assert_uint_eq(atomic_load(&items[2]->begun), 0);
    ck_assert_uint_eq(atomic_load(&items[2]->ended), 0);
}
END_TEST

START_TEST(one_stream_runs_by_priority)
{
    static const uint32_t priorities[] = {1, 9, 4, 9, 0};
    static const uint32_t expected[] = {4, 1, 3, 2, 5};
    struct item *items[5];
    start(1, ITEMS_MAX);
    struct item *first = add_and_push(SIMULATED_RUNNING);
    wait_until_submitted(1);
    for (int i = 0; i < 5; i++) {
        items[i] = add(SIMULATED_DONE);
        items[i]->work.priority = priorities[i];
        push(items[i]);
    }
    end_with(first, SIMULATED_DONE);
    for (int i = 0; i < 5; i++)
        wait_until_ended(items[i]);
    stop();
    for (int i = 0; i < 5; i++)
        ck_assert_uint_eq(items[i]->rank, expected[i] + 1);
}
END_TEST

START_TEST(every_stream_is_used_and_no_more)
{
    struct item *items[5];
    start(3, ITEMS_MAX);
    for (int i = 0; i < 5; i++)
        items[i] = add_and_push(SIMULATED_RUNNING);
    wait_until_submitted(3);
    ck_assert_uint_eq(device_in_flight(&stage.device->base), 3);
    ck_assert_uint_eq(queue_state(stage.queue).waiting, 2);
    end_with(items[1], SIMULATED_DONE);
    wait_until_submitted(4);
    ck_assert_uint_eq(queue_state(stage.queue).waiting, 1);
    for (int i = 0; i < 5; i++)
        end_with(items[i], SIMULATED_DONE);
    stop();
    ck_assert_uint_eq(atomic_load(&stage.ranks), 5);
}
END_TEST

/* More than the dispatch thread looks at all the time. */
/* Long works leave the last of four streams to works of other tenants that are not long. */
START_TEST(long_works_leave_a_stream)
{
    enum { STREAMS = 4 };
    struct item *longs[STREAMS];
    start(STREAMS, ITEMS_MAX);
    for (int i = 0; i < STREAMS; i++) {
        longs[i] = add(SIMULATED_RUNNING);
        longs[i]->work.share_flops = 1e12;
        push(longs[i]);
    }
    wait_until_submitted(STREAMS - 1);
    for (int i = 0; i < 3; i++) {
        struct item *other = add(SIMULATED_DONE);
        other->work.tenant = 1;
        push(other);
        wait_until_ended(other);
    }
    ck_assert_uint_eq(atomic_load(&stage.device->submitted), STREAMS - 1 + 3);
    end_with(longs[0], SIMULATED_DONE);
    wait_until_submitted(STREAMS + 3);
    for (int i = 1; i < STREAMS; i++)
        end_with(longs[i], SIMULATED_DONE);
    stop();
}
END_TEST

START_TEST(a_crowd_begins_and_ends)
{
    enum { MANY = 30 };
    struct item *items[MANY + 1];
    start(MANY, ITEMS_MAX);
    for (int i = 0; i <= MANY; i++) /* the last has to wait */
        items[i] = add_and_push(SIMULATED_RUNNING);
    wait_until_submitted(MANY);
    end_with(items[0], SIMULATED_DONE);
    wait_until_submitted(MANY + 1);
    for (int i = 1; i <= MANY; i++)
        end_with(items[i], SIMULATED_DONE);
    for (int i = 0; i <= MANY; i++)
        ck_assert_int_eq(items[i]->work.status, GEMMD_OK);
    stop();
}
END_TEST

START_TEST(a_failure_is_its_own_work_s_alone)
{
    struct item *items[3];
    start(2, ITEMS_MAX);
    for (int i = 0; i < 3; i++)
        items[i] = add_and_push(i == 1 ? SIMULATED_FAILED : SIMULATED_DONE);
    for (int i = 0; i < 3; i++)
        wait_until_ended(items[i]);
    ck_assert(probe(PROBE_MS, NULL));
    ck_assert(counts("gemmd_device_errors_total 1\n"));
    stop();
    ck_assert_int_eq(items[0]->work.status, GEMMD_OK);
    ck_assert_int_eq(items[1]->work.status, GEMMD_ERR_INTERNAL);
    ck_assert_str_eq(items[1]->work.fault.detail, "a simulated failure");
    ck_assert_int_eq(items[2]->work.status, GEMMD_OK);
}
END_TEST

START_TEST(a_lost_device_fails_everything_once)
{
    struct item *items[6];
    char reason[PROBE_REASON_MAX];
    start(2, ITEMS_MAX);
    for (int i = 0; i < 5; i++) /* two on the device, three waiting */
        items[i] = add_and_push(SIMULATED_RUNNING);
    wait_until_submitted(2);
    ck_assert_int_eq(take_reservation_in_queue(stage.queue, 0, 0, NULL), GEMMD_OK);
    end_with(items[1], SIMULATED_LOST);
    for (int i = 0; i < 5; i++)
        wait_until_ended(items[i]);
    items[5] = add(SIMULATED_DONE); /* the reservation was made before */
    queue_push(stage.queue, &items[5]->work);
    ck_assert(!probe(PROBE_MS, reason));
    ck_assert_ptr_nonnull(strstr(reason, "a simulated loss"));
    ck_assert(counts("gemmd_device_errors_total 1\n"));
    ck_assert_uint_eq(atomic_load(&stage.device->submitted), 2);
    stop();
    for (int i = 0; i < 6; i++) {
        ck_assert_uint_eq(atomic_load(&items[i]->ended), 1);
        ck_assert_int_eq(items[i]->work.status, GEMMD_ERR_DEVICE_LOST);
        ck_assert_ptr_nonnull(strstr(items[i]->work.fault.detail, "a simulated loss"));
    }
}
END_TEST

START_TEST(a_result_after_its_deadline_is_dropped)
{
    start(1, ITEMS_MAX);
    struct item *item = add(SIMULATED_RUNNING);
    item->work.deadline_ns = clock_now_ns() + 50000000;
    push(item);
    while (clock_now_ns() <= item->work.deadline_ns)
        wait_a_little();
    end_with(item, SIMULATED_DONE);
    stop();
    ck_assert_int_eq(item->work.status, GEMMD_ERR_DEADLINE);
    ck_assert_int_eq(item->work.fault.code, GEMMD_ERR_DEADLINE);
}
END_TEST

START_TEST(work_that_expires_in_the_queue_never_runs)
{
    start(1, ITEMS_MAX);
    struct item *running = add_and_push(SIMULATED_RUNNING);
    wait_until_submitted(1);
    struct item *late = add(SIMULATED_DONE);
    late->work.deadline_ns = clock_now_ns();
    push(late);
    queue_expire(stage.queue, clock_now_ns());
    ck_assert_uint_eq(atomic_load(&late->ended), 1);
    end_with(running, SIMULATED_DONE);
    ck_assert_int_eq(late->work.status, GEMMD_ERR_DEADLINE);
    ck_assert_uint_eq(atomic_load(&stage.device->submitted), 1);
    stop();
}
END_TEST

static void *let_go(void *argument)
{
    (void)argument;
    for (uint32_t i = 0; i < stage.count; i++) {
        wait_a_little();
        atomic_store(&stage.items[i].event, SIMULATED_DONE);
    }
    return NULL;
}

START_TEST(stopping_finishes_what_was_accepted)
{
    pthread_t thread;
    start(2, ITEMS_MAX);
    for (int i = 0; i < 20; i++) {
        struct item *item = add(SIMULATED_RUNNING);
        item->work.verify = i % 3 == 0;
        push(item);
    }
    ck_assert_int_eq(pthread_create(&thread, NULL, let_go, NULL), 0);
    queue_close(stage.queue);
    ck_assert(dispatch_stop(stage.dispatch, UINT64_MAX));
    for (uint32_t i = 0; i < stage.count; i++) {
        ck_assert_uint_eq(atomic_load(&stage.items[i].ended), 1);
        ck_assert_int_eq(stage.items[i].work.status, GEMMD_OK);
    }
    pthread_join(thread, NULL);

    /* Nobody is there for what comes now: it is told so at once. */
    struct item *late = add(SIMULATED_DONE);
    queue_push(stage.queue, &late->work);
    ck_assert_int_eq(late->work.status, GEMMD_ERR_DRAINING);
    stage.dispatch = NULL;
    stop();
}
END_TEST

struct load {
    struct item items[EACH];
    uint32_t seed;
};

/* Each work succeeds, fails or expires, as is decided before the work is pushed. */
static void *produce(void *argument)
{
    struct load *load = argument;
    for (uint32_t i = 0; i < EACH; i++) {
        struct item *item = &load->items[i];
        item->ranks = &stage.ranks;
        atomic_store(&item->event, (i + load->seed) % 11 == 0 ? SIMULATED_FAILED : SIMULATED_DONE);
        item->work.task = simulated_task;
        item->work.priority = i % 10;
        item->work.shared_launch = i % 3 != 0;
        item->work.verify = i % 5 == 0;
        item->work.deadline_ns = i % 13 == 0 ? clock_now_ns() + 20000 : 0;
        item->work.done = item_done;
        while (take_reservation_in_queue(stage.queue, 0, 0, NULL) != GEMMD_OK)
            wait_a_little();
        item->work.queued_ns = clock_now_ns();
        queue_push(stage.queue, &item->work);
        if (i % 8 == 7)
            wait_until_ended(item);
        give_reservation(queue_admission(stage.queue), 0, 0);
    }
    return NULL;
}

START_TEST(under_load_everything_ends_once)
{
    static struct load loads[PRODUCERS];
    pthread_t threads[PRODUCERS];
    start(4, 16);
    for (uint32_t i = 0; i < PRODUCERS; i++) {
        loads[i].seed = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, produce, &loads[i]), 0);
    }
    for (int i = 0; i < 20; i++) {
        ck_assert(probe(PROBE_MS, NULL));
        wait_a_little();
    }
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(threads[i], NULL);
    stop();
    for (int i = 0; i < PRODUCERS; i++)
        for (int j = 0; j < EACH; j++) {
            const struct item *item = &loads[i].items[j];
            bool fails = atomic_load(&item->event) == SIMULATED_FAILED;
            ck_assert_uint_eq(atomic_load(&item->ended), 1);
            if (item->work.status == GEMMD_ERR_DEADLINE && item->work.deadline_ns != 0)
                continue;
            /* What shares a launch with one that fails fails too. */
            if (fails || !item->work.shared_launch || item->work.status != GEMMD_ERR_INTERNAL)
                ck_assert_int_eq(item->work.status, fails ? GEMMD_ERR_INTERNAL : GEMMD_OK);
        }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("dispatch");
    TCase *tests = tcase_create("dispatch");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, work_runs_and_its_times_are_told);
    tcase_add_test(tests, who_wants_to_know_is_told_when_his_work_begins);
    tcase_add_test(tests, one_stream_runs_by_priority);
    tcase_add_test(tests, every_stream_is_used_and_no_more);
    tcase_add_test(tests, long_works_leave_a_stream);
    tcase_add_test(tests, a_crowd_begins_and_ends);
    tcase_add_test(tests, a_failure_is_its_own_work_s_alone);
    tcase_add_test(tests, a_lost_device_fails_everything_once);
    tcase_add_test(tests, a_result_after_its_deadline_is_dropped);
    tcase_add_test(tests, work_that_expires_in_the_queue_never_runs);
    tcase_add_test(tests, stopping_finishes_what_was_accepted);
    tcase_add_test(tests, under_load_everything_ends_once);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
