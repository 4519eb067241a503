/* server/work/dispatch.c (with probe.c and verifier.c) over a simulated device. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/freivalds.h"
#include "server/clock.h"
#include "server/work/dispatch.h"
#include "simulated_device.h"

enum { ITEMS_MAX = 64, PROBE_MS = 60000, PRODUCERS = 3, EACH = 500, MAX_BATCH = 4, TENANTS = 3 };

/* What the host's check says, and whether it takes its time. In place of the kernels room's. */
struct check {
    enum gemmd_error code;
    bool pass;
    atomic_bool *held; /* NULL: not held */
};

/* A work and what is to become of it. */
struct item {
    struct work work; /* first */
    uint32_t number;
    _Atomic enum simulated_event event;
    struct check check;
    atomic_uint begun; /* how often `started` was called */
    atomic_uint ended; /* how often `done` was called */
    uint32_t place;    /* the how-manieth of all to end, from 1 */
    atomic_uint *places;
};

/* Everything a test needs; made by start, taken down by stop. */
struct stage {
    struct simulated_device *device;
    struct queue *queue;
    struct metrics *metrics;
    struct dispatch *dispatch;
    struct item items[ITEMS_MAX];
    uint32_t count;
    atomic_uint places;
};

static struct stage stage; /* each test runs in a process of its own */

