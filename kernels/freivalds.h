/*
 * freivalds.h - checks a product without computing it again, on the device that has computed it.
 *
 * R. Freivalds, "Probabilistic machines can use less running time" (1977): for a random vector r,
 * C*r must equal alpha*op(A)*(op(B)*r) + beta*C0*r + bias*r. The check takes O(m*n + n*k + m*k)
 * steps for each problem of a batch. The caller ensures that `act` is none and that the problem has
 * no scales.
 *
 * The check computes in f64 and compares the difference with a bound on the rounding errors. Each
 * element of a row may have an error of e[j] <= k*u*(|A||B|)[j], plus the rounding to `out`. The
 * signs of r are independent of C, so |sum of r[j]*e[j]| exceeds 6 times the root of the sum of
 * (r[j]*e[j])^2 with a probability below 2*exp(-18), even if every error is as large as possible
 * (W. Hoeffding, 1963). A correct result therefore passes. A row fails if one element has an error
 * of more than 15 times sqrt(n) times the largest possible rounding error of an element of the row,
 * to which the check adds its own rounding in f64. i8 products to i32 are checked exactly modulo
 * 2^32.
 *
 * A row with a NaN or infinity in the operands must have a NaN or infinity in the result. A NaN or
 * infinity in the result of finite operands must be explained by overflow. Sums of i8 to f32 that
 * may have wrapped are not checked.
 *
 * The backends make the same check, with the same r for the same seed, the same bound and the same
 * decisions. Their sums have other orders, so that the residual may differ by what the check's own
 * rounding explains, which the bound includes.
 */
#ifndef KERNELS_FREIVALDS_H
#define KERNELS_FREIVALDS_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/gemm.h"

struct operation_small_check;

#ifdef __cplusplus
extern "C" {
#endif

/* The workspace of a check starts with the largest residual of all rows, a double. The residuals of
 * the rows, double [batch][m], begin at FREIVALDS_ROWS_OFFSET bytes. A residual is |difference| /
 * bound, and passes up to 1. It is infinite if the result has a NaN or infinity where it must have
 * none, or lacks one where it must have one. */
enum { FREIVALDS_ROWS_OFFSET = 64 };

/* The size of the workspace for the check of a struct gemm_problem. The workspace starts at a
 * multiple of 8 bytes. False: the size overflows. Pure. */
bool freivalds_bytes(const void *problem, uint64_t *out);

/* Enqueues the check on the context's stream, after the product (CUDA), or makes the check (CPU).
 * The problem's pointers and the workspace are in the memory of the context's backend. `seed`
 * chooses r. A check on the CPU stops early like a kernel (kernels/cpu/cpu_context.h), and its
 * residuals are then undefined. Errors are those of a kernel. */
enum gemmd_error freivalds_check(struct gemm_context *context, const void *problem, uint64_t seed,
                                 void *workspace);

/* The checks of small products, in one launch of the context's stream, after the products (CUDA).
 * The operands are no results of the launch before, because the checks read them while that launch
 * runs. Each product has sides of up to FREIVALDS_SMALL_SIDE, a batch of 1, and results of another
 * type than i32. */
enum { FREIVALDS_SMALL_SIDE = 256 };
enum gemmd_error freivalds_check_small(struct gemm_context *context,
                                       struct operation_small_check *checks, uint32_t count);

#ifdef __cplusplus
}
#endif
#endif
