/*
 * metrics_cells.h - the points of the roofline: the operations, bytes and time of each kernel, by
 * operand type and class of shape.
 *
 * Each length of a shape (m, n and k of a product; of other operations operation->lengths) belongs
 * to the first class whose bound is not less than the length. A thread's table has
 * METRICS_CELLS_MAX cells at most; works that find no cell are not counted here.
 */
#ifndef SERVER_OBSERVE_METRICS_CELLS_H
#define SERVER_OBSERVE_METRICS_CELLS_H

#include "server/observe/metrics.h"

enum { METRICS_CELLS_MAX = 96, METRICS_SHAPE_LENGTHS = 3 };
/* Lengths above the last bound are of one more class. */
enum { METRICS_SHAPE_BOUNDS = 4 };
extern const uint64_t metrics_shape_bounds[METRICS_SHAPE_BOUNDS];

struct metrics_cell_total {
    const char *kernel; /* static */
    enum metrics_task task;
    enum gemmd_dtype dtype;
    uint8_t classes[METRICS_SHAPE_LENGTHS]; /* 0 ... METRICS_SHAPE_BOUNDS */
    uint64_t works, busy_ns;
    double flops, bytes;
};

/* Counts a work in the cell of its kernel and shape. Called by the shard's writer only. */
void metrics_cell(struct metrics_shard *shard, const struct metrics_work *work,
                  const uint64_t lengths[METRICS_SHAPE_LENGTHS]);
/* Sums the cells of all shards into `totals`. Returns their number. Any thread. */
uint32_t metrics_cells(const struct metrics *metrics,
                       struct metrics_cell_total totals[METRICS_CELLS_MAX]);

#endif
