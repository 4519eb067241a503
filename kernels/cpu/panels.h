/*
 * panels.h - the layout of operands that microkernels read.
 *
 * A panel holds `width` lines of an operand, line by line side by side: [depth][width], of the
 * accumulator's type, or of elements of 4 bytes that hold some steps of k each (microkernel.h).
 * Panels follow each other. The last one is filled up with any lines, and the last element of a
 * line with zeros.
 *
 * Pure functions, any thread.
 */
#ifndef KERNELS_CPU_PANELS_H
#define KERNELS_CPU_PANELS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/packed.h"

enum {
    PANELS_EXTENT_MAX = 264, /* lines */
    PANELS_DEPTH_MAX = 256   /* elements */
};

/* An operand of which lines are packed. Where a line of memory runs along k, `read` gets the line,
 * the first step of k and the number of steps; otherwise the step of k, the first line and the
 * number of lines. It returns the elements, of size / steps bytes each: in `to`, or where they are.
 */
struct panels_operand {
    const void *(*read)(const void *argument, uint64_t line, uint64_t first, uint64_t count,
                        void *to);
    const void *argument;
    bool along_k;
    uint32_t size;  /* bytes of an element of a panel: 4 or 8 */
    uint32_t steps; /* of k in an element: 1, 2 or 4 */
    uint32_t flip;  /* bits to invert, where an element has more than one step */
};

/* Packs steps first_k to first_k + depth - 1 of k of `extent` lines from `first` on. */
void panels_pack(const struct panels_operand *operand, uint64_t first, uint64_t extent,
                 uint64_t first_k, uint64_t depth, uint64_t width, char *panels);

/* Transposes a matrix of 4-byte elements. Its rows, and those of the result, are some bytes apart.
 */
void panels_transpose(const void *from, uint64_t from_pitch, uint64_t rows, uint64_t columns,
                      void *to, uint64_t to_pitch);

/* Writes steps first_k to first_k + depth - 1 of k of packed weights `b` to one panel of `width`
 * columns from `column` on: each integer less its zero point, or the value of each floating-point
 * number, in f32, without its scale. The steps belong to one group, and first_k and depth are
 * multiples of 16, and column and width of 8. Weights of e2m1 are the exception: the panel may have
 * several groups, and its weights are multiplied by their scales, which is exact.
 * Columns of the panel that B does not have get any finite numbers. */
void panels_unpack(const struct packed_layout *layout, const void *b, uint64_t column,
                   uint64_t first_k, uint64_t depth, uint64_t width, float *panel);
/* Adds `part`, the sums of a group of packed weights `b`, times the group's scales to `sums`: rows
 * of `columns` elements, at most PANELS_EXTENT_MAX, from `column` on; `ld` elements from row to
 * row.
 */
void panels_add_group(const struct packed_layout *layout, const void *b, uint64_t group,
                      uint64_t column, uint64_t columns, uint64_t rows, const float *part,
                      float *sums, uint64_t ld);

#endif
