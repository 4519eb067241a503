/*
 * check.h - compares a product with a reference that is computed here, with sums in f64.
 *
 * An element x of the result before the activation is right up to
 *
 *     e = (k + 8) u S,   S = |alpha| sum |a b| + |beta c0| + |bias|,
 *
 * where u is 2^-53 for an accumulator of f64 and 2^-24 for one of f32: PROTOCOL.md promises it. For
 * f64 the reference may be wrong by as much, so that e is twice as large. For precision=tf32, 2.1 *
 * 2^-10 S is added to e, since both operands are cut to 11 bits; for precision=f8, 2^-6 S. For i8
 * the sum is exact: e is 4 u S for results of f32, and 0 for results of i32. The activation, whose
 * derivative is at most 1.13, makes that 1.13 e + 16 u (|x| + e). Rounding y to the result's type
 * adds half a unit in the last place of y, and half the smallest subnormal number.
 */
#ifndef GEMMCTL_CHECK_H
#define GEMMCTL_CHECK_H

#include "client/gemmctl/progress.h"
#include "proto/gemm_request.h"

struct check {
    uint64_t rows, rows_checked;   /* of all problems of the batch */
    uint64_t elements, wrong;      /* elements compared, and those of them that are wrong */
    uint64_t skipped;              /* elements whose operands have infinities or NaNs */
    double largest;                /* largest error, as a fraction of what is allowed */
    uint64_t problem, row, column; /* the first wrong element */
    double found, expected, allowed;
};

/* Compares the result `c` of a request with bound operands, none of which is resident. If the
 * product has more than 2^32 multiply-adds, only rows at equal distances are compared, so many that
 * they have about 2^32 multiply-adds, and at least one. Stops early if the user interrupts.
 * GEMMD_ERR_OUT_OF_MEMORY, or GEMMD_ERR_CANCELLED. */
enum gemmd_error check_product(const struct gemm_request *request,
                               const struct gemm_operands *operands, const void *c,
                               struct progress_line *line, struct check *check);

#endif
