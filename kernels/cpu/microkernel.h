/*
 * microkernel.h - the innermost sums of products, in registers.
 *
 * Each sum is one chain of multiply-adds in ascending order, fused if the processor has FMA. The
 * number of sums that are computed together depends on the processor; nothing else does. After G.
 * Van Zee and R. van de Geijn, "BLIS: A framework for rapidly instantiating BLAS functionality"
 * (2015).
 */
#ifndef KERNELS_CPU_MICROKERNEL_H
#define KERNELS_CPU_MICROKERNEL_H

#include <gemmd/dtypes.h>
#include <stdbool.h>
#include <stdint.h>

struct microkernel {
    uint32_t rows, columns; /* of the tile; divisors of MICROKERNEL_ROWS and MICROKERNEL_COLUMNS */
    /* The steps of k that an element of a panel holds: 1, or as many as fit in 32 bits: 4 of i8, or
     * 2 of i16 (i8 that are widened) or bf16, the first one in the lowest bits. */
    uint32_t steps;
    uint32_t flip; /* bits of B that are inverted in panels */
    /* Adds a product to the tile: tile[i][j] += sum over p of a[p][i] * b[p][j]. a: [depth][rows],
     * b: [depth][columns], tile: [rows][ld], all of the accumulator's type. a and b are contiguous.
     * Only the first `used` rows of the tile, 1 or more, are needed; the others may be skipped. */
    void (*run)(uint64_t depth, const void *a, const void *b, void *tile, uint64_t ld,
                uint64_t used);
    /* The same where operands, products or sums may be subnormal, which `run` takes for zero. NULL:
     * `run` computes with subnormal numbers. */
    void (*run_tiny)(uint64_t depth, const void *a, const void *b, void *tile, uint64_t ld,
                     uint64_t used);
    /* Adds a product to the first `rows` rows, at most those of the tile, of a part of C, where B
     * is not in panels: `depth` times `steps` rows of b are read, which are b_ld elements of B
     * apart. The other arguments, and the bits, are those of `run`. Returns how many of the
     * `columns` columns are computed; the others need panels. run_few_f16: B is in f16. NULL: all
     * columns need panels. */
    uint64_t (*run_few)(uint64_t depth, const void *a, const void *b, uint64_t b_ld, void *c,
                        uint64_t ld, uint64_t rows, uint64_t columns);
    uint64_t (*run_few_f16)(uint64_t depth, const void *a, const void *b, uint64_t b_ld, void *c,
                            uint64_t ld, uint64_t rows, uint64_t columns);
    /* Computes a tile of operands that are not in panels: a[p][i] is the element number offsets[p]
     * of lines[i], and the rows of b are b_ld elements apart. The sums are added to the tile if
     * `adds`. lines: [rows], each of which may be read, as may the whole rows of b. Only the first
     * `used` rows and `columns_used` columns of the tile are needed. */
    void (*run_lines)(uint64_t depth, const void *const lines[], const uint32_t offsets[],
                      const void *b, uint64_t b_ld, void *tile, uint64_t ld, uint64_t used,
                      uint64_t columns_used, bool adds);
    /* Computes `count` vectors of sums, of columns / 2 elements each: vector number i, at
     * to + i * to_step, is the sum over t of weights[t] and the vector at
     * from + i * from_step + offsets[t]. weights: [taps][columns / 2]. Offsets and steps are in
     * bytes. */
    void (*sum_taps)(uint64_t taps, const uint32_t offsets[], const void *weights, const char *from,
                     uint64_t from_step, char *to, uint64_t to_step, uint64_t count);
};

/* run_lines writes only the first columns / MICROKERNEL_PARTS columns if no others are needed. */
#ifdef __clang__ /* fuses multiply-adds in one of several calls and not in another */
enum { MICROKERNEL_PARTS = 1 };
#else
enum { MICROKERNEL_PARTS = 2 };
#endif

enum { MICROKERNEL_ROWS = 12, MICROKERNEL_COLUMNS = 32 }; /* multiples of the sizes of every tile */

/* Microkernel number `number` of those that this processor can run, for sums in f64, f32 or i32.
 * Number 0 is the fastest. NULL: there are not as many. Pure, any thread. */
const struct microkernel *microkernel_for(enum gemmd_dtype accumulator, uint32_t number);

/* Microkernel number `number` of this processor for operands of i8 or bf16 in panels whose elements
 * hold some steps of k; its run_lines and sum_taps are NULL. The sum of two steps of bf16 is a
 * chain too, of the second step and then the first, in processors that compute one after the other.
 * NULL: there are not as many. Pure, any thread. */
const struct microkernel *microkernel_narrow(enum gemmd_dtype dtype, uint32_t number);

#endif
