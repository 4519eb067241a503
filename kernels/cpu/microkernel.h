/*
 * microkernel.h - the innermost product: a tile of sums in registers.
 *
 * tile[i][j] += sum over p of a[p][i] * b[p][j], p in ascending order, one chain of fused
 * multiply-adds for each element if the processor has FMA. The shape of the tile depends on the
 * processor; nothing else does. After G. Van Zee and R. van de Geijn, "BLIS: A framework for
 * rapidly instantiating BLAS functionality" (2015).
 */
#ifndef KERNELS_CPU_MICROKERNEL_H
#define KERNELS_CPU_MICROKERNEL_H

#include <gemmd/dtypes.h>
#include <stdint.h>

struct microkernel {
    uint32_t rows, columns; /* of the tile; divisors of MICROKERNEL_ROWS and MICROKERNEL_COLUMNS */
    /* Adds the product to the tile. a: [depth][rows], b: [depth][columns], tile: [rows][ld], all of
     * the accumulator's type. a and b are contiguous. */
    void (*run)(uint64_t depth, const void *a, const void *b, void *tile, uint64_t ld);
};

enum { MICROKERNEL_ROWS = 12, MICROKERNEL_COLUMNS = 32 }; /* multiples of the sizes of every tile */

/* Microkernel number `number` of those that this processor can run, for sums in f64, f32 or i32.
 * Number 0 is the fastest. NULL: there are not as many. Pure, any thread. */
const struct microkernel *microkernel_for(enum gemmd_dtype accumulator, uint32_t number);

#endif
