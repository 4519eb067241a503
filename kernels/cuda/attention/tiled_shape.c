/* The shared memory of the kernel of tiled.cuh, for the launches (tiled_launch.cuh) and for the
 * choice of a shape (tiled.c). */
#include "kernels/cuda/attention/tiled.h"

/* The columns of O of the narrowest kernel for values of width dv. */
static uint64_t attention_tiled_columns(enum attention_tiled_rows rows, uint64_t dv)
{
    static const uint64_t widths[ATTENTION_TILED_ROWS][5] = {{64, 128, 256},
                                                             {64, 96, 128, 192, 256}};
    const uint64_t *width = widths[rows];
    while (*width < dv)
        width++;
    return *width;
}

uint64_t attention_tiled_bytes(enum attention_tiled_rows rows, uint64_t d, uint64_t dv)
{
    const uint64_t tile = rows == ATTENTION_TILED_MANY ? 128 : 32, depth = (d + 3) / 4 * 4;
    const uint64_t q = tile * depth, k = ATTENTION_TILED_KEYS * depth;
    const uint64_t v = ATTENTION_TILED_KEYS * attention_tiled_columns(rows, dv);
    const uint64_t weights = ATTENTION_TILED_KEYS * tile, spans = tile * 2;
    uint64_t keys_and_weights = k + weights;
    if (rows == ATTENTION_TILED_FEW) /* the weights overwrite the keys */
        keys_and_weights = k > weights ? k : weights;
    return (q + keys_and_weights + v + spans) * 4;
}
