#include "server/net/acceptor.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "server/base/clock.h"
#include "server/daemon.h"
#include "server/http/connection.h"
#include "server/http/io_thread.h"
#include "server/jobs/job_thread.h"
#include "server/jobs/jobs.h"
#include "server/net/lingering.h"
#include "server/net/listen.h"
#include "server/net/notify.h"
#include "server/net/peer_counts.h"

enum { TICK_MS = 20, TICKS_PER_CHECK = 10, ACCEPTS_PER_WAKE = 64, SIGNAL_COUNT = 3 };

static const struct {
    int number;
    const char *name;
} signals[SIGNAL_COUNT] = {{SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"}, {SIGHUP, "SIGHUP"}};

struct acceptor {
    struct daemon *daemon; /* borrowed */
    uv_loop_t loop;
    uv_timer_t tick;
    uv_signal_t signals[SIGNAL_COUNT];
    struct listener listeners[CONFIG_LISTEN_MAX];
    uv_poll_t polls[CONFIG_LISTEN_MAX];
    uint32_t listener_count;
    bool polling;      /* the listening sockets are watched */
    bool out_of_files; /* accept ran out of descriptors; said once */
    uint32_t ticks;
    uint32_t next_thread; /* where ties are broken */
    uint64_t id_state;    /* of the generator of request ids */
    uint64_t closing_at_ns, give_up_at_ns;
    bool forced; /* a second signal */
    bool done;
};

/* Over a limit: say so in HTTP, so that a client sees more than a closed socket. */
static void refuse(struct acceptor *acceptor, int fd)
{
    struct daemon *daemon = acceptor->daemon;
    struct fault fault;
    fault_set(&fault, GEMMD_ERR_QUEUE_FULL, NULL, "the limit of open connections is reached");
    char id[REQUEST_ID_MAX + 1];
    request_id_choose(id, NULL, &acceptor->id_state);
    connection_send_fault(fd, &fault, id);
    shutdown(fd, SHUT_WR);
    lingering_add(daemon->lingering, fd);
    close(fd);
    metrics_connection_refused(metrics_shard(daemon->metrics, daemon_shard_main(daemon)));
}

static void take(struct acceptor *acceptor, int fd, const struct sockaddr *peer,
                 socklen_t peer_length)
{
    struct daemon *daemon = acceptor->daemon;
    if (atomic_load(&daemon->connections) >= daemon->config.max_connections ||
        !peer_counts_add(daemon->peers, peer)) {
        refuse(acceptor, fd);
        return;
    }
    atomic_fetch_add(&daemon->connections, 1);
    io_thread_add(io_thread_least_loaded(daemon->io_threads, daemon->bulk_thread_first,
                                         acceptor->next_thread++),
                  fd, peer, peer_length);
}

static void stop_polling(struct acceptor *acceptor)
{
    for (uint32_t i = 0; acceptor->polling && i < acceptor->listener_count; i++)
        uv_poll_stop(&acceptor->polls[i]);
    acceptor->polling = false;
}

static void on_listener(uv_poll_t *poll, int status, int events)
{
    struct acceptor *acceptor = poll->data;
    struct listener *listener = &acceptor->listeners[poll - acceptor->polls];
    (void)events;
    if (status < 0)
        return;
    for (int i = 0; i < ACCEPTS_PER_WAKE; i++) {
        struct sockaddr_storage peer = {0};
        socklen_t peer_length = sizeof peer;
        int fd = accept4(listener->fd, (struct sockaddr *)&peer, &peer_length,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            acceptor->out_of_files = false;
            take(acceptor, fd, (struct sockaddr *)&peer, peer_length);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            /* The connection stays in the backlog; look again at the next check. */
            if (!acceptor->out_of_files)
                log_event(acceptor->daemon->log, CONFIG_LOG_ERROR, "cannot accept: %s",
                          strerror(errno));
            acceptor->out_of_files = true;
            stop_polling(acceptor);
            return;
        }
        if (errno != EINTR && errno != ECONNABORTED)
            return;
    }
}

static void start_polling(struct acceptor *acceptor)
{
    for (uint32_t i = 0; !acceptor->polling && i < acceptor->listener_count; i++)
        uv_poll_start(&acceptor->polls[i], UV_READABLE, on_listener);
    acceptor->polling = true;
}

static void drain(struct acceptor *acceptor, uint64_t delay_ms, const char *why)
{
    struct daemon *daemon = acceptor->daemon;
    atomic_store(&daemon->stage, DAEMON_DRAINING);
    acceptor->closing_at_ns = clock_now_ns() + delay_ms * 1000000u;
    log_event(daemon->log, CONFIG_LOG_INFO, "draining: %s", why);
    notify_send("STOPPING=1\nSTATUS=draining");
}

static void on_signal(uv_signal_t *handle, int signal_number)
{
    (void)signal_number;
    struct acceptor *acceptor = handle->data;
    struct daemon *daemon = acceptor->daemon;
    if (atomic_load(&daemon->stage) != DAEMON_SERVING) {
        log_event(daemon->log, CONFIG_LOG_WARNING, "second signal: stopping at once");
        acceptor->forced = true;
        return;
    }
    drain(acceptor, daemon->config.drain_delay_ms, signals[handle - acceptor->signals].name);
}

static void watch_signals(struct acceptor *acceptor)
{
    struct sigaction present;
    for (int i = 0; i < SIGNAL_COUNT; i++) {
        uv_signal_init(&acceptor->loop, &acceptor->signals[i]);
        acceptor->signals[i].data = acceptor;
        /* nohup(1) has the hang-up of its terminal ignored. */
        if (signals[i].number == SIGHUP && sigaction(SIGHUP, NULL, &present) == 0 &&
            present.sa_handler == SIG_IGN)
            continue;
        uv_signal_start(&acceptor->signals[i], on_signal, signals[i].number);
    }
}

static void begin_closing(struct acceptor *acceptor, uint64_t now_ns)
{
    struct daemon *daemon = acceptor->daemon;
    atomic_store(&daemon->stage, DAEMON_CLOSING);
    stop_polling(acceptor);
    for (uint32_t i = 0; i < acceptor->listener_count; i++)
        uv_close((uv_handle_t *)&acceptor->polls[i], NULL);
    /* Closed with the loop's next turn behind them; nobody can connect from here on. */
    uv_run(&acceptor->loop, UV_RUN_NOWAIT);
    for (uint32_t i = 0; i < acceptor->listener_count; i++)
        listen_close(&acceptor->listeners[i]);
    acceptor->listener_count = 0;
    queue_close(daemon->queue);
    acceptor->give_up_at_ns = now_ns + daemon->config.drain_timeout_ms * 1000000ull;
}

static void on_tick(uv_timer_t *timer)
{
    struct acceptor *acceptor = timer->data;
    struct daemon *daemon = acceptor->daemon;
    uint64_t now_ns = clock_now_ns();
    enum daemon_stage stage = atomic_load(&daemon->stage);

    queue_expire(daemon->queue, now_ns);
    dispatch_expire_probes(daemon->dispatch, now_ns);
    job_thread_check(daemon->job_thread, now_ns);
    /* A lost context cannot be mended in this process: end it, and let its supervisor start
     * another. */
    if (stage == DAEMON_SERVING && device_lost(daemon->device))
        drain(acceptor, 0, device_lost_reason(daemon->device));
    if (++acceptor->ticks % TICKS_PER_CHECK == 0 || stage == DAEMON_CLOSING)
        for (uint32_t i = 0; i < daemon->io_thread_count; i++)
            io_thread_check(daemon->io_threads[i]);
    if (acceptor->ticks % TICKS_PER_CHECK == 0) {
        admission_sample(queue_admission(daemon->queue), now_ns);
        jobs_sample(daemon->jobs, now_ns);
    }
    if (acceptor->ticks % TICKS_PER_CHECK == 0 && stage != DAEMON_CLOSING)
        start_polling(acceptor);

    if (stage == DAEMON_CLOSING) {
        uint32_t left = daemon_unfinished(daemon);
        if (left > 0 && (now_ns > acceptor->give_up_at_ns || acceptor->forced))
            log_event(daemon->log, CONFIG_LOG_WARNING,
                      "giving up on %" PRIu32 " unfinished requests and jobs", left);
        if (left == 0 || now_ns > acceptor->give_up_at_ns || acceptor->forced)
            acceptor->done = true;
    }
}

/* Runs outside of any callback, because closing handles needs turns of the loop. */
static void close_when_due(struct acceptor *acceptor)
{
    uint64_t now_ns = clock_now_ns();
    if (atomic_load(&acceptor->daemon->stage) == DAEMON_DRAINING &&
        (now_ns >= acceptor->closing_at_ns || acceptor->forced))
        begin_closing(acceptor, now_ns);
}

static enum gemmd_error open_listeners(struct acceptor *acceptor, struct fault *fault)
{
    struct daemon *daemon = acceptor->daemon;
    enum gemmd_error code =
        listen_inherit(acceptor->listeners, CONFIG_LISTEN_MAX, &acceptor->listener_count, fault);
    for (uint32_t i = 0; code == GEMMD_OK && i < daemon->config.listen_count; i++) {
        if (acceptor->listener_count == CONFIG_LISTEN_MAX)
            return fault_set(fault, GEMMD_ERR_USAGE, "listen",
                             "at most %d sockets can be listened on", (int)CONFIG_LISTEN_MAX);
        code = listen_open(daemon->config.listen[i], &acceptor->listeners[acceptor->listener_count],
                           fault);
        if (code == GEMMD_OK)
            acceptor->listener_count++;
    }
    return code;
}

enum gemmd_error acceptor_create(struct daemon *daemon, struct acceptor **out, struct fault *fault)
{
    struct acceptor *acceptor = calloc(1, sizeof *acceptor);
    if (acceptor == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the acceptor");
    acceptor->daemon = daemon;
    acceptor->id_state = clock_now_ns();
    enum gemmd_error code = open_listeners(acceptor, fault);
    if (code != GEMMD_OK)
        goto close_listeners;
    if (uv_loop_init(&acceptor->loop) != 0) {
        code = fault_set(fault, GEMMD_ERR_INTERNAL, NULL, "libuv's loop did not start");
        goto close_listeners;
    }
    daemon->lingering = lingering_create(&acceptor->loop, daemon->config.max_body_bytes);
    if (daemon->lingering == NULL) {
        uv_loop_close(&acceptor->loop);
        code = fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the acceptor");
        goto close_listeners;
    }
    for (uint32_t i = 0; i < acceptor->listener_count; i++) {
        uv_poll_init(&acceptor->loop, &acceptor->polls[i], acceptor->listeners[i].fd);
        acceptor->polls[i].data = acceptor;
    }
    uv_timer_init(&acceptor->loop, &acceptor->tick);
    acceptor->tick.data = acceptor;
    watch_signals(acceptor);
    *out = acceptor;
    return GEMMD_OK;

close_listeners:
    for (uint32_t i = 0; i < acceptor->listener_count; i++)
        listen_close(&acceptor->listeners[i]);
    free(acceptor);
    return code;
}

void acceptor_run(struct acceptor *acceptor)
{
    struct log *log = acceptor->daemon->log;
    uv_timer_start(&acceptor->tick, on_tick, TICK_MS, TICK_MS);
    start_polling(acceptor);
    for (uint32_t i = 0; i < acceptor->listener_count; i++) {
        const struct listener *listener = &acceptor->listeners[i];
        log_event(log, CONFIG_LOG_INFO, "listening on %s", listener->address);
        if (acceptor->daemon->tokens == NULL && listen_is_public(listener))
            log_event(log, CONFIG_LOG_WARNING,
                      "whoever reaches %s is let in: there is no --token-file", listener->address);
    }
    notify_send("READY=1\nSTATUS=serving");

    while (!acceptor->done) {
        uv_run(&acceptor->loop, UV_RUN_ONCE);
        close_when_due(acceptor);
    }
}

static void close_handle(uv_handle_t *handle, void *unused)
{
    (void)unused;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

void acceptor_destroy(struct acceptor *acceptor)
{
    if (acceptor == NULL)
        return;
    lingering_destroy(acceptor->daemon->lingering);
    acceptor->daemon->lingering = NULL;
    uv_walk(&acceptor->loop, close_handle, NULL);
    uv_run(&acceptor->loop, UV_RUN_DEFAULT);
    uv_loop_close(&acceptor->loop);
    for (uint32_t i = 0; i < acceptor->listener_count; i++)
        listen_close(&acceptor->listeners[i]);
    free(acceptor);
}
