#include "server/scheduler/dispatch.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "server/base/clock.h"
#include "server/base/heartbeat.h"

/* How the thread notices that a work has ended. For as long as a small product takes, the thread
 * polls without a pause. Then it polls at intervals that grow with the time it has waited: a large
 * product is delayed by a small part of its own time, and the core is free in between. */
static const uint64_t SPIN_NS = 40000;
static const uint64_t INTERVALS_WAITED = 16; /* an interval is 1/16 of the time waited so far */
static const uint64_t INTERVAL_MIN_NS = 10000, INTERVAL_MAX_NS = 500000;

/* With this many requests in flight, I/O threads need longer for the requests than the device needs
 * for a small product. The requests then wait for I/O threads and not for the device. The dispatch
 * thread sleeps for CROWD_NS after each round, which makes launches larger and leaves the core to
 * the I/O threads. */
static const uint64_t CROWD_REQUESTS = 24;
static const uint64_t CROWD_NS = 20000;

/* Most bytes of operands and results of a shared launch. The bus moves them in less than 100 us, so
 * that a work waits no longer than that for the others of its launch. */
static const uint64_t SHARED_LAUNCH_BYTES = 4 << 20;

/* Where there are tenants, the last free stream is kept for works that cost at most this
 * (work_cost): a product of 2048^3, or operands and results of 256 MiB. A tenant whose works take
 * longer thus leaves a stream to the others. */
static const uint64_t KEPT_COST = 256 << 20;

/* The works that may run in the pauses of a long launch (device_on_pause): most of a launch, and
 * the most that one costs (work_cost), some milliseconds of one core. */
static const uint32_t SHORT_WORKS = 64;
static const uint64_t SHORT_COST = 8 << 20;

/* Time between two looks whether the dispatch thread has stopped. */
enum { STOP_STEP_NS = 1000000 };
enum { NS_PER_S = 1000000000 };

/* Notices a device that has stalled: a device that has works to compute, running or waiting, and
 * for a given time finishes no work and no part of a work. Zeroed: nothing was seen yet. */
struct stall_watch {
    uint64_t limit_ns; /* how long a device may take for a part of its work; 0: for ever */
    uint64_t progress; /* device_progress when the watch looked last */
    uint64_t since_ns; /* when the watch last saw progress or no work; 0: not yet */
    atomic_uint_fast64_t stalled_ns;
};

struct dispatch {
    struct device *device;         /* borrowed */
    struct queue *queue;           /* borrowed */
    struct early_copy *early_copy; /* borrowed; may be NULL */
    struct metrics_shard *shard;   /* borrowed */
    uint32_t max_launch_works;
    uint64_t busy_poll_ns;
    struct verify_counts verified;
    struct probe *probe;
    struct stall_watch stall_watch;
    struct heartbeat heartbeat;
    pthread_t thread;
    atomic_bool stopping, stopped;
    bool lost; /* the queue has been told that the device is lost */
};

static void dispatch_wake(void *queue)
{
    queue_wake(queue);
}

static struct work *next_work(struct dispatch *dispatch, uint64_t wait_ns)
{
    const bool keeps = device_has_last_room(dispatch->device) && queue_has_tenants(dispatch->queue);
    struct queue_room room = {
        .exclusive = device_has_room(dispatch->device) ? dispatch->max_launch_works : 0,
        .shared = device_has_shared_room(dispatch->device) ? dispatch->max_launch_works : 0,
        .shared_bytes = SHARED_LAUNCH_BYTES,
        .cost_max = keeps ? KEPT_COST : 0,
    };
    return queue_pop(dispatch->queue, room, wait_ns);
}

static bool start_early_copies(struct dispatch *dispatch)
{
    const uint64_t bytes = dispatch->early_copy != NULL ? early_copy_feed(dispatch->early_copy) : 0;
    if (bytes > 0)
        metrics_early_copy(dispatch->shard, bytes);
    return bytes > 0;
}

static enum metrics_kind task_of(const struct work *work)
{
    return work->task.kernel != NULL ? METRICS_KIND_OF(work->task.operation->number)
                                     : METRICS_KIND_COPY;
}

