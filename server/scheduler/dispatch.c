#include "server/scheduler/dispatch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "server/base/clock.h"
#include "server/scheduler/verifier.h"

/* How the end of running work is noticed: by looking all the time at first, for as long as a small
 * product takes, then at intervals that grow with the time already waited, so that what a large
 * product loses to them is small against what it takes, and the core is free meanwhile. */
static const uint64_t SPIN_NS = 40000;
static const uint64_t INTERVAL_SHARE = 16;
static const uint64_t INTERVAL_MIN_NS = 10000, INTERVAL_MAX_NS = 500000;

/* So many requests on their way are more than I/O threads are done with while a small product runs.
 * They wait for those, and not for the device: after each look the dispatch thread sleeps so long,
 * which makes launches larger and leaves its core to others. */
static const uint64_t CROWD_REQUESTS = 24;
static const uint64_t CROWD_NS = 20000;

/* Bytes of operands and results of a shared launch: what the bus takes in less than 100 us, so that
 * nobody waits longer for his neighbours. */
static const uint64_t BATCH_BYTES = 4 << 20;

enum { STOP_STEP_NS = 1000000 };

struct dispatch {
    struct device *device;         /* borrowed */
    struct queue *queue;           /* borrowed */
    struct early_copy *early_copy; /* borrowed; may be NULL */
    struct metrics_shard *shard;   /* borrowed */
    uint32_t max_batch;
    uint64_t busy_poll_ns;
    struct verifier *verifier;
    struct probe *probe;
    pthread_t thread;
    atomic_bool stopping, stopped;
    bool lost; /* the device's loss was told to the queue */
};

static void wake(void *queue)
{
    queue_wake(queue);
}

static struct work *next_work(struct dispatch *dispatch, uint64_t wait_ns)
{
    struct queue_room room = {
        .exclusive = device_has_room(dispatch->device) ? dispatch->max_batch : 0,
        .shared = device_has_shared_room(dispatch->device) ? dispatch->max_batch : 0,
        .shared_bytes = BATCH_BYTES,
    };
    return queue_pop(dispatch->queue, room, wait_ns);
}

static bool take_in(struct dispatch *dispatch)
{
    const uint64_t bytes = early_copy_feed(dispatch->early_copy);
    if (bytes > 0)
        metrics_early_copy(dispatch->shard, bytes);
    return bytes > 0;
}

/* Takes what waits for as long as there is room. `works` (may be NULL) are already taken. */
static bool feed(struct dispatch *dispatch, struct work *works)
{
    bool moved = take_in(dispatch);
    if (probe_due(dispatch->probe)) {
        device_submit_probe(dispatch->device, probe_begin(dispatch->probe));
        moved = true;
    }
    if (works == NULL)
        works = next_work(dispatch, 0);
    for (; works != NULL; works = next_work(dispatch, 0)) {
        (void)take_in(dispatch); /* what was said of their bodies before they came */
        for (struct work *work = works; work != NULL; work = work->next)
            if (work->started != NULL)
                work->started(work);
        device_submit(dispatch->device, works);
        for (struct work *work = works; work != NULL; work = work->next)
            if (!work->uncounted)
                metrics_stage(dispatch->shard, METRICS_STAGE_QUEUE,
                              work->started_ns - work->queued_ns);
        moved = true;
    }
    return moved;
}

/* One launch, whose works have the same fate. */
static void count(struct dispatch *dispatch, const struct work *works)
{
    struct metrics_shard *shard = dispatch->shard;
    double flops = 0;
    if (works->status != GEMMD_OK) {
        if (works->status != GEMMD_ERR_DEVICE_LOST) /* the loss is counted once */
            metrics_device_error(shard);
        return;
    }
    if (work_is_copy(works) || works->uncounted)
        return;
    for (const struct work *work = works; work != NULL; work = work->next) {
        flops += work_flops(work);
        metrics_stage(shard, METRICS_STAGE_H2D, work->h2d_ns);
        metrics_stage(shard, METRICS_STAGE_KERNEL, work->kernel_ns);
        metrics_stage(shard, METRICS_STAGE_D2H, work->d2h_ns);
    }
    metrics_launch(shard, works->launch_works, flops, works->kernel_ns);
}

static void end(struct dispatch *dispatch, struct work *works)
{
    struct work *next;
    for (struct work *work = works; work != NULL; work = next) {
        next = work->next; /* the work is its owner's again once it is done */
        if (work->verify && work->status == GEMMD_OK)
            verifier_push(dispatch->verifier, work);
        else
            work_end(work);
    }
}

static bool collect(struct dispatch *dispatch)
{
    bool moved = false;
    struct work *works;
    while ((works = device_poll(dispatch->device)) != NULL) {
        moved = true;
        if (probe_end(dispatch->probe, works))
            continue;
        count(dispatch, works);
        end(dispatch, works);
    }
    return moved;
}

static void notice_loss(struct dispatch *dispatch)
{
    if (dispatch->lost || !device_lost(dispatch->device))
        return;
    char detail[192];
    dispatch->lost = true;
    metrics_device_error(dispatch->shard);
    snprintf(detail, sizeof detail, "the device is lost: %.160s",
             device_lost_reason(dispatch->device));
    queue_fail_all(dispatch->queue, GEMMD_ERR_DEVICE_LOST, detail);
}

static void sleep_for(uint64_t ns)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

static bool is_crowded(const struct dispatch *dispatch)
{
    return device_in_flight(dispatch->device) > 0 &&
           admission_held(queue_admission(dispatch->queue)).requests >= CROWD_REQUESTS;
}

