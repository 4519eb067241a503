/*
 * microkernel.h - the innermost product: a tile of sums held in registers.
 *
 * tile[i][j] += sum over p of a[p][i] * b[p][j], p in ascending order, one chain of fused
 * multiply-adds an element where the processor has them. The shape of the tile is the
 * processor's; nothing else depends on it. After G. Van Zee and R. van de Geijn, "BLIS: A framework
 * for rapidly instantiating BLAS functionality" (2015).
 */
#ifndef KERNELS_CPU_MICROKERNEL_H
#define KERNELS_CPU_MICROKERNEL_H

#include <gemmd/dtypes.h>
#include <stdint.h>

struct microkernel {
    uint32_t rows, columns; /* of the tile; they divide MICROKERNEL_ROWS and _COLUMNS */
    /* a: [depth][rows], b: [depth][columns], tile: [rows][ld], all of the accumulator's type and
     * contiguous but for the tile's rows. */
    void (*run)(uint64_t depth, const void *a, const void *b, void *tile, uint64_t ld);
};

enum { MICROKERNEL_ROWS = 12, MICROKERNEL_COLUMNS = 32 }; /* multiples of every tile's */

/* Those that this processor can run for sums in f64, f32 or i32, the fastest (number 0) first; NULL
 * after the last. Pure, any thread. */
const struct microkernel *microkernel_for(enum gemmd_dtype accumulator, uint32_t number);

#endif
