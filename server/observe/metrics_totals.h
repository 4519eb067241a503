/*
 * metrics_totals.h - sums over all shards: of the counters that the history keeps (history.h), and
 * the points of the roofline, which are the floating-point operations, bytes and time of each
 * kernel, by operand type and class of shape.
 *
 * Each length of a shape belongs to the first class whose bound is not less than the length. A
 * thread's table has METRICS_CELLS_MAX cells at most; works that find no cell are not counted in
 * one.
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
    uint64_t client_errors;                    /* answered with another 4xx */
    uint64_t latency[METRICS_LATENCY_BUCKETS]; /* requests that compute, by duration */
    uint64_t stage_ns[METRICS_COMPUTING_OPS][METRICS_STAGE_COUNT];
    uint64_t busy_ns, request_bytes, response_bytes;
    double flops;
};

/* Sets `totals` to the sums over all shards. Any thread; takes no lock. */
void metrics_totals_read(const struct metrics *metrics, struct metrics_totals *totals);

enum { METRICS_CELLS_MAX = 96 };
/* Lengths above the last bound are of one more class. */
enum { METRICS_SHAPE_BOUNDS = 4 };
extern const uint64_t metrics_shape_bounds[METRICS_SHAPE_BOUNDS];

/* Sets the class of each length, 0 ... METRICS_SHAPE_BOUNDS. */
void metrics_shape_classes(const uint64_t lengths[METRICS_SHAPE_LENGTHS],
                           uint8_t classes[METRICS_SHAPE_LENGTHS]);

struct metrics_cell_total {
    const char *kernel; /* static */
    enum metrics_kind task;
    enum gemmd_dtype dtype;
    uint8_t classes[METRICS_SHAPE_LENGTHS]; /* 0 ... METRICS_SHAPE_BOUNDS */
    uint64_t works, busy_ns;
    double flops, bytes;
};

/* Sums the cells of all shards into `totals`. Returns their number. Any thread. */
uint32_t metrics_cells(const struct metrics *metrics,
                       struct metrics_cell_total totals[METRICS_CELLS_MAX]);

/* Upper bound of a bucket of `latency`, in seconds; 0: it has none. */
double metrics_latency_bound_s(uint32_t bucket);
/* "gemm", the name of another operation, "infer", "tensor" or "other"; "receive" ... "send". */
const char *metrics_op_name(enum metrics_op op);
const char *metrics_stage_name(enum metrics_stage stage);

#endif
