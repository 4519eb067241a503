/*
 * freivalds.h - checks a product on the host without computing it again.
 *
 * R. Freivalds, "Probabilistic machines can use less running time" (1977): for a random
 * vector r, C*r must equal alpha*op(A)*(op(B)*r) + beta*C0*r + bias*r. O(m*n + n*k + m*k) a
 * problem. Computed in f64 against a rounding-error bound; i8 products to i32 are checked exactly
 * modulo 2^32. Only for act = none, which callers ensure.
 */
#ifndef KERNELS_FREIVALDS_H
#define KERNELS_FREIVALDS_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/gemm.h"

/* `problem` has host pointers. `*residual` is the largest |difference| / bound over all rows
 * (<= 1 passes; non-finite rows are compared by class: a NaN or infinity must be there in
 * both). `seed` chooses r. Allocates O(m + n + k) doubles; GEMMD_ERR_OUT_OF_MEMORY if it can't. */
enum gemmd_error freivalds_check(const struct gemm_problem *problem, uint64_t seed, bool *pass,
                                 double *residual);

#endif
