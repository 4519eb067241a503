/* The queue, the dispatch thread and a simulated device together: which works run, how works end
 * that expire, are cancelled or fail at each stage, and that all reservations are given back. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/base/clock.h"
#include "server/scheduler/dispatch.h"
#include "simulated_device.h"
#include "tests/unit/admitted_queue.h"
#include "tests/unit/reservations.h"

enum { WORKS_MAX = 512, TENANTS = 3, MAX_LAUNCH_WORKS = 4, BYTES = 100 };

/* A work, and what its owner sees of the work. */
struct sent_task {
    struct simulated_work scripted; /* first */
    atomic_uint ended;              /* how often `done` was called */
    uint32_t rank;                  /* the how-manieth of all to end, from 1 */
};

static struct {
    struct simulated_device *device;
    struct queue *queue;
    struct metrics *metrics;
    struct dispatch *dispatch;
    struct sent_task tasks[WORKS_MAX];
    uint32_t count;
    atomic_uint ended;
} stage; /* each test runs in a process of its own */

static const struct operation_kernel simulated_kernel = {.name = "simulated"};

static void wait_a_little(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

static void task_done(struct work *work)
{
    struct sent_task *task = (struct sent_task *)work;
    task->rank = atomic_fetch_add(&stage.ended, 1) + 1;
    give_reservation(queue_admission(stage.queue), work->tenant, work->bytes);
    atomic_fetch_add(&task->ended, 1);
}

static void start_on(struct simulated_device *device)
{
    const struct admission_limits limits = {
        .requests = WORKS_MAX, .bytes = UINT64_MAX, .tenants = TENANTS};
    const struct metrics_identity identity = {"0", "0", "cpu", "", "", ""};
    stage.device = device;
    stage.queue = queue_with_limits(&limits);
    stage.metrics = metrics_create(1, &identity);
    stage.dispatch = dispatch_start(&stage.device->base, stage.queue, NULL,
                                    metrics_shard(stage.metrics, 0), MAX_LAUNCH_WORKS, 0);
    ck_assert_ptr_nonnull(stage.dispatch);
}

static void start(uint32_t slots)
{
    start_on(simulated_device_open_scripted(slots));
}

/* Checks that every work has ended once, and that no reservation is held. */
static void stop(void)
{
    queue_close(stage.queue);
    ck_assert(dispatch_stop(stage.dispatch, UINT64_MAX)); /* which may have been begun before */
    for (uint32_t i = 0; i < stage.count; i++)
        ck_assert_uint_eq(atomic_load(&stage.tasks[i].ended), 1);
    struct queue_state state = queue_state(stage.queue);
    ck_assert_uint_eq(state.waiting, 0);
    ck_assert_uint_eq(state.waiting_bytes, 0);
    ck_assert_uint_eq(state.reserved, 0);
    ck_assert_uint_eq(state.reserved_bytes, 0);
    ck_assert_uint_eq(device_in_flight(&stage.device->base), 0);
    queue_free(stage.queue);
    metrics_destroy(stage.metrics);
    device_close(&stage.device->base);
}

/* A work that runs for one poll and then succeeds. */
static struct sent_task *make(uint32_t tenant)
{
    struct sent_task *task = &stage.tasks[stage.count];
    struct work *work = &task->scripted.work;
    ck_assert_uint_lt(stage.count, WORKS_MAX);
    stage.count++;
    memset(task, 0, sizeof *task);
    atomic_store(&task->scripted.looks, 1);
    atomic_store(&task->scripted.at_end, SIMULATED_DONE);
    work->task = (struct task){.operation = &operation_gemm,
                               .kernel = &simulated_kernel,
                               .problem.gemm = {.m = 1, .n = 1, .k = 1, .batch = 1}};
    work->tenant = tenant;
    work->priority = 4;
    work->bytes = BYTES;
    work->done = task_done;
    return task;
}

static void reserve(struct sent_task *task)
{
    struct work *work = &task->scripted.work;
    ck_assert_int_eq(take_reservation_in_queue(stage.queue, work->tenant, work->bytes, NULL),
                     GEMMD_OK);
}

static void hand_over(struct sent_task *task)
{
    task->scripted.work.queued_ns = clock_now_ns();
    queue_push(stage.queue, &task->scripted.work);
}

static struct sent_task *push(struct sent_task *task)
{
    reserve(task);
    hand_over(task);
    return task;
}

static void wait_until_submitted(uint32_t count)
{
    while (atomic_load(&stage.device->submitted) < count)
        wait_a_little();
}

static enum gemmd_error wait_for(const struct sent_task *task)
{
    while (atomic_load(&task->ended) == 0)
        wait_a_little();
    return task->scripted.work.status;
}

static void wait_for_all(void)
{
    for (uint32_t i = 0; i < stage.count; i++)
        wait_for(&stage.tasks[i]);
}

/* A work that runs on the device until the test releases it. */
static struct sent_task *block(bool shares)
{
    uint32_t submitted = atomic_load(&stage.device->submitted);
    struct sent_task *task = make(0);
    atomic_store(&task->scripted.held, true);
    task->scripted.work.shared_launch = shares;
    push(task);
    wait_until_submitted(submitted + 1);
    return task;
}

static void let_go(struct sent_task *task)
{
    atomic_store(&task->scripted.held, false);
}

/* Number of a tenant's works among the first `ranks` works to end. */
static uint32_t early(uint32_t tenant, uint32_t ranks)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < stage.count; i++)
        count += stage.tasks[i].scripted.work.tenant == tenant && stage.tasks[i].rank <= ranks;
    return count;
}

