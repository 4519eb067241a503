/*
 * freivalds.h - checks a product on the host without computing it again.
 *
 * R. Freivalds, "Probabilistic machines can use less running time" (1977): for a random vector r,
 * C*r must equal alpha*op(A)*(op(B)*r) + beta*C0*r + bias*r. The check takes O(m*n + n*k + m*k)
 * steps for each problem of a batch. The caller ensures that `act` is none.
 *
 * The check computes in f64 and compares the difference with a bound on the rounding errors. Each
 * element of a row may have an error of e[j] <= k*u*(|A||B|)[j], plus the rounding to `out`. The
 * signs of r are drawn after C was computed, so |sum of r[j]*e[j]| exceeds 6 times the root of the
 * sum of (r[j]*e[j])^2 with a probability below 2*exp(-18), even if every error is as large as
 * possible (W. Hoeffding, 1963). A correct result therefore passes. A row fails if one element has
 * an error of more than 15 times sqrt(n) times the largest possible rounding error of an element of
 * the row, to which the check adds its own rounding in f64. i8 products to i32 are checked exactly
 * modulo 2^32.
 *
 * A row with a NaN or infinity in the operands must have a NaN or infinity in the result. A NaN or
 * infinity in the result of finite operands must be explained by overflow. Sums of i8 to f32 that
 * may have wrapped are not checked.
 */
#ifndef KERNELS_FREIVALDS_H
#define KERNELS_FREIVALDS_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/gemm.h"

/* Checks the result of `problem`, which has host pointers. `*residual` is the largest
 * |difference| / bound over all rows. A residual up to 1 passes. The residual is infinite if the
 * result has a NaN or infinity where it must have none, or lacks one where it must have one. `seed`
 * chooses r. Allocates O(m + n + k) doubles; returns GEMMD_ERR_OUT_OF_MEMORY if that fails. */
enum gemmd_error freivalds_check(const struct gemm_problem *problem, uint64_t seed, bool *pass,
                                 double *residual);

#endif
