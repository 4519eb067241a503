/*
 * stacked.h - rows of many requests multiplied with one B, as one product.
 *
 *   C_i = act(alpha * A_i * op(B) + beta * C0_i + bias),  i = 0 ... count-1
 *
 * One product of all rows reads B once where one product for each request reads it every time. It
 * is computed by the kernel that would compute each request alone, and only by kernels whose rows'
 * bits depend on nothing but the row and B (gemm_kernel.rows_independent, any_leading): a request's
 * bytes are the same alone and stacked, in any company. On the CPU that leaves out OpenBLAS, whose
 * sums of a few rows and of many differ: what "auto" gives to it is computed one request at a time.
 *
 * How a batcher uses it:
 *   - gemm_can_stack says whether the kernel that gemm_select gave each of them may.
 *   - Requests can share a stack if kernel, types, precision, activation, n, k, transb, alpha,
 *     beta, B, bias and the leading dimensions are the same (gemm_same_stack). Their numbers of
 *     rows may differ.
 *   - gemm_stacked_bytes says what device memory a stack of `problem->m` rows needs; it grows with
 *     m, so a range for the most rows that a launch may have serves all stacks.
 *   - gemm_stacked enqueues everything on the context's stream: rows are read where they lie and
 *     results written where they belong, both of which may be mapped pinned host memory, so that
 *     no copies are needed. When the stream has come so far, all C_i are written.
 */
#ifndef KERNELS_STACKED_H
#define KERNELS_STACKED_H

#include "kernels/gemm.h"

/* The rows of one request; rows follow each other by the problem's lda, ldc0 and ldc. For CUDA, in
 * device memory or mapped host memory, aligned to their elements. */
struct gemm_stack_rows {
    const void *a;
    const void *c0; /* read only if beta != 0 */
    void *c;
    uint64_t rows; /* at least 1 */
};

/* Whether two products that gemm_can_stack allows may be parts of one stack, and a number that is
 * the same for those that may and hardly ever for others; never 0. Pure. */
bool gemm_same_stack(const struct gemm_kernel *kernel, const struct gemm_problem *problem,
                     const struct gemm_kernel *other_kernel, const struct gemm_problem *other);
uint64_t gemm_stack_key(const struct gemm_kernel *kernel, const struct gemm_problem *problem);

/* Whether `kernel` may compute the problem, of any m, as part of a stack: batch is 1, A is not
 * transposed. Pure. */
bool gemm_can_stack(const struct gemm_kernel *kernel, const struct gemm_problem *problem);

/* The workspace for a stack of problem->m rows, and, to 512 rows, for any with fewer; false:
 * overflow. Pure. */
bool gemm_stacked_bytes(const struct gemm_kernel *kernel, const struct gemm_problem *problem,
                        uint64_t *out);

/* Computes the stack. problem->m is the sum of all rows; its a, c0 and c are not looked at, b and
 * bias are in the memory of the backend. `workspace` is of gemm_stacked_bytes, aligned as that of
 * a kernel. `rows` is read before this returns. Errors are those of gemm_kernel.run; after one
 * nothing is known about any C. */
enum gemmd_error gemm_stacked(struct gemm_context *context, const struct gemm_kernel *kernel,
                              const struct gemm_problem *problem,
                              const struct gemm_stack_rows *rows, uint32_t count, void *workspace);

#endif
