/*
 * stacked.h - multiplies rows of many requests with one B, as one product.
 *
 *   C_i = act(alpha * A_i * op(B) + beta * C0_i + bias),  i = 0 ... count-1
 *
 * A single product of all rows reads B once, where a product for each request would read B each
 * time. The stack is computed by the kernel that would compute each request alone. Only kernels
 * whose rows' bits depend on the row and B alone are used (operation_kernel.rows_independent,
 * any_leading), so the bytes of a request are the same alone and in any stack. On the CPU this
 * excludes OpenBLAS, which computes a few rows with another order of sums than many rows: requests
 * that "auto" gives to OpenBLAS are computed one at a time.
 *
 * How the queue of the daemon uses this module:
 *   - rows_max of gemm_stack says how many rows the kernel that was chosen for a request can stack.
 *   - Requests can share a stack if kernel, types, precision, scales, activation, n, k, transb,
 *     alpha, beta, B, its scales and the leading dimensions are the same. The requests may have
 *     different numbers of rows. Requests with a bias or with more than 128 rows are not stacked.
 *   - gemm_stacked_bytes gives the device memory that a stack of `problem->m` rows needs. The size
 *     grows with m, so a workspace for the largest stack serves all stacks.
 *   - gemm_stacked enqueues the whole computation on the context's stream. Rows are read from and
 *     results are written to the requests' own buffers, which may be mapped pinned host memory, so
 *     no further copies are needed.
 */
#ifndef KERNELS_STACKED_H
#define KERNELS_STACKED_H

#include "kernels/gemm.h"
#include "kernels/operation.h"

/* The functions of this module, as members of operation_gemm. */
extern const struct operation_stack gemm_stack;

/* Whether `kernel` can compute the problem as part of a stack, for any m. The batch has to be 1 and
 * neither A nor its scales may be transposed. Pure. */
bool gemm_can_stack(const struct operation_kernel *kernel, const struct gemm_problem *problem);

/* The size of the workspace for a stack of problem->m rows, with a check. For up to
 * OPERATION_STACK_ROWS rows the workspace also suffices for every stack with fewer rows. False: the
 * size overflows. Pure.
 */
bool gemm_stacked_bytes(const struct operation_kernel *kernel, const struct gemm_problem *problem,
                        uint64_t *out);

/* Computes the stack: the rows of all members, which are struct gemm_problem with at least one row.
 * Each b, b_scale and bias is in the memory of the backend. On CUDA the other operands and C are in
 * device memory or mapped host memory, and are aligned to their elements. `check` is NULL if no row
 * is checked; op(B) is multiplied with the check's vector once, however many rows there are.
 * `workspace` has gemm_stacked_bytes bytes for all rows and the alignment of a kernel's workspace.
 * The list and `check` are not read after the function returns. Errors are those of
 * operation_kernel.run; after an error the contents of every C are undefined. */
enum gemmd_error gemm_stacked(struct gemm_context *context, const struct operation_kernel *kernel,
                              const struct operation_member members[], uint32_t count,
                              const struct operation_check *check, void *workspace);

#endif
