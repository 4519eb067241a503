/*
 * problem_part.h - parts of a product or an attention, each of which is a problem of its own.
 *
 * The parts of a product are some of the batch's problems, or some rows of C. The parts of an
 * attention are some of the batch's entries, or some heads with the heads of K and V that they use.
 * A sum is never divided. If gemm_parts_are_exact is true for a kernel, the parts that the kernel
 * computes have the same bits as the whole, whichever device computes them.
 *
 * Pure functions, any thread.
 */
#ifndef KERNELS_PROBLEM_PART_H
#define KERNELS_PROBLEM_PART_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/attention.h"
#include "kernels/gemm.h"

/* Rows of a part begin at multiples of this number. Every operand of a part then starts at a
 * multiple of 256 bytes if the operands of the whole problem do. */
enum { PROBLEM_PART_ROWS = 256 };

/* Some problems of a batch, and some rows of each of them. */
struct gemm_part {
    uint64_t first_problem, problems, first_row, rows;
};
/* The problem that computes a part. Its leading dimensions and strides are those of the whole. */
struct gemm_problem gemm_problem_part(const struct gemm_problem *problem,
                                      const struct gemm_part *part);
/* Whether parts of a product that a kernel computes have the bits of the whole. */
bool gemm_parts_are_exact(const struct operation_kernel *kernel);

/* Some entries of a batch, and some heads of each of them. `kv_heads` heads of K and V, and all the
 * heads of Q that use these. */
struct attention_part {
    uint64_t first_entry, entries, first_kv_head, kv_heads;
};
/* The problem that computes a part. Its strides and its whole_kv_heads are those of the whole. lse
 * is contiguous only if the part has all heads, or the batch one entry. */
struct attention_problem attention_problem_part(const struct attention_problem *problem,
                                                const struct attention_part *part);

#endif
