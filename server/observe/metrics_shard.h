/*
 * metrics_shard.h - the counters of one thread. Used by metrics*.c only.
 *
 * Every counter has one writer, which therefore needs no atomic read-modify-write, and is
 * read by scrapes, which sum the shards. All accesses are relaxed, since counters order no other
 * memory accesses.
 */
#ifndef SERVER_OBSERVE_METRICS_SHARD_H
#define SERVER_OBSERVE_METRICS_SHARD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "server/observe/metrics_totals.h"

enum {
    METRICS_TIME_BUCKETS = 21,  /* of whole requests */
    METRICS_STAGE_BUCKETS = 15, /* of stages, and of the wait in the queue */
    METRICS_LAUNCH_BUCKETS = 11,
    METRICS_BUCKETS_MAX = METRICS_TIME_BUCKETS,
    METRICS_DTYPES = GEMMD_DTYPE_COUNT + 1, /* the last: the dtype is not known */
    /* Together with all other families, these bounds keep a daemon without tenants and with one GPU
     * at 500 series, with TLS and after failed handovers too. */
    METRICS_WRONG_MAX = 11,    /* kinds of requests that failed with series of their own */
    METRICS_DURATIONS_MAX = 4, /* operations with buckets of durations of their own */
    METRICS_WAITS_MAX = 2,     /* tasks with buckets of waits in the queue of their own */
    METRICS_KERNELS_MAX = 7    /* kernels, by task and dtype, with series of their own */
};

/* Add to a counter; for its one writer. */
static inline void counter_add(_Atomic uint64_t *counter, uint64_t value)
{
    const uint64_t now = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, now + value, memory_order_relaxed);
}
static inline void counter_add_real(_Atomic double *counter, double value)
{
    const double now = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, now + value, memory_order_relaxed);
}

struct metrics_histogram {
    _Atomic uint64_t buckets[METRICS_BUCKETS_MAX + 1]; /* not cumulative; the last is +Inf */
    _Atomic uint64_t sum;                              /* nanoseconds, or requests */
};

/* Works, and what was done for them. */
struct metrics_tally {
    _Atomic uint64_t works, busy_ns;
    _Atomic double flops, bytes;
};

/* The works that one kernel has computed for one task and type. */
struct metrics_kernel {
    const char *name; /* the first three are written before the kernel is counted in kernel_count */
    enum metrics_kind task;
    enum gemmd_dtype dtype;
    struct metrics_tally tally;
};

/* Places of a table of cells, of which METRICS_CELLS_MAX are used at most. */
enum { METRICS_CELL_PLACES = 128 };

/* The works that one kernel has computed for one task, type and class of shape. */
struct metrics_cell {
    atomic_bool used; /* set after the first write of all other fields */
    const char *kernel;
    enum metrics_kind task;
    enum gemmd_dtype dtype;
    uint8_t classes[METRICS_SHAPE_LENGTHS];
    struct metrics_tally tally;
};

/* An exemplar: a traced request that serves as the example of a bucket, of the durations of its
 * operation or of one of its stages. */
struct metrics_exemplar {
    char trace_id[33], span_id[17]; /* "": there is none */
    uint64_t duration_ns;
    double time_seconds; /* since the epoch */
};

struct metrics_shard {
    /* Each shard starts on a cache line of its own, so that threads share none. 128 bytes are two
     * lines, which processors fetch together. */
    _Alignas(128) _Atomic uint64_t requests[METRICS_OP_COUNT][METRICS_DTYPES][GEMMD_ERR_COUNT];
    struct metrics_histogram duration[METRICS_OP_COUNT];
    struct metrics_histogram stages[METRICS_STAGE_COUNT];
    struct metrics_histogram launch_requests; /* gemmd_batch_size */
    struct metrics_histogram queue_wait[METRICS_KIND_COUNT];
    struct metrics_kernel kernels[METRICS_KERNELS_MAX + 1]; /* the last: all others */
    _Atomic uint32_t kernel_count;
    _Atomic uint64_t request_bytes, response_bytes, early_copy_bytes, link_bytes, busy_ns;
    _Atomic uint64_t inflated_bodies, inflated_bytes;
    _Atomic uint64_t connections_refused, client_gone, device_errors;
    _Atomic uint64_t handshakes, failed_handshakes; /* of TLS */
    _Atomic double flops;
    /* Sums over the requests that have ended. */
    _Atomic uint64_t op_stage_ns[METRICS_COMPUTING_OPS][METRICS_STAGE_COUNT];
    /* What was done for each tenant, [tenant_count]; NULL: nothing is counted by tenant. */
    struct metrics_tenant_work {
        _Atomic uint64_t requests, device_ns;
    } * tenant_work;
    uint32_t tenant_count;
    struct metrics_cell cells[METRICS_CELL_PLACES]; /* open addressing */
    uint32_t cell_count;                            /* only the writer uses it */
    struct metrics *metrics;                        /* that has the shard */
};

struct metrics {
    struct metrics_identity identity;
    double start_seconds; /* of the process, since the epoch */
    uint32_t count;
    struct metrics_shard *shards;
    /* Whether a dtype of an operation has series of its own, since a kernel takes such operands;
     * never the last dtype, which is not known. */
    bool counts_dtype[METRICS_OP_COUNT][METRICS_DTYPES];
    /* Whether requests that end with a code are counted by dtype. Answers that concern HTTP and not
     * the computation count under dtype "", so that there are not too many series. */
    bool counts_dtype_of_code[GEMMD_ERR_COUNT];
    uint32_t tenant_count;
    _Atomic uint64_t *tenant_errors; /* [tenant_count][GEMMD_ERR_COUNT]; NULL: none are counted */
    struct metrics_tenant_work *tenant_work; /* of all shards */
    pthread_mutex_t shown_lock;
    /* The series of gemmd_requests that scrapes have shown for requests that failed, which are
     * their places in metrics_shard.requests. */
    uint32_t shown_count, shown[METRICS_WRONG_MAX];
    /* The operations, and the tasks, whose histograms scrapes have shown. */
    struct metrics_shown {
        uint32_t count, list[METRICS_DURATIONS_MAX];
    } shown_durations, shown_waits;
    pthread_mutex_t exemplars_lock;
    struct metrics_exemplar exemplars[METRICS_OP_COUNT][METRICS_TIME_BUCKETS + 1];
    struct metrics_exemplar stage_exemplars[METRICS_STAGE_COUNT][METRICS_STAGE_BUCKETS + 1];
};

/* Upper bounds of buckets, in nanoseconds and in requests. */
extern const uint64_t metrics_time_bounds_ns[METRICS_TIME_BUCKETS];
extern const uint64_t metrics_stage_bounds_ns[METRICS_STAGE_BUCKETS];
extern const uint64_t metrics_launch_bounds[METRICS_LAUNCH_BUCKETS];

/* The figures that Linux reports about this process (metrics_process.c). Any thread. */
struct metrics_process {
    uint64_t cpu_ns;
    uint64_t virtual_bytes, resident_bytes;
    uint64_t threads, open_fds, max_fds;
};

/* Reads the values. A value that cannot be read is 0. */
void metrics_process_read(struct metrics_process *process);
/* The time at which the process started, in seconds since the epoch. */
double metrics_process_start_seconds(void);

#endif
