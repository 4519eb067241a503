/*
 * metrics_totals.h - sums over all shards of the counters that the history keeps (history.h).
 */
#ifndef SERVER_OBSERVE_METRICS_TOTALS_H
#define SERVER_OBSERVE_METRICS_TOTALS_H

#include "server/observe/metrics.h"

enum {
    METRICS_COMPUTING_OPS = METRICS_OP_INFER + 1, /* all operations, and infer */
    METRICS_LATENCY_BUCKETS = 22                  /* the last is of all longer requests */
};

/* All numbers are since the start. */
struct metrics_totals {
    uint64_t requests[METRICS_OP_COUNT];
    uint64_t refused, failed;                  /* answered with 429, and with 5xx */
    uint64_t latency[METRICS_LATENCY_BUCKETS]; /* requests that compute, by duration */
    uint64_t stage_ns[METRICS_COMPUTING_OPS][METRICS_STAGE_COUNT];
    uint64_t busy_ns, request_bytes, response_bytes;
    double flops;
};

/* Sets `totals` to the sums over all shards. Any thread; takes no lock. */
void metrics_totals_read(const struct metrics *metrics, struct metrics_totals *totals);
/* Upper bound of a bucket of `latency`, in seconds; 0: it has none. */
double metrics_latency_bound_s(uint32_t bucket);
/* "gemm", the name of another operation, "infer", "tensor" or "other"; "receive" ... "send". */
const char *metrics_op_name(enum metrics_op op);
const char *metrics_stage_name(enum metrics_stage stage);

#endif
