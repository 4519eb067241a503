/*
 * softmax.h - the problems of the operation `softmax` (operation.h):
 *
 *   Y = exp(s - most) / sum exp(s - most),  s = scale * X, most = max s,  or the logarithm of that
 *
 * over the rows of X. Row r has the length lens[r / rows_per_len], or `length` without lengths.
 * Elements from there on are masked: they are not read, and Y is 0 there (minus infinity if `log`).
 *
 * s - most and the sum are computed in f32 (f64 if X is f64), and Y is rounded once to `out`. A row
 * with a NaN or plus infinity, or with minus infinity only, is NaN, as IEEE arithmetic gives for
 * the formula. The bits of a row depend on the row, its length, the types and the kernel only. An
 * element of Y is within softmax_error * (y + 2^-126) of the exact value y, and log(Y) is within
 * softmax_error * (1 + |log(y)|). In f64 the error is 2^-29 times as large. Then follows one
 * rounding to `out`.
 */
#ifndef KERNELS_SOFTMAX_H
#define KERNELS_SOFTMAX_H

#include <gemmd/dtypes.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/operation.h"
#include "proto/softmax_request.h"

struct softmax_problem {
    enum gemmd_dtype dtype, out;
    bool log;
    double scale;
    uint64_t rows, length;
    uint64_t x_leading, y_leading; /* elements from row to row */
    const int32_t *lens;           /* NULL: every row has `length` */
    uint64_t rows_per_len;
    const void *x;
    void *y;
};
enum softmax_part_number { SOFTMAX_PART_LENS, SOFTMAX_PART_X, SOFTMAX_PART_Y };

/* Describes the softmax of contiguous rows. The pointers are NULL. `lens`: the number of leading
 * dimensions that have lengths. */
void softmax_problem_of(struct softmax_problem *problem, const struct array_shape *shape,
                        uint32_t lens);
/* The length of a row. The memory of `lens` must be readable by the caller. */
static inline uint64_t softmax_length(const struct softmax_problem *problem, uint64_t row)
{
    return problem->lens != NULL ? (uint64_t)problem->lens[row / problem->rows_per_len]
                                 : problem->length;
}
/* Whether the protocol offers the types of the problem. A `takes`. */
bool softmax_problem_offered(const void *problem);
/* The scale of a softmax as a product. The kernels compute (unit * x - unit * the greatest) *
 * factor, which makes the errors of a difference and of a product, however large the elements are.
 * `unit` is 1 or -1, so that the greatest unit * x has the greatest score. It is 0.5 or -0.5 if
 * |scale| is less than 1, because a difference of two elements may then be out of range where its
 * product with the scale is not. For a scale of 0 the unit is 0 and the factor 1. */
struct softmax_scale {
    double unit, factor; /* the factor is greater than 0; f32 holds both if it holds the scale */
};
struct softmax_scale softmax_scale(double scale);
/* The bound of errors, of which an element has the less of two. Both count the errors of the sum,
 * of the exponential and the division, and of the scores relative to the greatest:
 *   (ceil(log2(length)) + 24 + 4 * largest) * 2^-24, where no |s| is greater than `largest`;
 *   (4 * ceil(log2(length)) + 24 + 4 * |log_y|) * 2^-24, because the score of an element is at
 * most |log_y| less than the greatest. */
double softmax_error(uint64_t length, double largest, double log_y);

#endif
