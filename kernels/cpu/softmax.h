/*
 * softmax.h - one step of the online softmax: a tile's worth of one row's scores becomes weights,
 * against the largest score so far. After M. Milakov and N. Gimelshein, "Online normalizer
 * calculation for softmax" (2018).
 *
 * Pure, any thread. The result depends on the scores and the processor's instruction set only.
 */
#ifndef KERNELS_CPU_SOFTMAX_H
#define KERNELS_CPU_SOFTMAX_H

#include <stdint.h>

enum { SOFTMAX_LANES = 16 };

/* What a row knows of the tiles that it has seen. */
struct softmax_row {
    float most;  /* largest score; minus infinity at first */
    float total; /* sum of exp(score - most) */
};

/* scores[0 ... count - 1] (count a multiple of SOFTMAX_LANES; minus infinity where there is no
 * score) become exp(score - most), the row's `most` and `total` take them in, and what is returned
 * is what sums over the earlier tiles have to be multiplied with. */
float softmax_step(float *scores, uint64_t count, struct softmax_row *row);

#endif
