/*
 * attention_sample.h - random attentions for testing kernels with, and whether a kernel's result is
 * right.
 *
 * Every operand lies in a buffer with guard zones before and after it and, if asked for, gaps
 * between its rows, which hold NaN, so that reading one shows in the result. Those of O and lse
 * must come back as they were.
 *
 * Right is: no more than twice the error against f64 that the three steps make in f32, one term
 * after another, by multiply-adds that are fused or not, and a rounding to the result's type (two
 * for types of 16 bits, which the f32 result is spared). An lse may besides be off by what f32 can
 * hold of it and of its terms, a few units in the last place.
 */
#ifndef TESTS_PRODUCT_ATTENTION_SAMPLE_H
#define TESTS_PRODUCT_ATTENTION_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/attention.h"
#include "tests/product/product.h"

enum attention_part {
    ATTENTION_Q,
    ATTENTION_K,
    ATTENTION_V,
    ATTENTION_O,
    ATTENTION_LSE,
    ATTENTION_PARTS
};

struct attention_sample {
    struct attention_problem
        problem; /* pointing into the buffers; lengths, mask, slopes and sinks are the caller's */
    struct product_buffer buffers[ATTENTION_PARTS];
    uint64_t rows;             /* of O, in all heads of all entries */
    double *exact, *exact_lse; /* [rows][dv], [rows] */
    float *same, *same_lse;    /* likewise in f32, the worse of the two */
};

/* What is wanted of an attention that is not ragged: types, sizes, masks, scale and lengths are
 * taken from `like`, the strides from the layout, with `gap` elements between rows. PRODUCT_SPECIAL
 * has some NaN and infinities in each operand. PRODUCT_EXTREME is for large scales: elements of Q
 * and K have so few digits that products are exact, and scores are equal or differ by a sixteenth
 * of the scale. Rows of Q, K and V beyond the lengths are NaN. False: out of memory. */
bool attention_sample_create(struct attention_sample *sample, const struct attention_problem *like,
                             enum attention_layout layout, uint64_t gap, enum product_fill fill,
                             uint64_t seed);
void attention_sample_destroy(struct attention_sample *sample);

/* Gives `like` a mask of type `dtype`, with rows for all entries, heads and queries (bits 0 to 2 of
 * `sizes`) or for one of each. The mask hides one key of three, and all keys from the eleventh
 * query. Returns the mask, which the caller frees; NULL if memory is lacking. */
void *attention_sample_mask(struct attention_problem *like, enum gemmd_dtype dtype, unsigned sizes,
                            uint64_t seed);

/* Fills O and lse and all around them with what no attention of random numbers is. */
void attention_sample_poison(struct attention_sample *sample);

/* Whether O and lse are right, lse if the problem has it, and nothing around them was written. On a
 * fault, says it in `text`. `*worst`, if not NULL, is raised to the largest error of O / what is
 * allowed. */
bool attention_sample_check(const struct attention_sample *sample, double *worst, char *text,
                            uint64_t size);

/* "f16, 2 entries, 4 heads of 2, 113 x 203, d 40, dv 24, causal, window 33, ..." */
void attention_describe(const struct attention_problem *problem, char *text, uint64_t size);

#endif
