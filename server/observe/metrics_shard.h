/*
 * metrics_shard.h - the counters of one thread. Used by metrics*.c only.
 *
 * Every counter has one writer, which therefore needs no atomic read-modify-write operation, and is
 * read by scrapes, which sum the shards. All accesses are relaxed, since counters order no other
 * memory accesses.
 */
#ifndef SERVER_OBSERVE_METRICS_SHARD_H
#define SERVER_OBSERVE_METRICS_SHARD_H

#include <stdatomic.h>
#include <stdint.h>

#include "server/observe/metrics.h"

enum {
    METRICS_TIME_BUCKETS = 16,
    METRICS_LAUNCH_BUCKETS = 11,
    METRICS_BUCKETS_MAX = METRICS_TIME_BUCKETS,
    METRICS_DTYPES = GEMMD_DTYPE_COUNT + 1 /* the last: the dtype is not known */
};

struct metrics_histogram {
    _Atomic uint64_t buckets[METRICS_BUCKETS_MAX + 1]; /* not cumulative; the last is +Inf */
    _Atomic uint64_t sum;                              /* nanoseconds, or requests */
};

struct metrics_shard {
    /* Each shard starts on a cache line of its own, so that threads share none. 128 bytes are two
     * lines, which processors fetch together. */
    _Alignas(128) _Atomic uint64_t requests[METRICS_OP_COUNT][METRICS_DTYPES][GEMMD_ERR_COUNT];
    struct metrics_histogram duration[METRICS_OP_COUNT];
    struct metrics_histogram stages[METRICS_STAGE_COUNT];
    struct metrics_histogram launch_requests; /* gemmd_batch_size */
    _Atomic uint64_t request_bytes, response_bytes, early_copy_bytes, busy_ns;
    _Atomic uint64_t inflated_bodies, inflated_bytes;
    _Atomic uint64_t connections_refused, client_gone, device_errors;
    _Atomic double flops;
};

struct metrics {
    struct metrics_identity identity;
    double start_seconds; /* of the process, since the epoch */
    uint32_t count;
    struct metrics_shard *shards;
};

/* Whether a dtype of an operation has series of its own, since a kernel takes such operands. */
bool metrics_counts_dtype(enum metrics_op op, enum gemmd_dtype dtype);
/* Whether answers with a status are counted by dtype. Answers that concern HTTP and not the
 * computation count under dtype "", so that there are not too many series. */
bool metrics_counts_dtype_of_status(int status);

/* Upper bounds of buckets, in nanoseconds and in requests. */
extern const uint64_t metrics_time_bounds_ns[METRICS_TIME_BUCKETS];
extern const uint64_t metrics_launch_bounds[METRICS_LAUNCH_BUCKETS];

#endif