/* Something is running. Returns works that arrived meanwhile, if there is room for them. */
static struct work *wait_for_change(struct dispatch *dispatch, uint64_t waited_ns)
{
    uint64_t interval_ns = waited_ns / INTERVAL_SHARE;
    if (waited_ns < SPIN_NS)
        return NULL;
    if (interval_ns < INTERVAL_MIN_NS)
        interval_ns = INTERVAL_MIN_NS;
    if (interval_ns > INTERVAL_MAX_NS)
        interval_ns = INTERVAL_MAX_NS;
    if (device_has_room(dispatch->device) || device_has_shared_room(dispatch->device))
        return next_work(dispatch, interval_ns);
    sleep_for(interval_ns);
    return NULL;
}

static void *run(void *argument)
{
    struct dispatch *dispatch = argument;
    struct work *works = NULL;
    uint64_t moved_ns = 0;
    pthread_setname_np(pthread_self(), "dispatch");
    prctl(PR_SET_TIMERSLACK, 1000ul, 0ul, 0ul, 0ul); /* the default is 50 us */
    device_enter(dispatch->device);

    for (;;) {
        bool moved = feed(dispatch, works);
        moved |= collect(dispatch);
        notice_loss(dispatch);
        works = NULL;
        if (moved) {
            moved_ns = clock_now_ns();
            if (is_crowded(dispatch))
                sleep_for(CROWD_NS);
        } else if (device_in_flight(dispatch->device) > 0 || probe_running(dispatch->probe) ||
                   early_copy_is_closing(dispatch->early_copy)) {
            works = wait_for_change(dispatch, clock_now_ns() - moved_ns);
        } else {
            bool stopping = atomic_load(&dispatch->stopping);
            bool sleeps = !stopping && clock_now_ns() - moved_ns >= dispatch->busy_poll_ns;
            works = next_work(dispatch, sleeps ? UINT64_MAX : 0);
            if (works == NULL && stopping)
                break;
        }
    }
    queue_fail_all(dispatch->queue, GEMMD_ERR_DRAINING, "the daemon is shutting down");
    early_copy_stop(dispatch->early_copy);
    atomic_store(&dispatch->stopped, true);
    return NULL;
}

struct dispatch *dispatch_start(struct device *device, struct queue *queue,
                                struct early_copy *early_copy, struct metrics_shard *shard,
                                uint32_t max_batch, uint32_t busy_poll_us)
{
    struct dispatch *dispatch = malloc(sizeof *dispatch);
    if (dispatch == NULL)
        return NULL;
    *dispatch = (struct dispatch){.device = device,
                                  .queue = queue,
                                  .early_copy = early_copy,
                                  .shard = shard,
                                  .max_batch = max_batch,
                                  .busy_poll_ns = busy_poll_us * UINT64_C(1000)};
    dispatch->probe = probe_create(device);
    if (dispatch->probe == NULL)
        goto no_probe;
    dispatch->verifier = verifier_start();
    if (dispatch->verifier == NULL)
        goto no_verifier;
    if (pthread_create(&dispatch->thread, NULL, run, dispatch) != 0)
        goto no_thread;
    return dispatch;

no_thread:
    verifier_stop(dispatch->verifier);
no_verifier:
    probe_destroy(dispatch->probe);
no_probe:
    free(dispatch);
    return NULL;
}

static bool wait_until_stopped(struct dispatch *dispatch, uint64_t patience_ns)
{
    uint64_t since_ns = clock_now_ns();
    while (!atomic_load(&dispatch->stopped)) {
        if (clock_now_ns() - since_ns > patience_ns)
            return false;
        sleep_for(STOP_STEP_NS);
    }
    return true;
}

bool dispatch_stop(struct dispatch *dispatch, uint64_t patience_ns)
{
    if (dispatch == NULL)
        return true;
    atomic_store(&dispatch->stopping, true);
    queue_wake(dispatch->queue);
    if (patience_ns != UINT64_MAX && !wait_until_stopped(dispatch, patience_ns))
        return false;
    pthread_join(dispatch->thread, NULL);
    verifier_stop(dispatch->verifier);
    probe_expire(dispatch->probe, UINT64_MAX, false); /* nobody is left to run one */
    probe_destroy(dispatch->probe);
    free(dispatch);
    return true;
}

void dispatch_leave(struct dispatch *dispatch)
{
    (void)pthread_detach(dispatch->thread);
}

/* The CPU computes in the dispatch thread, where a probe cannot pass a long product; that it
 * computes is the answer then. */
static bool answers_for_itself(const struct dispatch *dispatch)
{
    return device_computes_in_submit(dispatch->device) && device_in_flight(dispatch->device) > 0;
}

bool dispatch_probe(struct dispatch *dispatch, struct probe_wait *wait, uint32_t timeout_ms)
{
    wait->reason[0] = '\0';
    wait->right = !device_lost(dispatch->device);
    if (!wait->right)
        snprintf(wait->reason, sizeof wait->reason, "the device is lost: %s",
                 device_lost_reason(dispatch->device));
    return !wait->right || answers_for_itself(dispatch) ||
           probe_ask(dispatch->probe, wait, timeout_ms, wake, dispatch->queue);
}

void dispatch_expire_probes(struct dispatch *dispatch, uint64_t now_ns)
{
    probe_expire(dispatch->probe, now_ns, answers_for_itself(dispatch));
}
