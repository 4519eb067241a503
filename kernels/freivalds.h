/*
 * freivalds.h - checks a product on the host without computing it again.
 *
 * R. Freivalds, "Probabilistic machines can use less running time" (1977): for a random vector r,
 * C*r must equal alpha*op(A)*(op(B)*r) + beta*C0*r + bias*r. O(m*n + n*k + m*k) a problem. Only for
 * act = none, which callers ensure.
 *
 * Computed in f64 against a bound on what rounding explains. The elements of a row may each be
 * wrong by e[j] <= k*u*(|A||B|)[j] and the rounding to `out`; since the signs of r are drawn after
 * C was computed, |sum of r[j]*e[j]| exceeds 6 times the root of the sum of (r[j]*e[j])^2 with a
 * probability below 2*exp(-18), even if every error were as large as it can be (W. Hoeffding,
 * 1963). So a right result passes, and a row fails once one element is wrong by more than 15
 * times sqrt(n) times the largest error that rounding can make in it. i8 products to i32 are
 * checked exactly modulo 2^32.
 *
 * Rows with a NaN or infinity in the operands must have one in the result. One in the result of
 * finite operands must be explained by overflow. Sums of i8 to f32 that may have wrapped
 * are not judged.
 */
#ifndef KERNELS_FREIVALDS_H
#define KERNELS_FREIVALDS_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/gemm.h"

/* `problem` has host pointers. `*residual` is the largest |difference| / bound over all rows
 * (<= 1 passes; infinite if a NaN or infinity is where none may be, or none where one must be).
 * `seed` chooses r. Allocates O(m + n + k) doubles; GEMMD_ERR_OUT_OF_MEMORY if it can't. */
enum gemmd_error freivalds_check(const struct gemm_problem *problem, uint64_t seed, bool *pass,
                                 double *residual);

#endif
