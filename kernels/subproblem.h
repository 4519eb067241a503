/*
 * subproblem.h - problems that compute some of a product or of an attention.
 *
 * A subproblem of a product computes some of the batch's problems, or some rows of C. A subproblem
 * of an attention computes some of the batch's entries, or some heads with the heads of K and V
 * that they use. One of a ragged attention has all entries. A sum is never divided. If
 * gemm_subproblems_are_exact is true for a kernel, the subproblems that the kernel computes have
 * the same bits as the whole, whichever device computes them.
 *
 * Pure functions, any thread.
 */
#ifndef KERNELS_SUBPROBLEM_H
#define KERNELS_SUBPROBLEM_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/attention.h"
#include "kernels/gemm.h"

/* Rows of a subproblem begin at multiples of this number. Every operand of a subproblem then starts
 * at a multiple of 256 bytes if the operands of the whole problem do. */
enum { SUBPROBLEM_ROWS = 256 };

/* Some problems of a batch, and some rows of each of them. */
struct gemm_range {
    uint64_t first_problem, problems, first_row, rows;
};
/* The subproblem of a range. Its leading dimensions and strides are those of the whole. */
struct gemm_problem gemm_subproblem(const struct gemm_problem *problem,
                                    const struct gemm_range *range);
/* Whether subproblems of a product that a kernel computes have the bits of the whole. */
bool gemm_subproblems_are_exact(const struct operation_kernel *kernel);

/* Some entries of a batch, and some heads of each of them. `kv_heads` heads of K and V, and all the
 * heads of Q that use these. */
struct attention_range {
    uint64_t first_entry, entries, first_kv_head, kv_heads;
};
/* The subproblem of a range. Its strides and its whole_kv_heads are those of the whole. lse
 * is contiguous only if the range has all heads, or the batch one entry. */
struct attention_problem attention_subproblem(const struct attention_problem *problem,
                                              const struct attention_range *range);

#endif