/* Tenant 0 floods the queue first; the others come later, one of them with deadlines. */
START_TEST(tenants_get_equal_parts_of_the_device)
{
    enum { EACH = 30 };
    start(1);
    struct sent_task *blocker = block(false);
    for (uint32_t tenant = 0; tenant < TENANTS; tenant++)
        for (uint32_t i = 0; i < (tenant == 0 ? 5 * EACH : EACH); i++) {
            struct sent_task *task = make(tenant);
            if (tenant == 1)
                task->scripted.work.deadline_ns = clock_now_ns() + 3600000000000 + i;
            push(task);
        }
    let_go(blocker);
    wait_for_all();
    for (uint32_t ranks = 2; ranks <= 3 * EACH; ranks++)
        for (uint32_t tenant = 0; tenant < TENANTS; tenant++) {
            ck_assert_uint_ge(early(tenant, ranks) + 1, (ranks - 1) / TENANTS);
            ck_assert_uint_le(early(tenant, ranks), (ranks - 1) / TENANTS + 2);
        }
    stop();
}
END_TEST

START_TEST(large_works_of_one_do_not_cost_another)
{
    enum { EACH = 20, LARGE = 50 };
    start(1);
    struct sent_task *blocker = block(false);
    for (uint32_t i = 0; i < EACH; i++) {
        struct sent_task *task = make(1);
        task->scripted.work.bytes = LARGE * (BYTES + 4096); /* as much as 50 small ones */
        push(task);
    }
    for (uint32_t i = 0; i < 2 * LARGE; i++)
        push(make(2));
    let_go(blocker);
    wait_for_all();
    /* By when the second has all of its 100, the first has about two. */
    for (uint32_t i = 0; i < EACH; i++)
        ck_assert_msg(i < 3 || stage.tasks[1 + i].rank > 2 * LARGE, "the large one %u was early",
                      i);
    stop();
}
END_TEST

/* A work of high priority does not wait for waiting works of low priority of its tenant, nor for
 * running works of low priority in the other lane. */
START_TEST(no_priority_is_inverted)
{
    start(1);
    struct sent_task *running = block(false), *large[4], *small[3];
    running->scripted.work.priority = 0;
    for (uint32_t i = 0; i < 4; i++) {
        large[i] = make(0);
        large[i]->scripted.work.priority = i == 3 ? 9 : i;
        push(large[i]);
    }
    for (uint32_t i = 0; i < 3; i++) {
        small[i] = make(0);
        small[i]->scripted.work.shared_launch = true;
        small[i]->scripted.work.priority = 9 - i;
        push(small[i]);
    }
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_int_eq(wait_for(small[i]), GEMMD_OK);
    ck_assert_uint_eq(atomic_load(&running->ended), 0);
    let_go(running);
    wait_for_all();
    ck_assert_uint_lt(large[3]->rank, large[2]->rank);
    ck_assert_uint_lt(large[2]->rank, large[1]->rank);
    ck_assert_uint_lt(large[1]->rank, large[0]->rank);
    stop();
}
END_TEST

