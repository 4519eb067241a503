/*
 * conv_window.h - a part of X as the kernel `implicit` reads it.
 *
 * A window is an image of X, or a copy of some of its rows: with the padding as zeros, with
 * elements of the type of the sums, and with the channels of a pixel next to each other. All
 * distances are in elements. Pure functions, any thread.
 */
#ifndef KERNELS_CPU_CONV_WINDOW_H
#define KERNELS_CPU_CONV_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/conv.h"

enum { CONV_WINDOW_ELEMENT = 4 /* bytes, those of an accumulator */ };

struct conv_window {
    bool in_place;          /* an image of X */
    bool in_blocks;         /* a plane for each block of channels; otherwise one for all channels */
    bool is_joined;         /* the rows follow each other in a channel of X as in the window */
    uint64_t out_rows;      /* the rows of Y that a window is for, but the last one of an image */
    uint64_t of_image;      /* windows of an image */
    uint64_t rows, columns; /* of a window */
    uint64_t channels;      /* of a block, or of a group */
    uint64_t blocks;        /* of channels of a group */
    uint64_t pixel;         /* from one column to the next */
    uint64_t row, plane;    /* from one row to the next, and from one block to the next */
    uint64_t group;         /* from the first channel of a group to that of the next */
    uint64_t step_h, step_w; /* rows and columns from one pixel of Y to the next */
    uint64_t unit_h, unit_w; /* rows and columns of X from one of the window's to the next */
    uint64_t bytes;          /* of a copy */
};

/* Returns false if the windows of the problem would be too large, or Y has no rows. The windows do
 * not depend on the batch. */
bool conv_window_of(const struct conv_problem *problem, struct conv_window *window);

/* The distance from the first element that a pixel of Y needs to the one of step `k` of the sum:
 * over channels, r and s in NCHW, and over r, s and channels in NHWC. */
uint32_t conv_window_offset(const struct conv_problem *problem, const struct conv_window *window,
                            uint64_t k);

/* The parts in which a window is copied. */
uint64_t conv_window_parts(const struct conv_problem *problem, const struct conv_window *window);

/* Copies part number `part` of window number `number` of the batch. */
void conv_window_copy(const struct conv_problem *problem, const struct conv_window *window,
                      uint64_t number, uint64_t part, char *to);

#endif
