/*
 * panels.h - the layout of operands that microkernels read.
 *
 * A panel holds `width` lines of an operand, line by line side by side: [depth][width], of the
 * accumulator's type. Panels follow each other; the last one is filled up with zeros.
 *
 * Pure functions, any thread.
 */
#ifndef KERNELS_CPU_PANELS_H
#define KERNELS_CPU_PANELS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    PANELS_EXTENT_MAX = 256, /* lines */
    PANELS_DEPTH_MAX = 256
};

/* An operand of which lines are packed. Where a line of memory runs along k, `read` gets the line,
 * the first step of k and the number of steps; otherwise the step of k, the first line and the
 * number of lines. It returns the elements, widened to the accumulator's type: in `to`, or where
 * they are. */
struct panels_operand {
    const void *(*read)(const void *argument, uint64_t line, uint64_t first, uint64_t count,
                        void *to);
    const void *argument;
    bool along_k;
    uint32_t size; /* bytes of the accumulator's type: 4 or 8 */
};

/* Packs steps first_k to first_k + depth - 1 of `extent` lines from `first` on. */
void panels_pack(const struct panels_operand *operand, uint64_t first, uint64_t extent,
                 uint64_t first_k, uint64_t depth, uint64_t width, char *panels);

#endif