/* Small works without end, of a higher priority than all others. */
static void *flood(void *over)
{
    struct sent_task *ring[8];
    for (uint32_t i = 0; i < 8; i++) {
        ring[i] = make(0);
        ring[i]->scripted.work.shared_launch = true;
        ring[i]->scripted.work.priority = 9;
        push(ring[i]);
    }
    while (!atomic_load((atomic_bool *)over))
        for (uint32_t i = 0; i < 8; i++) {
            wait_for(ring[i]);
            atomic_store(&ring[i]->ended, 0);
            atomic_store(&ring[i]->scripted.looks, 1);
            push(ring[i]);
        }
    for (uint32_t i = 0; i < 8; i++)
        wait_for(ring[i]);
    return NULL;
}

START_TEST(small_ones_do_not_starve_large_ones)
{
    atomic_bool over = false;
    pthread_t thread;
    start(1);
    struct sent_task *large[20];
    for (uint32_t i = 0; i < 20; i++)
        large[i] = make(1);
    ck_assert_int_eq(pthread_create(&thread, NULL, flood, &over), 0);
    for (uint32_t i = 0; i < 20; i++) {
        atomic_store(&large[i]->scripted.looks, 50);
        push(large[i]);
    }
    for (uint32_t i = 0; i < 20; i++)
        ck_assert_int_eq(wait_for(large[i]), GEMMD_OK);
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    stop();
}
END_TEST

START_TEST(a_small_one_waits_for_at_most_a_batch)
{
    start(1);
    struct sent_task *first[DEVICE_SHARED_SLOTS], *waiting[3 * MAX_LAUNCH_WORKS];
    for (uint32_t i = 0; i < DEVICE_SHARED_SLOTS; i++)
        first[i] = block(true);
    for (uint32_t i = 0; i < 3 * MAX_LAUNCH_WORKS; i++) {
        waiting[i] = make(0);
        waiting[i]->scripted.work.shared_launch = true;
        push(waiting[i]);
    }
    struct sent_task *late = make(1); /* of another tenant, who has had nothing yet */
    late->scripted.work.shared_launch = true;
    push(late);
    let_go(first[0]);
    wait_for(late);
    let_go(first[1]);
    wait_for_all();
    ck_assert_uint_le(late->rank, 1 + MAX_LAUNCH_WORKS);
    for (uint32_t i = 0; i < 3 * MAX_LAUNCH_WORKS; i++)
        ck_assert_uint_le(waiting[i]->scripted.work.launch_works, MAX_LAUNCH_WORKS);
    stop();
}
END_TEST

START_TEST(deadlines_are_kept_behind_a_blocked_device)
{
    struct sent_task *late[20], *patient[5];
    start(1);
    struct sent_task *alone = block(false), *sharing[DEVICE_SHARED_SLOTS];
    for (uint32_t i = 0; i < DEVICE_SHARED_SLOTS; i++)
        sharing[i] = block(true);
    uint32_t submitted = atomic_load(&stage.device->submitted);
    uint64_t base_ns = clock_now_ns() + 3600000000000;
    for (uint32_t i = 0; i < 20; i++) {
        late[i] = make(i % TENANTS);
        late[i]->scripted.work.shared_launch = i % 2;
        late[i]->scripted.work.priority = i % 10;
        late[i]->scripted.work.deadline_ns = base_ns + (i * 7 % 20) * 10000000;
        push(late[i]);
    }
    for (uint32_t i = 0; i < 5; i++)
        patient[i] = push(make(i % TENANTS));
    for (uint32_t due = 0; due < 20; due++) { /* the timer's time, not the test's */
        queue_expire(stage.queue, base_ns + due * 10000000);
        for (uint32_t i = 0; i < 20; i++)
            ck_assert_uint_eq(atomic_load(&late[i]->ended), i * 7 % 20 <= due);
    }
    ck_assert_uint_eq(atomic_load(&stage.device->submitted), submitted);
    let_go(alone);
    for (uint32_t i = 0; i < DEVICE_SHARED_SLOTS; i++)
        let_go(sharing[i]);
    for (uint32_t i = 0; i < 5; i++)
        ck_assert_int_eq(wait_for(patient[i]), GEMMD_OK);
    for (uint32_t i = 0; i < 20; i++)
        ck_assert_int_eq(late[i]->scripted.work.status, GEMMD_ERR_DEADLINE);
    stop();
}
END_TEST

