#include "server/main_loop.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <uv.h>

#include "server/api/services.h"
#include "server/base/clock.h"
#include "server/base/inherited_sockets.h"
#include "server/device_restarts.h"
#include "server/http/acceptor.h"
#include "server/http/server.h"
#include "server/jobs/job_thread.h"
#include "server/jobs/jobs.h"
#include "server/liveness.h"
#include "server/net/handover.h"
#include "server/net/lingering.h"
#include "server/net/notify.h"
#include "server/reload.h"

/* The longest drain before a restart, so that the daemon serves again soon. Requests that a lost
 * device has left unanswered end at once; only slow clients take longer. */
static const uint64_t RESTART_DRAIN_MS = 1000;

/* The timer ticks every TICK_MS milliseconds. Deadlines are looked at in every tick, and work that
 * is less urgent in every TICKS_PER_CHECK-th. */
enum { TICK_MS = 20, TICKS_PER_CHECK = 10 };
enum { SIGNAL_COUNT = 4 };
/* The most that libuv's loop needs: descriptors, and bytes for its table of watched descriptors. */
enum { LOOP_FILES = 8, LOOP_BYTES = 64 * 1024 };

static const struct {
    int number;
    const char *name;
} signals[SIGNAL_COUNT] = {
    {SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"}, {SIGHUP, "SIGHUP"}, {SIGUSR2, "SIGUSR2"}};

struct main_loop {
    struct services *services; /* borrowed */
    uv_loop_t uv;
    uv_timer_t tick;
    uv_signal_t signals[SIGNAL_COUNT];
    struct acceptor *acceptor;
    struct reload *reload; /* borrowed, like argv */
    char *const *argv;
    struct handover handover;
    struct liveness *liveness;
    uint32_t ticks;
    /* When a drain stops accepting connections or, after a handover, closes idle connections; on
     * the monotonic clock. */
    uint64_t closing_at_ns;
    uint64_t give_up_at_ns; /* when a drain stops waiting for unfinished requests and jobs */
    bool forced;            /* a second signal skips the waits */
    bool done;              /* main_loop_run returns */
    /* After the drain, the process executes its program again with the listening sockets. */
    bool restarts;
    const struct device_restarts *past_restarts; /* borrowed */
    bool knows_lost[DEVICES_MAX];                /* the loss of the device was noticed */
};

static enum http_stage stage_of(const struct main_loop *loop)
{
    return atomic_load(&loop->services->http->stage);
}

/* ---- the drain ---- */

static void begin_drain(struct main_loop *loop, uint64_t delay_ms, const char *why)
{
    handover_cancel(&loop->handover);
    atomic_store(&loop->services->http->stage, HTTP_DRAINING);
    loop->closing_at_ns = clock_now_ns() + delay_ms * 1000000u;
    log_event(loop->services->log, CONFIG_LOG_INFO, "draining: %s", why);
    notify_send("STOPPING=1\nSTATUS=draining");
}

/* Begins a drain after which the daemon executes its program again, because a lost CUDA context
 * cannot be restored in this process. If the daemon has been restarted too often, the process ends
 * after the drain instead. */
static void begin_after_loss(struct main_loop *loop, uint64_t now_ns)
{
    const struct services *services = loop->services;
    const char *reason = device_lost_reason(services->executors.list[0].device);
    if (!device_restarts_allowed(loop->past_restarts, now_ns)) {
        log_event(services->log, CONFIG_LOG_ERROR,
                  "the device was lost after %d restarts within %d s, so the daemon ends",
                  (int)DEVICE_RESTARTS_MAX, (int)DEVICE_RESTARTS_PERIOD_S);
        begin_drain(loop, 0, reason);
        return;
    }
    handover_cancel(&loop->handover);
    loop->restarts = true;
    atomic_store(&services->http->stage, HTTP_DRAINING);
    loop->closing_at_ns = now_ns;
    log_event(services->log, CONFIG_LOG_ERROR,
              "the device is lost, and the daemon replaces itself; resident tensors, jobs and "
              "registered shared memory are lost: %s",
              reason);
    notify_send("STATUS=restarting, because the device is lost");
}

/* Notices devices that were lost. The daemon goes on with the other devices, without the tensors on
 * the lost ones. */
static void notice_losses(struct main_loop *loop, uint64_t now_ns)
{
    struct services *services = loop->services;
    struct executors *executors = &services->executors;
    if (executors_are_lost(executors)) {
        begin_after_loss(loop, now_ns);
        return;
    }
    for (uint32_t i = 0; i < executors->count; i++) {
        const struct device *device = executors->list[i].device;
        if (loop->knows_lost[i] || !device_lost(device))
            continue;
        loop->knows_lost[i] = true;
        tensor_store_lose_device(services->tensors, i);
        log_event(services->log, CONFIG_LOG_ERROR,
                  "device %d (%s) is lost, and the daemon goes on with the others; the resident "
                  "tensors on that device are lost: %s",
                  (int)device_info(device)->index, device_info(device)->name,
                  device_lost_reason(device));
        notify_send("STATUS=serving without a device that is lost");
    }
}

/* Leaves the listening sockets to the new process. This process tells the service manager the pid
 * of the new one, because the service manager takes messages from its main process only. */
static void begin_handed_over(struct main_loop *loop)
{
    struct services *services = loop->services;
    const struct config *config = &services->http->options->config;
    char state[64];
    atomic_store(&services->http->stage, HTTP_HANDED_OVER);
    loop->closing_at_ns = clock_now_ns() + config->drain_timeout_ms * 1000000ull;
    acceptor_disown(loop->acceptor);
    acceptor_close(loop->acceptor);
    snprintf(state, sizeof state, "MAINPID=%d\nREADY=1\nSTATUS=serving", (int)loop->handover.pid);
    notify_send(state);
    liveness_stop(loop->liveness);
    loop->handover.state = HANDOVER_NONE;
    log_event(services->log, CONFIG_LOG_INFO,
              "draining: the new process, pid %d, has the listening sockets",
              (int)loop->handover.pid);
}

/* Ends the drain's delay: no new connections and no new work from now on. */
static void begin_closing(struct main_loop *loop, uint64_t now_ns)
{
    if (loop->restarts)
        acceptor_pause(loop->acceptor);
    else if (stage_of(loop) != HTTP_HANDED_OVER)
        acceptor_close(loop->acceptor);
    atomic_store(&loop->services->http->stage, HTTP_CLOSING);
    executors_refuse(&loop->services->executors);
    const struct config *config = &loop->services->http->options->config;
    uint64_t timeout_ms = config->drain_timeout_ms;
    if (loop->restarts && timeout_ms > RESTART_DRAIN_MS)
        timeout_ms = RESTART_DRAIN_MS;
    loop->give_up_at_ns = now_ns + timeout_ms * 1000000u;
}

/* Enters the next stage of a drain or a handover if it is time. Runs outside of libuv's callbacks,
 * because a closed handle needs further iterations of the loop. */
static void close_when_due(struct main_loop *loop)
{
    const uint64_t now_ns = clock_now_ns();
    const enum http_stage stage = stage_of(loop);
    const bool due = now_ns >= loop->closing_at_ns || loop->forced;
    const bool empty = atomic_load(&loop->services->http->connections) == 0;
    if (stage == HTTP_SERVING && loop->handover.state == HANDOVER_READY)
        begin_handed_over(loop);
    else if ((stage == HTTP_DRAINING && due) || (stage == HTTP_HANDED_OVER && (due || empty)))
        begin_closing(loop, now_ns);
}

/* Ends the drain when no request and no unfinished job is left, or when the drain's time is over.
 */
static void finish_when_drained(struct main_loop *loop, uint64_t now_ns)
{
    const struct services *services = loop->services;
    const uint32_t left =
        http_server_active_requests(services->http) + jobs_unfinished(services->jobs);
    const bool give_up = now_ns > loop->give_up_at_ns || loop->forced;
    if (left > 0 && give_up)
        log_event(services->log, CONFIG_LOG_WARNING,
                  "giving up on %" PRIu32 " unfinished requests and jobs", left);
    loop->done = left == 0 || give_up;
}

/* ---- signals ---- */

/* Tells that no new process takes over. */
static void report_failed_handover(struct main_loop *loop, const struct fault *fault)
{
    atomic_fetch_add(&loop->services->handovers_failed, 1);
    log_event(loop->services->log, CONFIG_LOG_ERROR, "this process goes on serving: %s",
              fault->detail);
    notify_send("STATUS=serving; the new process did not take over, see the log");
}

/* Starts the new process, unless one is starting already or the daemon drains. */
static void begin_handover(struct main_loop *loop)
{
    struct log *log = loop->services->log;
    const struct config *config = &loop->services->http->options->config;
    struct handover_socket sockets[CONFIG_LISTEN_MAX];
    struct fault fault;
    if (stage_of(loop) != HTTP_SERVING || loop->handover.state != HANDOVER_NONE) {
        log_event(log, CONFIG_LOG_WARNING, "SIGUSR2 is ignored: the daemon is %s",
                  stage_of(loop) == HTTP_SERVING ? "starting a new process already" : "draining");
        return;
    }
    const uint32_t count = acceptor_sockets(loop->acceptor, sockets);
    const uint64_t deadline_ns = clock_now_ns() + config->takeover_timeout_ms * 1000000ull;
    if (handover_begin(&loop->handover, loop->argv, sockets, count, deadline_ns, &fault) ==
        GEMMD_OK)
        log_event(log, CONFIG_LOG_INFO, "SIGUSR2: starting %s as pid %d to take over",
                  loop->argv[0], (int)loop->handover.pid);
    else
        report_failed_handover(loop, &fault);
}

/* Looks whether the new process is ready or has failed. */
static void check_handover(struct main_loop *loop, uint64_t now_ns)
{
    struct fault fault;
    if (loop->handover.state == HANDOVER_NONE ||
        handover_look(&loop->handover, now_ns, &fault) == GEMMD_OK)
        return;
    if (stage_of(loop) == HTTP_SERVING)
        report_failed_handover(loop, &fault);
}

/* SIGTERM and SIGINT begin a drain. During a drain they skip its waits, and prevent a restart. */
static void on_signal(uv_signal_t *handle, int signal_number)
{
    struct main_loop *loop = handle->data;
    const struct config *config = &loop->services->http->options->config;
    if (signal_number == SIGUSR2) {
        begin_handover(loop);
        return;
    }
    if (signal_number == SIGHUP) {
        if (stage_of(loop) == HTTP_SERVING)
            reload_run(loop->reload);
        return;
    }
    if (stage_of(loop) != HTTP_SERVING) {
        log_event(loop->services->log, CONFIG_LOG_WARNING, "%s: stopping at once",
                  loop->restarts ? signals[handle - loop->signals].name : "second signal");
        loop->restarts = false;
        loop->forced = true;
        return;
    }
    begin_drain(loop, config->drain_delay_ms, signals[handle - loop->signals].name);
}

static int watch_signals(struct main_loop *loop)
{
    struct sigaction present;
    int error = 0;
    for (int i = 0; i < SIGNAL_COUNT && error == 0; i++) {
        error = uv_signal_init(&loop->uv, &loop->signals[i]);
        if (error != 0)
            break;
        loop->signals[i].data = loop;
        /* nohup(1) makes a process ignore the hang-up of its terminal. */
        if (signals[i].number == SIGHUP && sigaction(SIGHUP, NULL, &present) == 0 &&
            present.sa_handler == SIG_IGN)
            continue;
        error = uv_signal_start(&loop->signals[i], on_signal, signals[i].number);
    }
    return error;
}

/* ---- the timer ---- */

/* Does the work of every TICKS_PER_CHECK-th tick. */
static void main_loop_check(struct main_loop *loop, uint64_t now_ns)
{
    struct services *services = loop->services;
    admission_sample(services->admission, now_ns);
    jobs_sample(services->jobs, now_ns);
    executors_look(&services->executors, now_ns);
    if (stage_of(loop) < HTTP_HANDED_OVER)
        acceptor_start(loop->acceptor);
}

static void on_tick(uv_timer_t *timer)
{
    struct main_loop *loop = timer->data;
    struct services *services = loop->services;
    const uint64_t now_ns = clock_now_ns();
    const enum http_stage stage = stage_of(loop);
    const bool checks = ++loop->ticks % TICKS_PER_CHECK == 0;

    executors_expire(&services->executors, now_ns);
    job_thread_check(services->job_thread, now_ns);
    check_handover(loop, now_ns);
    liveness_check(loop->liveness, now_ns);
    if (stage == HTTP_SERVING)
        notice_losses(loop, now_ns);
    if (checks || stage == HTTP_CLOSING)
        http_server_check(services->http);
    if (checks)
        main_loop_check(loop, now_ns);
    if (stage == HTTP_CLOSING)
        finish_when_drained(loop, now_ns);
}

/* ---- the loop ---- */

static void close_handle(uv_handle_t *handle, void *unused)
{
    (void)unused;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static int start_tick(struct main_loop *loop)
{
    const int error = uv_timer_init(&loop->uv, &loop->tick);
    loop->tick.data = loop;
    return error != 0 ? error : uv_timer_start(&loop->tick, on_tick, TICK_MS, TICK_MS);
}

/* Creates the parts that have handles in libuv's loop. The timer does not run before the loop. */
static enum gemmd_error open_parts(struct main_loop *loop, struct fault *fault)
{
    struct services *services = loop->services;
    const struct config *config = &services->http->options->config;
    enum gemmd_error code =
        acceptor_create(&loop->uv, config, services->log, services->http, &loop->acceptor, fault);
    if (code != GEMMD_OK)
        return code;
    services->http->lingering = lingering_create(&loop->uv, config->max_body_bytes);
    if (services->http->lingering == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the acceptor");
    int error = start_tick(loop);
    if (error == 0)
        error = watch_signals(loop);
    return error == 0 ? GEMMD_OK
                      : fault_set(fault, GEMMD_ERR_INTERNAL, NULL,
                                  "the main loop cannot watch signals: %s", uv_strerror(error));
}

/* libuv calls abort if uv_loop_init lacks memory or descriptors, so both are tried before. */
static bool has_room_for_loop(void)
{
    int fds[LOOP_FILES];
    int count = 0;
    while (count < LOOP_FILES && (fds[count] = eventfd(0, EFD_CLOEXEC)) >= 0)
        count++;
    for (int i = 0; i < count; i++)
        close(fds[i]);
    void *memory = malloc(LOOP_BYTES);
    free(memory);
    return count == LOOP_FILES && memory != NULL;
}

enum gemmd_error main_loop_create(struct services *services, const struct main_loop_signals *calls,
                                  struct main_loop **out, struct fault *fault)
{
    struct main_loop *loop = calloc(1, sizeof *loop);
    if (loop == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the main loop");
    loop->services = services;
    loop->reload = calls->reload;
    loop->argv = calls->argv;
    loop->past_restarts = calls->restarts;
    loop->liveness = liveness_create(services);
    if (loop->liveness == NULL || !has_room_for_loop() || uv_loop_init(&loop->uv) != 0) {
        liveness_destroy(loop->liveness);
        free(loop);
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                         "there are too few file descriptors or too little memory for the main "
                         "loop");
    }
    const enum gemmd_error code = open_parts(loop, fault);
    if (code == GEMMD_OK)
        *out = loop;
    else
        main_loop_destroy(loop);
    return code;
}

void main_loop_run(struct main_loop *loop)
{
    acceptor_start(loop->acceptor);
    acceptor_announce(loop->acceptor, loop->services->http->tokens == NULL);
    acceptor_own(loop->acceptor);
    if (inherited_news_fd() < 0)
        notify_send("READY=1\nSTATUS=serving");
    handover_tell_ready(); /* after a handover, the old process tells the service manager */
    while (!loop->done) {
        uv_run(&loop->uv, UV_RUN_ONCE);
        close_when_due(loop);
    }
}

bool main_loop_restarts(struct main_loop *loop, struct handover_socket *sockets, uint32_t *count)
{
    if (!loop->restarts)
        return false;
    uv_timer_stop(&loop->tick);
    uv_run(&loop->uv, UV_RUN_NOWAIT);
    *count = acceptor_sockets(loop->acceptor, sockets);
    return loop->restarts;
}

void main_loop_destroy(struct main_loop *loop)
{
    if (loop == NULL)
        return;
    lingering_destroy(loop->services->http->lingering);
    loop->services->http->lingering = NULL;
    uv_walk(&loop->uv, close_handle, NULL);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    uv_loop_close(&loop->uv);
    acceptor_destroy(loop->acceptor);
    liveness_destroy(loop->liveness);
    free(loop);
}