/* Submits a launch list by `submit`. */
static void start_works(struct dispatch *dispatch, struct work *works,
                        void (*submit)(struct device *device, struct work *works))
{
    for (struct work *work = works; work != NULL; work = work->next)
        if (work->started != NULL)
            work->started(work);
    submit(dispatch->device, works);
    for (struct work *work = works; work != NULL; work = work->next)
        if (!work->uncounted)
            metrics_queue_wait(dispatch->shard, task_of(work), work->started_ns - work->queued_ns);
}

/* Submits works for as long as the device has room and works wait. `works` (may be NULL) were
 * popped before. Returns whether anything was started. */
static bool feed(struct dispatch *dispatch, struct work *works)
{
    bool moved = start_early_copies(dispatch);
    if (probe_due(dispatch->probe)) {
        device_submit_probe(dispatch->device, probe_begin(dispatch->probe));
        moved = true;
    }
    if (works == NULL)
        works = next_work(dispatch, 0);
    for (; works != NULL; works = next_work(dispatch, 0)) {
        (void)start_early_copies(dispatch); /* copies of these works' bodies come first */
        start_works(dispatch, works, device_submit);
        moved = true;
    }
    return moved;
}

/* Whether the computation was ended early because nobody wanted its result, which is no error. */
static bool was_ended_early(const struct work *work)
{
    return work->status == GEMMD_ERR_DEADLINE || work->status == GEMMD_ERR_CANCELLED;
}

/* Counts one launch, whose works have all succeeded or all failed. */
static void count_launch(struct dispatch *dispatch, const struct work *works)
{
    struct metrics_shard *shard = dispatch->shard;
    double flops = 0;
    if (works->status != GEMMD_OK) {
        /* The loss is counted once. */
        if (works->status != GEMMD_ERR_DEVICE_LOST && !was_ended_early(works))
            metrics_device_error(shard);
        return;
    }
    if (works->task.kernel == NULL || works->uncounted)
        return;
    for (const struct work *work = works; work != NULL; work = work->next) {
        const struct operation *operation = work->task.operation;
        const void *problem = &work->task.problem;
        struct metrics_work done = {
            .task = task_of(work),
            .kernel = work_kernel_name(work),
            .dtype = operation->dtype(problem),
            .flops = operation->flops(problem),
            .bytes = operation->moved_bytes(problem),
            .busy_ns = work->kernel_ns / works->launch_works,
            .tenant = work->tenant,
        };
        _Static_assert((int)METRICS_SHAPE_LENGTHS == (int)OPERATION_LENGTHS, "as many lengths");
        operation->lengths(problem, done.lengths);
        flops += done.flops;
        metrics_work(shard, &done);
        for (uint32_t i = 0; i < work->first_copy_count; i++)
            metrics_link(shard, work->first_copies[i].rows * work->first_copies[i].row_bytes);
        if (work->h2d_ns > 0)
            metrics_stage(shard, METRICS_STAGE_H2D, work->h2d_ns);
        metrics_stage(shard, METRICS_STAGE_KERNEL, work->kernel_ns);
        if (work->d2h_ns > 0)
            metrics_stage(shard, METRICS_STAGE_D2H, work->d2h_ns);
    }
    metrics_launch(shard, works->launch_works, flops, works->kernel_ns);
}

/* Counts the check of a work that has ended, and fails a work whose result is wrong. */
static void judge(struct verify_counts *verified, struct work *work)
{
    enum verify_result result = VERIFY_ERROR;
    if (was_ended_early(work))
        return;
    if (work->status == GEMMD_OK)
        result = work->residual <= 1 ? VERIFY_PASS : VERIFY_FAIL;
    atomic_fetch_add(&verified->count[work->verify][result], 1);
    if (result == VERIFY_FAIL)
        work->status = fault_set(&work->fault, GEMMD_ERR_VERIFICATION, "verify",
                                 "the result of the kernel %s failed verification: its error is "
                                 "%.3g times what rounding explains",
                                 work_kernel_name(work), work->residual);
}