static void wait_a_little(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

static void item_done(struct work *work)
{
    struct item *item = (struct item *)work;
    item->place = atomic_fetch_add(item->places, 1) + 1;
    atomic_fetch_add(&item->ended, 1);
}

static enum simulated_event look(const struct work *work)
{
    return atomic_load(&((const struct item *)work)->event);
}

enum gemmd_error freivalds_check(const struct gemm_problem *problem, uint64_t seed, bool *pass,
                                 double *residual)
{
    const struct item *item =
        (const struct item *)((const char *)problem - offsetof(struct work, problem));
    (void)seed;
    while (item->check.held != NULL && atomic_load(item->check.held))
        wait_a_little();
    *pass = item->check.pass;
    *residual = 0.25;
    return item->check.code;
}

static const struct gemm_kernel simulated_kernel = {.name = "simulated"};

static struct item *add(enum simulated_event event)
{
    struct item *item = &stage.items[stage.count];
    ck_assert_uint_lt(stage.count, ITEMS_MAX);
    memset(item, 0, sizeof *item);
    item->number = stage.count++;
    item->places = &stage.places;
    item->check.pass = true;
    atomic_store(&item->event, event);
    item->work.kernel = &simulated_kernel;
    item->work.problem.m = item->work.problem.n = item->work.problem.k = item->work.problem.batch =
        1;
    item->work.priority = 4;
    item->work.done = item_done;
    return item;
}

static void push(struct item *item)
{
    ck_assert_int_eq(queue_reserve(stage.queue, 0, 0, NULL), GEMMD_OK);
    item->work.queued_ns = clock_now_ns();
    queue_push(stage.queue, &item->work);
}

static struct item *add_and_push(enum simulated_event event)
{
    struct item *item = add(event);
    push(item);
    return item;
}

static void wait_until_ended(const struct item *item)
{
    while (atomic_load(&item->ended) == 0)
        wait_a_little();
}

/* Someone who waits for the answer of a probe. */
struct asker {
    struct probe_wait wait; /* first */
    atomic_bool answered;
};

static void asker_told(struct probe_wait *wait)
{
    atomic_store(&((struct asker *)wait)->answered, true);
}

/* Asks, and waits for the answer as the daemon's timer does; `reason` may be NULL. */
static bool probe(uint32_t timeout_ms, char reason[PROBE_REASON_MAX])
{
    struct asker asker = {.wait.done = asker_told};
    if (!dispatch_probe(stage.dispatch, &asker.wait, timeout_ms))
        while (!atomic_load(&asker.answered)) {
            dispatch_expire_probes(stage.dispatch, clock_now_ns());
            wait_a_little();
        }
    if (reason != NULL)
        memcpy(reason, asker.wait.reason, PROBE_REASON_MAX);
    return asker.wait.right;
}

static void wait_until_submitted(uint32_t count)
{
    while (atomic_load(&stage.device->submitted) < count)
        wait_a_little();
}

static void end(struct item *item, enum simulated_event event)
{
    atomic_store(&item->event, event);
    wait_until_ended(item);
}

static void start_on(struct simulated_device *device, uint32_t places)
{
    struct metrics_identity identity = {"0", "0", "cpu", "", "", ""};
    stage.device = device;
    const struct places_limits limits = {.requests = places, .tenants = TENANTS};
    stage.queue = queue_create(&limits);
    stage.metrics = metrics_create(1, &identity);
    stage.dispatch = dispatch_start(&stage.device->base, stage.queue,
                                    metrics_shard(stage.metrics, 0), MAX_BATCH, 0);
    ck_assert_ptr_nonnull(stage.dispatch);
}

static void start(uint32_t slots, uint32_t places)
{
    start_on(simulated_device_open(slots, look), places);
}

static void stop(void)
{
    queue_close(stage.queue);
    ck_assert(dispatch_stop(stage.dispatch, UINT64_MAX));
    queue_destroy(stage.queue);
    metrics_destroy(stage.metrics);
    device_close(&stage.device->base);
}

/* Whether the metrics have this line. */
static bool counts(const char *line)
{
    struct metrics_gauges gauges = {0};
    char *text;
    uint64_t length;
    ck_assert(metrics_expose(stage.metrics, &gauges, METRICS_TEXT, &text, &length));
    bool found = memmem(text, length, line, strlen(line)) != NULL;
    free(text);
    return found;
}

START_TEST(work_runs_and_its_times_are_told)
{
    start(2, ITEMS_MAX);
    struct item *item = add_and_push(SIMULATED_DONE);
    wait_until_ended(item);
    stop();
    ck_assert_uint_eq(atomic_load(&item->ended), 1);
    ck_assert_int_eq(item->work.status, GEMMD_OK);
    ck_assert_uint_eq(item->work.batch, 1);
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
    end(items[0], SIMULATED_DONE);
    end(items[1], SIMULATED_FAILED);
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
    end(first, SIMULATED_DONE);
    for (int i = 0; i < 5; i++)
        wait_until_ended(items[i]);
    stop();
    for (int i = 0; i < 5; i++)
        ck_assert_uint_eq(items[i]->place, expected[i] + 1);
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
    end(items[1], SIMULATED_DONE);
    wait_until_submitted(4);
    ck_assert_uint_eq(queue_state(stage.queue).waiting, 1);
    for (int i = 0; i < 5; i++)
        end(items[i], SIMULATED_DONE);
    stop();
    ck_assert_uint_eq(atomic_load(&stage.places), 5);
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

static struct item *add_sharing(enum simulated_event event)
{
    struct item *item = add(event);
    item->work.shares = true;
    return item;
}

/* Fills the device with launches that last until `end` is called on each. */
static void occupy(struct item *items[DEVICE_GROUPS])
{
    for (uint32_t i = 0; i < DEVICE_GROUPS; i++) {
        items[i] = add_sharing(SIMULATED_RUNNING);
        push(items[i]);
        wait_until_submitted(i + 1);
    }
}

START_TEST(all_that_wait_share_a_launch)
{
    struct item *first[DEVICE_GROUPS], *items[MAX_BATCH];
    start(2, ITEMS_MAX);
    occupy(first);
    for (int i = 0; i < MAX_BATCH; i++) {
        items[i] = add_sharing(SIMULATED_DONE);
        push(items[i]);
    }
    end(first[0], SIMULATED_DONE);
    for (int i = 0; i < MAX_BATCH; i++)
        wait_until_ended(items[i]);
    end(first[1], SIMULATED_DONE);
    ck_assert_uint_eq(atomic_load(&stage.device->launches), DEVICE_GROUPS + 1);
    ck_assert_uint_eq(first[0]->work.batch, 1);
    for (int i = 0; i < MAX_BATCH; i++) {
        ck_assert_int_eq(items[i]->work.status, GEMMD_OK);
        ck_assert_uint_eq(items[i]->work.batch, MAX_BATCH);
        ck_assert_uint_eq(items[i]->work.started_ns, items[0]->work.started_ns);
    }
    ck_assert(counts("gemmd_batch_size_count 3\n"));
    ck_assert(counts("gemmd_batch_size_sum 6.0\n"));
    stop();
}
END_TEST

START_TEST(no_more_than_max_batch_share_a_launch)
{
    struct item *first[DEVICE_GROUPS], *items[2 * MAX_BATCH + 1];
    start(1, ITEMS_MAX);
    occupy(first);
    for (int i = 0; i < 2 * MAX_BATCH + 1; i++) {
        items[i] = add_sharing(SIMULATED_DONE);
        push(items[i]);
    }
    end(first[0], SIMULATED_DONE);
    for (int i = 0; i < 2 * MAX_BATCH + 1; i++)
        wait_until_ended(items[i]);
    end(first[1], SIMULATED_DONE);
    ck_assert_uint_eq(atomic_load(&stage.device->launches), DEVICE_GROUPS + 3);
    stop();
    for (int i = 0; i < 2 * MAX_BATCH; i++)
        ck_assert_uint_eq(items[i]->work.batch, MAX_BATCH);
    ck_assert_uint_eq(items[2 * MAX_BATCH]->work.batch, 1);
}
END_TEST

START_TEST(large_and_small_work_do_not_hold_each_other_up)
{
    struct item *large[3], *small[3], *first[DEVICE_GROUPS];
    start(2, ITEMS_MAX);
    for (int i = 0; i < 3; i++) /* the third has to wait */
        large[i] = add_and_push(SIMULATED_RUNNING);
    wait_until_submitted(2);
    for (int i = 0; i < 3; i++) {
        small[i] = add_sharing(SIMULATED_DONE);
        push(small[i]);
    }
    for (int i = 0; i < 3; i++)
        wait_until_ended(small[i]);
    ck_assert_uint_eq(queue_state(stage.queue).waiting, 1);

    for (uint32_t i = 0; i < DEVICE_GROUPS; i++) { /* and the other way round */
        first[i] = add_sharing(SIMULATED_RUNNING);
        push(first[i]);
        wait_until_submitted(5 + i + 1);
    }
    struct item *waiting = add_sharing(SIMULATED_DONE);
    push(waiting);
    end(large[0], SIMULATED_DONE);
    end(large[2], SIMULATED_DONE);
    ck_assert_uint_eq(atomic_load(&waiting->ended), 0);
    for (uint32_t i = 0; i < DEVICE_GROUPS; i++)
        end(first[i], SIMULATED_DONE);
    wait_until_ended(waiting);
    end(large[1], SIMULATED_DONE);
    stop();
}
END_TEST

START_TEST(a_failed_launch_fails_all_that_share_it)
{
    struct item *first[DEVICE_GROUPS], *items[MAX_BATCH];
    start(1, ITEMS_MAX);
    occupy(first);
    for (int i = 0; i < MAX_BATCH; i++) {
        items[i] = add_sharing(i == 2 ? SIMULATED_FAILED : SIMULATED_DONE);
        items[i]->work.verify = i == 1;
        push(items[i]);
    }
    end(first[0], SIMULATED_DONE);
    for (int i = 0; i < MAX_BATCH; i++)
        wait_until_ended(items[i]);
    end(first[1], SIMULATED_DONE);
    ck_assert(counts("gemmd_device_errors_total 1\n"));
    stop();
    for (int i = 0; i < MAX_BATCH; i++) {
        ck_assert_uint_eq(atomic_load(&items[i]->ended), 1);
        ck_assert_int_eq(items[i]->work.status, GEMMD_ERR_INTERNAL);
        ck_assert_str_eq(items[i]->work.fault.detail, "a simulated failure");
    }
    ck_assert_int_eq(first[0]->work.status, GEMMD_OK);
}
END_TEST

START_TEST(a_lost_device_fails_shared_launches_once)
{
    struct item *first[DEVICE_GROUPS], *items[MAX_BATCH];
    start(1, ITEMS_MAX);
    occupy(first);
    for (int i = 0; i < MAX_BATCH; i++) {
        items[i] = add_sharing(SIMULATED_RUNNING);
        push(items[i]);
    }
    end(first[0], SIMULATED_DONE);
    wait_until_submitted(DEVICE_GROUPS + MAX_BATCH);
    for (int i = 0; i < MAX_BATCH; i++)
        atomic_store(&items[i]->event, i == 1 ? SIMULATED_LOST : SIMULATED_DONE);
    for (int i = 0; i < MAX_BATCH; i++)
        wait_until_ended(items[i]);
    wait_until_ended(first[1]);
    ck_assert(counts("gemmd_device_errors_total 1\n"));
    stop();
    for (int i = 0; i < MAX_BATCH; i++) {
        ck_assert_uint_eq(atomic_load(&items[i]->ended), 1);
        ck_assert_int_eq(items[i]->work.status, GEMMD_ERR_DEVICE_LOST);
    }
}
END_TEST

START_TEST(a_deadline_in_a_shared_launch_is_its_own_work_s_alone)
{
    struct item *first[DEVICE_GROUPS], *items[3];
    start(1, ITEMS_MAX);
    occupy(first);
    for (int i = 0; i < 3; i++) {
        items[i] = add_sharing(SIMULATED_RUNNING);
        items[i]->work.deadline_ns = i == 1 ? clock_now_ns() + 50000000 : 0;
        push(items[i]);
    }
    end(first[0], SIMULATED_DONE);
    while (clock_now_ns() <= items[1]->work.deadline_ns)
        wait_a_little();
    for (int i = 0; i < 3; i++)
        atomic_store(&items[i]->event, SIMULATED_DONE);
    for (int i = 0; i < 3; i++)
        wait_until_ended(items[i]);
    end(first[1], SIMULATED_DONE);
    stop();
    ck_assert_int_eq(items[0]->work.status, GEMMD_OK);
    ck_assert_int_eq(items[1]->work.status, GEMMD_ERR_DEADLINE);
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
    ck_assert_int_eq(queue_reserve(stage.queue, 0, 0, NULL), GEMMD_OK);
    end(items[1], SIMULATED_LOST);
    for (int i = 0; i < 5; i++)
        wait_until_ended(items[i]);
    items[5] = add(SIMULATED_DONE); /* the place was reserved before */
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
    end(item, SIMULATED_DONE);
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
    end(running, SIMULATED_DONE);
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

START_TEST(a_probe_passes_a_full_queue_and_busy_streams)
{
    struct item *items[3];
    start(1, 3);
    for (int i = 0; i < 3; i++)
        items[i] = add_and_push(SIMULATED_RUNNING);
    wait_until_submitted(1);
    ck_assert_int_eq(queue_reserve(stage.queue, 0, 0, NULL), GEMMD_ERR_QUEUE_FULL);
    ck_assert(probe(PROBE_MS, NULL));
    ck_assert_uint_eq(atomic_load(&stage.device->probes), 1);
    ck_assert_uint_eq(device_in_flight(&stage.device->base), 1);
    for (int i = 0; i < 3; i++)
        end(items[i], SIMULATED_DONE);
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
    if (clock_now_ns() - begun_ns < 1000000000u)
        ck_assert_uint_eq(probes, 1);
    while (clock_now_ns() - begun_ns < 2100000000u)
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

/* A CPU computes in the dispatch thread: there a product can take longer than anyone waits. */
START_TEST(a_device_that_is_computing_is_ready)
{
    start_on(simulated_device_open_computing(look), ITEMS_MAX);
    atomic_store(&stage.device->probe, SIMULATED_PROBE_WRONG);
    struct item *item = add_and_push(SIMULATED_RUNNING);
    wait_until_submitted(1);
    ck_assert(probe(0, NULL));
    end(item, SIMULATED_DONE);
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

START_TEST(verified_work_tells_its_residual)
{
    start(1, ITEMS_MAX);
    struct item *item = add(SIMULATED_DONE);
    item->work.verify = true;
    push(item);
    wait_until_ended(item);
    stop();
    ck_assert_int_eq(item->work.status, GEMMD_OK);
    ck_assert(item->work.residual == 0.25);
}
END_TEST

/* What the host cannot read is checked by the copies that the work brought along. */
START_TEST(copies_are_checked_where_there_are_some)
{
    static float a, b, c, away;
    start(1, ITEMS_MAX);
    struct item *item = add(SIMULATED_DONE);
    struct work *work = &item->work;
    work->verify = true;
    work->problem.a = work->problem.b = work->problem.c = &away;
    work->host_a = &a;
    work->host_b = &b;
    work->host_c = &c;
    push(item);
    wait_until_ended(item);
    stop();
    ck_assert_int_eq(work->status, GEMMD_OK);
    ck_assert_ptr_eq(work->problem.a, &a);
    ck_assert_ptr_eq(work->problem.b, &b);
    ck_assert_ptr_eq(work->problem.c, &c);
}
END_TEST

START_TEST(a_result_that_fails_its_check_is_an_error)
{
    start(1, ITEMS_MAX);
    struct item *wrong = add(SIMULATED_DONE), *unchecked = add(SIMULATED_DONE);
    struct item *failed = add(SIMULATED_FAILED);
    wrong->work.verify = unchecked->work.verify = failed->work.verify = true;
    wrong->check.pass = false;
    unchecked->check.code = GEMMD_ERR_OUT_OF_MEMORY;
    push(wrong);
    push(unchecked);
    push(failed);
    wait_until_ended(wrong);
    wait_until_ended(unchecked);
    wait_until_ended(failed);
    stop();
    ck_assert_int_eq(wrong->work.status, GEMMD_ERR_INTERNAL);
    ck_assert_ptr_nonnull(strstr(wrong->work.fault.detail, "failed verification"));
    ck_assert_int_eq(unchecked->work.status, GEMMD_ERR_OUT_OF_MEMORY);
    ck_assert_str_eq(failed->work.fault.detail, "a simulated failure");
}
END_TEST

START_TEST(checking_holds_up_nobody)
{
    atomic_bool held = true;
    start(1, ITEMS_MAX);
    struct item *checked = add(SIMULATED_DONE);
    checked->work.verify = true;
    checked->check.held = &held;
    push(checked);
    struct item *other = add_and_push(SIMULATED_DONE);
    wait_until_ended(other);
    ck_assert_uint_eq(atomic_load(&checked->ended), 0);
    atomic_store(&held, false);
    wait_until_ended(checked);
    stop();
    ck_assert_int_eq(checked->work.status, GEMMD_OK);
}
END_TEST

struct load {
    struct item items[EACH];
    uint32_t seed;
};

/* Each runs, or fails, or expires; the event is known before it is pushed. */
static void *produce(void *argument)
{
    struct load *load = argument;
    for (uint32_t i = 0; i < EACH; i++) {
        struct item *item = &load->items[i];
        item->places = &stage.places;
        item->check.pass = true;
        atomic_store(&item->event, (i + load->seed) % 11 == 0 ? SIMULATED_FAILED : SIMULATED_DONE);
        item->work.kernel = &simulated_kernel;
        item->work.priority = i % 10;
        item->work.shares = i % 3 != 0;
        item->work.verify = i % 5 == 0;
        item->work.deadline_ns = i % 13 == 0 ? clock_now_ns() + 20000 : 0;
        item->work.done = item_done;
        while (queue_reserve(stage.queue, 0, 0, NULL) != GEMMD_OK)
            wait_a_little();
        item->work.queued_ns = clock_now_ns();
        queue_push(stage.queue, &item->work);
        if (i % 8 == 7)
            wait_until_ended(item);
        queue_release(stage.queue, 0, 0);
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
            if (fails || !item->work.shares || item->work.status != GEMMD_ERR_INTERNAL)
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
    tcase_add_test(tests, a_failure_is_its_own_work_s_alone);
    tcase_add_test(tests, all_that_wait_share_a_launch);
    tcase_add_test(tests, no_more_than_max_batch_share_a_launch);
    tcase_add_test(tests, large_and_small_work_do_not_hold_each_other_up);
    tcase_add_test(tests, a_failed_launch_fails_all_that_share_it);
    tcase_add_test(tests, a_lost_device_fails_shared_launches_once);
    tcase_add_test(tests, a_deadline_in_a_shared_launch_is_its_own_work_s_alone);
    tcase_add_test(tests, a_lost_device_fails_everything_once);
    tcase_add_test(tests, a_result_after_its_deadline_is_dropped);
    tcase_add_test(tests, work_that_expires_in_the_queue_never_runs);
    tcase_add_test(tests, stopping_finishes_what_was_accepted);
    tcase_add_test(tests, a_probe_passes_a_full_queue_and_busy_streams);
    tcase_add_test(tests, a_right_answer_is_good_for_a_second);
    tcase_add_test(tests, a_wrong_answer_is_not_ready_until_a_right_one);
    tcase_add_test(tests, a_silent_device_is_not_ready);
    tcase_add_test(tests, an_asker_keeps_its_time);
    tcase_add_test(tests, a_device_that_is_computing_is_ready);
    tcase_add_test(tests, many_may_ask_at_once);
    tcase_add_test(tests, verified_work_tells_its_residual);
    tcase_add_test(tests, copies_are_checked_where_there_are_some);
    tcase_add_test(tests, a_result_that_fails_its_check_is_an_error);
    tcase_add_test(tests, checking_holds_up_nobody);
    tcase_add_test(tests, under_load_everything_ends_once);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
