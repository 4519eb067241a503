/*
 * cpu_softmax.h - one step of the online softmax: the scores of one row in one tile become weights,
 * relative to the largest score so far. After M. Milakov and N. Gimelshein, "Online normalizer
 * calculation for softmax" (2018).
 *
 * Pure, any thread. The result depends on the scores and the processor's instruction set only.
 */
#ifndef KERNELS_CPU_CPU_SOFTMAX_H
#define KERNELS_CPU_CPU_SOFTMAX_H

#include <stdint.h>

enum { SOFTMAX_LANES = 16 };

/* The state of a row after the tiles that were processed so far. */
struct softmax_row {
    float scale; /* of all scores, greater than 0 */
    float most;  /* largest score; initially minus infinity */
    float total; /* sum of exp((score - most) * scale) */
};

/* Computes the weights exp((unit * score - most) * scale) of scores[0] to scores[count - 1], which
 * the weights may replace, and updates the row; `most` is the largest unit * score. Masked scores
 * times `unit` are minus infinity; `unit` is a power of two, negative or not, or 0. `count` is a
 * multiple of SOFTMAX_LANES. Returns the factor by which sums over earlier tiles have to be
 * multiplied. */
float softmax_step(const float *scores, float unit, float *weights, uint64_t count,
                   struct softmax_row *row);

/* Writes weights[0] / sum to weights[count - 1] / sum to `to`, which may be `weights`. */
void softmax_divide(const float *weights, float sum, uint64_t count, float *to);

#endif
