/*
 * reduce.h - the problems of the operation `reduce` (operation.h): an array reduced over one axis.
 *
 * X has four dimensions: `outer`, `mid`, the reduced `length`, and `width`, whose elements are
 * contiguous. Element (o, m, l, c) lies at o * outer_stride + m * mid_stride + l * length_stride +
 * c. If the last axis of an array is reduced, `width` and length_stride are 1, and the rows are
 * `outer`. Otherwise `width` is the last dimension, or the product of all dimensions behind the
 * axis where the rows of X have no gaps. Element i = (o * mid + m) * width + c of Y lies at i /
 * y_width * y_leading + i % y_width.
 *
 * Sums of f32, f16 and bf16 are computed in f32 (in f64 by the naive kernels). Their error is at
 * most reduce_sum_roundings(length) * 2^-24 * sum |x|, and then one rounding to `out`. The order of
 * a sum depends on the length, the type and the kernel only. Sums of f64 are computed in f64, with
 * the same number of roundings of 2^-53. Sums of integers are computed in 64-bit integers and are
 * exact; as i32 they wrap modulo 2^32. mean is the sum divided by the length, and norm2 the square
 * root of the sum of squares. Where a square or a sum of squares, and on the CPU any sum, is out of
 * range or subnormal, the elements are scaled by a power of two: a result is infinite only if it is
 * out of range itself. logsumexp is max + log(sum exp(x - max)), and is minus infinity if all
 * elements are minus infinity.
 *
 * NaN: every result over elements of which one is NaN is NaN. argmax is the index of the first
 * greatest element, and of the first NaN if there is one. -0 and +0 are equal; max and min give
 * either of them.
 */
#ifndef KERNELS_REDUCE_H
#define KERNELS_REDUCE_H

#include <gemmd/dtypes.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/operation.h"
#include "proto/reduce_request.h"

struct reduce_problem {
    enum reduce_op op;
    enum gemmd_dtype dtype, out;
    uint64_t outer, mid, length, width;
    uint64_t outer_stride, mid_stride, length_stride; /* elements */
    const void *x;
    void *y;
    uint64_t y_width, y_leading; /* elements */
};
enum reduce_part_number { REDUCE_PART_X, REDUCE_PART_Y };

/* Describes the reduction of an array over `axis`. The rows of its last dimension are `leading`
 * elements apart; `y_width` and `y_leading` are those of the result. The pointers are NULL. */
void reduce_problem_of(struct reduce_problem *problem, const struct array_shape *shape,
                       uint32_t axis, uint64_t leading);
/* The number of elements of Y. */
uint64_t reduce_results(const struct reduce_problem *problem);
/* Whether the elements of each result are contiguous. */
bool reduce_is_of_rows(const struct reduce_problem *problem);
/* Whether the protocol offers the types of the problem. A `takes`. */
bool reduce_problem_offered(const void *problem);
/* The number of roundings that bounds the error of a sum: ceil(log2(length)) + 8, and one more for
 * each 2^22 elements. */
double reduce_sum_roundings(uint64_t length);

#endif
