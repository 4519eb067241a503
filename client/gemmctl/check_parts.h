/*
 * check_parts.h - what the references of --check have in common: how far an element may be away
 * from the expected one, and sums in f64.
 *
 * Products and convolutions:
 * An element x of the result before the activation is right up to
 *
 *     e = (k + 8) u S,   S = |alpha| sum |a b| + |beta c0| + |bias|,
 *
 * where k is the number of terms of the sum, and u is 2^-53 for an accumulator of f64 and 2^-24 for
 * one of f32, as proto/PROTOCOL.md promises. For f64 the reference may be wrong by as much, so that
 * e is twice as large. For precision=tf32, 2.1 * 2^-10 S is added to e, since both operands are cut
 * to 11 bits; for precision=f8, 2^-6 S. For i8 the sum is exact: e is 4 u S for results of f32, 8 u
 * S for sums that are multiplied by scales, and 0 for results of i32. The activation, whose
 * derivative is at most 1.13, makes that 1.13 e + 16 u (|x| + e). Rounding y to the result's type
 * adds half a unit in the last place of y, and half the smallest subnormal number.
 *
 * Reductions and softmaxes:
 * Sums of the references are compensated (Neumaier 1974), so that the references are right to about
 * one rounding of f64. The errors that elements may have are those that PROTOCOL.md promises, and
 * twice as large in f64, because the reference rounds too.
 *
 * A sum over n elements is right up to r u sum |x|, where r = ceil(log2 n) + 8, and one more for
 * each 2^22 elements, and u is 2^-53 for f64 and 2^-24 for the other types. mean and norm2 add 4 u
 * of the result for the division and the root. For logsumexp the terms are exp(d) with
 * d = x - max; they sum up to T, and the result is right up to
 *
 *     u (sum exp(d) (|d| + 4) / T + r + 4 |log T| + 2 |max + log T| + 1).
 *
 * An element y of a softmax is right up to f (y + 2^-126), and of its logarithm up to
 * f (1 + |log y|), with f = (ceil(log2 n) + 24 + 4 s) u, where s is the largest |scale x| of the
 * row. Rounding to the type of the result adds half a unit in the last place. Results of max, min
 * and argmax, and sums of integers, are exact.
 */
#ifndef GEMMCTL_CHECK_PARTS_H
#define GEMMCTL_CHECK_PARTS_H

#include <gemmd/dtypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/gemmctl/check.h"
#include "proto/gemm_request.h"

/* Multiply-adds of a reference, at most: of a larger problem, gemmctl compares rows at equal
 * distances. */
#define CHECK_WORK_MAX 0x1p32

/* Writes `count` elements at `from`, which may have any alignment, to `out`. Element i is read from
 * the place i * stride. */
void widen(enum gemmd_dtype dtype, const void *from, uint64_t stride, uint64_t count, double *out);

/* What rounding to a type costs: `last` is the error of rounding, relative to the number, `least`
 * the same near 0, absolute, and `limit` the largest number. An integer type has no rounding. */
struct check_rounding {
    double last, least, limit;
};
struct check_rounding check_rounding_of(enum gemmd_dtype dtype);

/* Compares the element at index `at` of a result with the expected one, from which the element may
 * differ by `allowed`. An infinity of the right sign is right too if the expected element may reach
 * beyond `limit`, the largest number of the type. */
void check_element(struct check *check, uint64_t at, double found, double expected, double allowed,
                   double limit);

/* The number of rows from one row that is compared to the next, for a reference of `work`
 * multiply-adds. */
uint64_t check_stride(double work);

/* ---- products and convolutions ---- */

struct check_epilogue {
    enum gemmd_dtype dtype, out; /* of the operands and of the result */
    enum gemm_precision precision;
    enum gemm_act act;
    double alpha, beta;
    uint64_t k;      /* number of terms of a sum */
    bool scaled;     /* the sum is multiplied by scales */
    double unit;     /* unit roundoff of the accumulator; this member and those below are set by
                        check_epilogue_settle */
    double relative; /* error of a sum, relative to the magnitudes of its terms */
    struct check_rounding rounding; /* to the result's type */
};

/* The parts of one element. */
struct check_terms {
    double sum, magnitude; /* sum a b, and sum |a b| with the scales, if there are any */
    double factor;         /* by which the sum is multiplied: the scales of row and column, or 1 */
    double c0, bias;       /* what is added; 0: nothing */
};

void check_epilogue_settle(struct check_epilogue *epilogue);
/* Compares the element at index `at` of the result. If the operands of the element have infinities
 * or NaNs, the element is counted as skipped. */
void check_epilogue_compare(const struct check_epilogue *epilogue, struct check *check, uint64_t at,
                            double found, const struct check_terms *terms);

/* ---- reductions and softmaxes ---- */

/* A sum after Neumaier (1974); all zero at first. */
struct check_sum {
    double sum, lost;
};

static inline void check_sum_add(struct check_sum *sum, double value)
{
    const double next = sum->sum + value;
    sum->lost += fabs(sum->sum) >= fabs(value) ? sum->sum - next + value : value - next + sum->sum;
    sum->sum = next;
}

static inline double check_sum_of(const struct check_sum *sum)
{
    return sum->sum + sum->lost;
}

/* The number of levels of a pairwise tree over `count` elements: ceil(log2 count). */
static inline double check_sum_levels(uint64_t count)
{
    return count > 1 ? ceil(log2((double)count)) : 0;
}

/* Whether all numbers are finite. */
static inline bool check_sum_finite(const double *values, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (!isfinite(values[i]))
            return false;
    return true;
}

#endif
