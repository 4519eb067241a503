/*
 * daemon.h - what the daemon is made of. Made by main in this order, taken down in reverse;
 * everybody else borrows it.
 */
#ifndef SERVER_DAEMON_H
#define SERVER_DAEMON_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/config/config.h"
#include "server/device/device.h"
#include "server/device/memory/pool.h"
#include "server/http/tokens.h"
#include "server/observe/log.h"
#include "server/observe/metrics.h"
#include "server/observe/model_stats.h"
#include "server/scheduler/dispatch.h"
#include "server/scheduler/queue.h"
#include "server/shm/regions.h"
#include "server/tensors/tensor_store.h"

struct acceptor;
struct host_memory;
struct io_thread;
struct jobs;
struct job_thread;
struct lingering;
struct peer_counts;

enum daemon_stage {
    DAEMON_SERVING,
    DAEMON_DRAINING, /* not ready any more, but still accepting (--drain-delay) */
    DAEMON_CLOSING   /* no new connections, no new work; what was accepted is finished */
};

struct daemon {
    struct config config;
    struct log *log;
    struct metrics *metrics;
    struct tokens *tokens; /* NULL: no authentication */

    struct device *device;
    struct host_memory *host_memory;
    void *pinned; /* of that: the pool's memory */
    struct pool *pool;
    struct tensor_store *tensors;
    struct shm_store *shm_store;                         /* clients' memory, */
    struct regions *regions;                             /* and the names they have for it */
    struct model_stats product_stats[GEMMD_DTYPE_COUNT]; /* of the models in server/v2 */
    struct model_stats attention_stats[GEMMD_DTYPE_COUNT];
    struct queue *queue;
    struct early_copy *early_copy; /* NULL: the device copies nothing early */
    struct dispatch *dispatch;
    struct jobs *jobs;
    struct job_thread *job_thread;

    struct io_thread **io_threads;
    uint32_t io_thread_count;
    uint32_t bulk_thread_first; /* the threads from here on serve connections with large bodies */
    struct peer_counts *peers;
    struct lingering *lingering;
    struct acceptor *acceptor;

    _Atomic enum daemon_stage stage;
    atomic_uint connections; /* open ones */
    atomic_uint bulk_connections;
    uint64_t started_ns;
};

/* Takes memory, opens the device and starts the threads as `daemon->config` says. On failure
 * everything taken is given back. */
enum gemmd_error daemon_start(struct daemon *daemon, struct fault *fault);
/* Serves until SIGTERM, SIGINT or SIGHUP, then drains. */
void daemon_run(struct daemon *daemon);
/* Gives everything back. False if the device still computes something that nothing can stop (a long
 * product on the CPU, after the drain's time was over): all requests are answered then, but threads
 * and memory are left, and the process has to end with _exit. */
bool daemon_stop(struct daemon *daemon);

/* Whose metrics shard is whose: I/O threads have 0 ... io_thread_count-1. */
uint32_t daemon_shard_dispatch(const struct daemon *daemon);
uint32_t daemon_shard_main(const struct daemon *daemon);

/* Requests between their first line and the last byte of their answer. */
uint32_t daemon_active_requests(const struct daemon *daemon);

/* What a drain waits for: these, and jobs that are not done. */
uint32_t daemon_unfinished(const struct daemon *daemon);

/* What /metrics reads at scrape time. Any thread. */
struct metrics_gauges daemon_gauges(struct daemon *daemon);

#endif