static void end_works(struct dispatch *dispatch, struct work *works)
{
    struct work *next;
    for (struct work *work = works; work != NULL; work = next) {
        next = work->next; /* once its `done` is called, the work belongs to its owner */
        if (work->verify != WORK_UNVERIFIED)
            judge(&dispatch->verified, work);
        work_end(work);
    }
}

/* Ends the works that the device has finished. Returns whether there were any. */
static bool collect(struct dispatch *dispatch)
{
    bool moved = false;
    struct work *works;
    while ((works = device_poll(dispatch->device)) != NULL) {
        moved = true;
        if (probe_end(dispatch->probe, works))
            continue;
        count_launch(dispatch, works);
        end_works(dispatch, works);
    }
    return moved;
}

/* A long launch pauses (device_on_pause). Short works that wait run now, those of each tenant in
 * their order, for at most as long as the launch has computed. The launch of one tenant therefore
 * does not hold up the others, and takes at most about twice as long for that. */
static void run_short_works(void *argument, uint64_t ran_ns)
{
    struct dispatch *dispatch = argument;
    const struct queue_room room = {
        .exclusive = SHORT_WORKS, .shared_bytes = SHARED_LAUNCH_BYTES, .cost_max = SHORT_COST};
    const uint64_t since_ns = clock_now_ns();
    struct work *works;
    heartbeat_beat(&dispatch->heartbeat);
    do {
        works = queue_pop(dispatch->queue, room, 0);
        if (works != NULL)
            start_works(dispatch, works, device_submit_between);
        collect(dispatch);
    } while (works != NULL && clock_now_ns() - since_ns < ran_ns);
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

/* Waits while something runs on the device. Returns works that arrived in the meantime and that the
 * device has room for, or NULL. */
static struct work *wait_for_change(struct dispatch *dispatch, uint64_t waited_ns)
{
    uint64_t interval_ns = waited_ns / INTERVALS_WAITED;
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

static void *dispatch_run(void *argument)
{
    struct dispatch *dispatch = argument;
    struct work *works = NULL;
    uint64_t moved_ns = 0;
    pthread_setname_np(pthread_self(), "dispatch");
    prctl(PR_SET_TIMERSLACK, 1000ul, 0ul, 0ul, 0ul); /* in ns; the default is 50 us */
    device_enter(dispatch->device);
    device_on_pause(dispatch->device, run_short_works, dispatch);

    for (;;) {
        heartbeat_beat(&dispatch->heartbeat);
        bool moved = feed(dispatch, works);
        moved |= collect(dispatch);
        notice_loss(dispatch);
        works = NULL;
        if (moved) {
            moved_ns = clock_now_ns();
            if (is_crowded(dispatch))
                sleep_for(CROWD_NS);
        } else if (device_in_flight(dispatch->device) > 0 || probe_running(dispatch->probe) ||
                   (dispatch->early_copy != NULL && early_copy_is_closing(dispatch->early_copy))) {
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
                                uint32_t max_launch_works, uint32_t busy_poll_us)
{
    struct dispatch *dispatch = malloc(sizeof *dispatch);
    if (dispatch == NULL)
        return NULL;
    *dispatch = (struct dispatch){.device = device,
                                  .queue = queue,
                                  .early_copy = early_copy,
                                  .shard = shard,
                                  .max_launch_works = max_launch_works,
                                  .busy_poll_ns = busy_poll_us * UINT64_C(1000)};
    dispatch->probe = probe_create(device);
    if (dispatch->probe == NULL)
        goto no_probe;
    if (pthread_create(&dispatch->thread, NULL, dispatch_run, dispatch) != 0)
        goto no_thread;
    return dispatch;

no_thread:
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

bool dispatch_end(struct dispatch *dispatch, uint64_t patience_ns)
{
    if (dispatch == NULL)
        return true;
    atomic_store(&dispatch->stopping, true);
    queue_wake(dispatch->queue);
    if (patience_ns != UINT64_MAX && !wait_until_stopped(dispatch, patience_ns))
        return false;
    pthread_join(dispatch->thread, NULL);
    probe_expire(dispatch->probe, UINT64_MAX, false); /* no thread is left to run a probe */
    return true;
}

void dispatch_free(struct dispatch *dispatch)
{
    if (dispatch == NULL)
        return;
    probe_destroy(dispatch->probe);
    free(dispatch);
}

bool dispatch_stop(struct dispatch *dispatch, uint64_t patience_ns)
{
    if (!dispatch_end(dispatch, patience_ns))
        return false;
    dispatch_free(dispatch);
    return true;
}

void dispatch_leave(struct dispatch *dispatch)
{
    (void)pthread_detach(dispatch->thread);
}

void dispatch_set_stall_limit(struct dispatch *dispatch, uint64_t limit_ns)
{
    dispatch->stall_watch.limit_ns = limit_ns;
}

/* `busy` says whether works run or wait, and `progress` is device_progress. */
static void stall_watch_look(struct stall_watch *watch, bool busy, uint64_t progress,
                             uint64_t now_ns)
{
    if (!busy || progress != watch->progress || watch->since_ns == 0)
        watch->since_ns = now_ns;
    watch->progress = progress;
    const uint64_t still_ns = now_ns - watch->since_ns;
    const bool stalled = watch->limit_ns != 0 && still_ns > watch->limit_ns;
    atomic_store_explicit(&watch->stalled_ns, stalled ? still_ns : 0, memory_order_relaxed);
}

void dispatch_look(struct dispatch *dispatch, uint64_t now_ns)
{
    const bool busy =
        device_in_flight(dispatch->device) > 0 || queue_state(dispatch->queue).waiting > 0;
    stall_watch_look(&dispatch->stall_watch, busy, device_progress(dispatch->device), now_ns);
}

uint64_t dispatch_stalled_ns(const struct dispatch *dispatch)
{
    return atomic_load_explicit(&dispatch->stall_watch.stalled_ns, memory_order_relaxed);
}

/* The CPU computes in the dispatch thread, where a probe cannot overtake a long product. The CPU is
 * then known to compute without a probe. */
static bool is_known_to_compute(const struct dispatch *dispatch)
{
    return device_computes_in_submit(dispatch->device) && device_in_flight(dispatch->device) > 0;
}

bool dispatch_probe(struct dispatch *dispatch, struct probe_wait *wait, uint32_t timeout_ms)
{
    const uint64_t stalled_ns = dispatch_stalled_ns(dispatch);
    wait->reason[0] = '\0';
    wait->right = false;
    if (device_lost(dispatch->device)) {
        snprintf(wait->reason, sizeof wait->reason, "the device is lost: %s",
                 device_lost_reason(dispatch->device));
        return true;
    }
    if (stalled_ns > 0) {
        snprintf(wait->reason, sizeof wait->reason,
                 "the device has work and has finished nothing for %" PRIu64 " seconds",
                 stalled_ns / NS_PER_S);
        return true;
    }
    wait->right = true;
    if (is_known_to_compute(dispatch))
        return true;
    return probe_ask(dispatch->probe, wait, timeout_ms, dispatch_wake, dispatch->queue);
}

void dispatch_expire_probes(struct dispatch *dispatch, uint64_t now_ns)
{
    probe_expire(dispatch->probe, now_ns, is_known_to_compute(dispatch));
}

const struct verify_counts *dispatch_verify_counts(const struct dispatch *dispatch)
{
    return &dispatch->verified;
}

const char *dispatch_stuck(struct dispatch *dispatch)
{
    const bool computes = device_in_flight(dispatch->device) > 0 &&
                          device_computes_in_submit(dispatch->device) &&
                          dispatch_stalled_ns(dispatch) == 0;
    const bool alive = heartbeat_look(&dispatch->heartbeat) || computes;
    queue_wake(dispatch->queue);
    if (dispatch_stalled_ns(dispatch) > 0)
        return "the device";
    return alive ? NULL : "the dispatch thread";
}