/* Ends a work that its owner has cancelled. */
static void drop(struct sent_task *task)
{
    task_done(&task->scripted.work);
}

START_TEST(work_is_taken_back_until_it_runs)
{
    start(1);
    struct sent_task *running = block(false), *waiting[10];
    for (uint32_t i = 0; i < 10; i++) {
        waiting[i] = make(i % TENANTS);
        push(waiting[i]);
    }
    for (uint32_t i = 0; i < 10; i += 2) {
        ck_assert(queue_cancel(stage.queue, &waiting[i]->scripted.work));
        drop(waiting[i]);
    }
    ck_assert(!queue_cancel(stage.queue, &running->scripted.work));
    ck_assert_uint_eq(queue_state(stage.queue).waiting, 5);
    let_go(running);
    wait_for_all();
    ck_assert(!queue_cancel(stage.queue, &running->scripted.work));
    ck_assert_uint_eq(atomic_load(&stage.device->submitted), 6);
    stop();
}
END_TEST

/* At submit or while the work runs: a failure ends one work, and the loss of the device ends all.
 * In exclusive and in shared launches. */
START_TEST(failures_at_every_stage_end_everything_once)
{
    const bool shares = _i & 1, loses = _i & 2;
    const int at = _i / 4; /* submit, end */
    enum gemmd_error expected = loses ? GEMMD_ERR_DEVICE_LOST : GEMMD_ERR_INTERNAL;
    enum simulated_event event = loses ? SIMULATED_LOST : SIMULATED_FAILED;
    start(2);
    struct sent_task *first = block(shares), *second = block(shares), *others[6], *bad = make(0);
    bad->scripted.work.shared_launch = shares;
    if (at == 0)
        bad->scripted.at_submit = event;
    if (at == 1)
        atomic_store(&bad->scripted.at_end, event);
    push(bad);
    for (uint32_t i = 0; i < 6; i++) {
        others[i] = make(i % TENANTS);
        others[i]->scripted.work.shared_launch = !shares; /* not in the same launch */
        atomic_store(&others[i]->scripted.held, i == 0);
        reserve(others[i]); /* of those that come later too */
    }
    hand_over(others[0]);
    let_go(first);
    ck_assert_int_eq(wait_for(bad), expected);
    for (uint32_t i = 1; i < 6; i++)
        hand_over(others[i]);
    let_go(others[0]);
    let_go(second);
    wait_for_all();
    for (uint32_t i = 0; i < 6; i++)
        ck_assert_int_eq(others[i]->scripted.work.status,
                         expected == GEMMD_ERR_DEVICE_LOST ? expected : GEMMD_OK);
    stop();
}
END_TEST

static enum simulated_event look_whether_held(const struct work *work)
{
    const struct simulated_work *scripted = (const struct simulated_work *)work;
    return atomic_load(&scripted->held) ? SIMULATED_RUNNING : SIMULATED_DONE;
}

/* A product on the CPU can run longer than dispatch_stop waits. */
START_TEST(stopping_can_be_given_up)
{
    start_on(simulated_device_open_computing(look_whether_held));
    struct sent_task *task = block(false);
    queue_close(stage.queue);
    ck_assert(!dispatch_stop(stage.dispatch, 1000000));
    ck_assert_uint_eq(atomic_load(&task->ended), 0);
    let_go(task);
    stop();
    ck_assert_int_eq(task->scripted.work.status, GEMMD_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("scheduling");
    TCase *tests = tcase_create("scheduling");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, tenants_get_equal_parts_of_the_device);
    tcase_add_test(tests, large_works_of_one_do_not_cost_another);
    tcase_add_test(tests, no_priority_is_inverted);
    tcase_add_test(tests, small_ones_do_not_starve_large_ones);
    tcase_add_test(tests, a_small_one_waits_for_at_most_a_batch);
    tcase_add_test(tests, deadlines_are_kept_behind_a_blocked_device);
    tcase_add_test(tests, work_is_taken_back_until_it_runs);
    tcase_add_test(tests, stopping_can_be_given_up);
    tcase_add_loop_test(tests, failures_at_every_stage_end_everything_once, 0, 8);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
