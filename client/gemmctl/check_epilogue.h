/*
 * check_epilogue.h - what an element of a product or of a convolution has to be, from its sum, and
 * how far it may be away.
 *
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
 */
#ifndef GEMMCTL_CHECK_EPILOGUE_H
#define GEMMCTL_CHECK_EPILOGUE_H

#include "client/gemmctl/check.h"
#include "proto/gemm_request.h"

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

#endif
