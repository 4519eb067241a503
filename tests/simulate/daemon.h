/*
 * daemon.h - a simulated daemon: the scheduler, the stores of jobs and tensors, and the calls of
 * api/compute of the server, on simulated devices, with a timer and I/O threads of the simulation
 * in place of main_loop.c and http/.
 */
#ifndef TESTS_SIMULATE_DAEMON_H
#define TESTS_SIMULATE_DAEMON_H

#include "server/api/services.h"
#include "server/jobs/job_thread.h"
#include "server/jobs/jobs.h"
#include "tests/simulate/device.h"
#include "tests/simulate/order.h"
#include "tests/simulate/threads.h"

struct client_request;
struct daemon;

enum { IO_THREADS_MAX = 3, TENANTS_SIMULATED = 4, DEVICES_SIMULATED = 3, NAMES = 3 };

/* What the seed decides about a daemon. Chances are in a million. */
struct daemon_traits {
    uint32_t tenants, devices, io_threads, max_launch_works, busy_poll_us;
    struct admission_limits limits;
    struct jobs_limits jobs;
    uint64_t stall_limit_ns, tenant_tensor_bytes;
    uint32_t reloads; /* for each tick */
    uint32_t verify_share;
    struct device_traits device[DEVICES_SIMULATED];
    struct interference interference;
};

struct io_thread {
    struct daemon *daemon;
    struct inbox inbox;
    struct inbox_message stop;
    struct pool_cache *memory;
    struct client_request *requests; /* that the thread serves */
    bool stopping, ended;
};

struct daemon {
    struct daemon_traits traits;
    uint32_t number; /* in the order of their starts */
    struct config config;
    struct services services;
    struct metrics *metrics;
    struct simulated_device *devices[DEVICES_SIMULATED];
    struct order orders[DEVICES_SIMULATED];
    struct io_thread io[IO_THREADS_MAX];
    bool knows_lost[DEVICES_SIMULATED];
    uint64_t progress[DEVICES_SIMULATED], still_since_ns[DEVICES_SIMULATED]; /* of check_stall */
    uint32_t wrong_looks[DEVICES_SIMULATED];
    uint64_t memory_at_start[DEVICES_SIMULATED]; /* used by the dispatch thread's probe */
    struct prober {
        struct probe_wait wait; /* first */
        struct daemon *daemon;
        uint32_t device;
        uint64_t asked_ns; /* 0: no answer is due */
    } probers[DEVICES_SIMULATED];
    uint32_t active; /* requests that have arrived and are not over */
    bool closing;    /* the drain has begun, or will in the next tick */
    bool ended;
};

/* Starts a daemon and its threads, on which faults begin to happen once it serves. */
void daemon_start(struct daemon *daemon, const struct daemon_traits *traits, uint32_t number);
/* Begins to drain; `ended` is set once the daemon has stopped and has been checked. */
void daemon_drain(struct daemon *daemon);

#endif
