/*
 * executor.h - an executor, which is one device with its queue, early copies and dispatch thread;
 * and the choice of the executor that computes a request.
 *
 * A request is given to an executor when the request is admitted, before it takes device memory
 * (executor_place). The chosen executor is the one that will be done first with the requests that
 * it has been given and with copying the resident operands that its device lacks. The executor
 * counts the estimated time of each request until the request's work has ended (executor_charge),
 * so that requests whose bodies are still arriving count too.
 *
 * The executors are created and closed by the thread that starts the daemon. The functions that
 * place and charge may be called from any thread.
 */
#ifndef SERVER_SCHEDULER_EXECUTOR_H
#define SERVER_SCHEDULER_EXECUTOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/device/device.h"
#include "server/device/device_open.h"
#include "server/scheduler/dispatch.h"
#include "server/scheduler/early_copy.h"
#include "server/scheduler/queue.h"

struct executor {
    struct device *device;
    struct queue *queue;
    struct early_copy *early_copy; /* NULL: the device does not copy early */
    struct dispatch *dispatch;
    const struct metrics_shard *shard; /* of the dispatch thread; borrowed */
    /* The estimated time of the requests that were charged and have not ended. On a cache line of
     * its own, since all I/O threads write to it. */
    _Alignas(64) atomic_uint_fast64_t charged_ns;
};

struct executors {
    uint32_t count;
    struct executor list[DEVICES_MAX]; /* in the order of --devices */
};

struct executor_settings {
    struct admission *admission; /* of all queues; borrowed */
    uint32_t tenants;            /* as for queue_create */
    struct pool *pool;           /* borrowed */
    uint32_t max_launch_works;   /* as for dispatch_start */
    uint32_t busy_poll_us;       /* as for dispatch_start */
    uint64_t stall_ns;           /* as for dispatch_set_stall_limit */
};

/* Creates the queue and the early copies of an executor whose device is open. */
enum gemmd_error executor_open(struct executor *executor, const struct executor_settings *settings,
                               struct fault *fault);
/* Starts the dispatch thread, which alone writes to `shard`, and warms the executor up. */
enum gemmd_error executor_start(struct executor *executor, const struct executor_settings *settings,
                                struct metrics_shard *shard, struct fault *fault);
/* Runs one product in a shared launch and one in a launch of its own, as far as the device has such
 * launches, from the queue through the dispatch thread to the device and back. The self-test has
 * run every kernel before. The warm-up makes the dispatch thread launch for the first time, and the
 * device use the pool's memory for the first time. Metrics do not count the products. Called once,
 * by the thread that starts the daemon, while the queue's dispatch thread runs.
 * GEMMD_ERR_DEVICE_LOST: a product did not end within 20 seconds, or its result is wrong. The
 * memory of a product that did not end may still be in use, and is never freed. */
enum gemmd_error executor_warm_up(struct device *device, struct queue *queue, struct pool *pool,
                                  struct fault *fault);
/* Refuses new reservations from now on (queue_close). */
void executors_refuse(struct executors *executors);
/* Ends works whose deadline has passed (queue_expire), and answers the callers of probes whose time
 * is over (dispatch_expire_probes). Called by a timer. */
void executors_expire(struct executors *executors, uint64_t now_ns);
/* Looks whether a device has stalled (dispatch_look). Called by a timer, several times a second. */
void executors_look(struct executors *executors, uint64_t now_ns);
/* Ends all works with GEMMD_ERR_DRAINING, and the dispatch threads. Returns false if a device still
 * computes after `patience_ns` (dispatch_end). Other threads may still read the executors. */
bool executors_stop(struct executors *executors, uint64_t patience_ns);
/* Frees everything except the devices. Called after executors_stop has returned true, when no
 * thread reads the executors any more. */
void executors_destroy(struct executors *executors);
/* Closes the devices. All ranges of their memory must have been freed. */
void executors_close_devices(struct executors *executors);

/* Whether every device is lost, so that nothing can be computed. */
bool executors_are_lost(const struct executors *executors);
/* How many devices are neither lost nor stalled. */
uint32_t executors_usable(const struct executors *executors);
/* Makes a reservation as queue_admit does, for a request whose executor is not chosen yet. */
enum gemmd_error executors_admit(struct executors *executors, uint32_t tenant, uint64_t bytes,
                                 struct reservation *reservation, struct fault *fault);

/* The place of an executor in the list. */
static inline uint32_t executors_number(const struct executors *executors,
                                        const struct executor *executor)
{
    return (uint32_t)(executor - executors->list);
}

/* The load of a request on a device, as far as the load is known. */
struct executor_load {
    enum gemmd_dtype dtype;
    double flops;        /* multiplications and additions */
    uint64_t host_bytes; /* copied to the device and from the device */
};
/* The estimated time of a load on a device, in nanoseconds. */
uint64_t executor_estimate_ns(const struct executor *executor, const struct executor_load *load);
/* The time until an executor can begin with a request that is placed now, in nanoseconds: the time
 * that the executor was charged, and the time to copy `missing` bytes from another device.
 * UINT64_MAX: never, because the device is lost or `missing` is UINT64_MAX. */
uint64_t executor_ready_ns(const struct executor *executor, uint64_t missing);
/* The executor that will be done first with the time that it was charged and with copying
 * missing[i] bytes from another device. missing[i] is UINT64_MAX: executor i must not be chosen.
 * `missing` is NULL: nothing has to be copied. Among equals the first in the list is chosen. A lost
 * device is chosen only if there is no other. */
struct executor *executor_place(struct executors *executors, const uint64_t missing[]);
/* Adds `ns` to the time that an executor was charged, or subtracts `ns` from it. */
void executor_charge(struct executor *executor, uint64_t ns);
void executor_discharge(struct executor *executor, uint64_t ns);

/* --- One computation that is divided over several devices, so that all devices are done at the
 * same time. Pure functions, any thread. */

/* A computation of equal units. A device computes one unit after another. */
struct device_shares {
    uint32_t count;           /* of devices */
    const uint64_t *ready_ns; /* when each can begin; UINT64_MAX: the device takes no part */
    uint64_t units;
    double unit_ns; /* how long a device takes for a unit; more than 0 */
};

/* Divides the units: shares[i] is the number of units of device i; 0 if the other devices are done
 * before device i can begin. The shares add up to all units. Returns the time at which the last
 * device is done; UINT64_MAX: no device takes part, and every share is 0. */
uint64_t device_shares_divide(const struct device_shares *all, uint64_t shares[]);
/* The time at which the computation is done if the device that is ready first takes all of it;
 * UINT64_MAX: no device takes part. */
uint64_t device_shares_alone(const struct device_shares *all);

#endif
