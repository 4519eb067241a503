/*
 * stacked.h - multiplies rows of many requests with one B, as one product.
 *
 *   C_i = act(alpha * A_i * op(B) + beta * C0_i + bias),  i = 0 ... count-1
 *
 * A single product of all rows reads B once, where a product for each request would read B each
 * time. The stack is computed by the kernel that would compute each request alone. Only kernels
 * whose rows' bits depend on the row and B alone are used (gemm_kernel.rows_independent,
 * any_leading), so the bytes of a request are the same alone and in any stack. On the CPU this
 * excludes OpenBLAS, which computes a few rows with another order of sums than many rows: requests
 * that "auto" gives to OpenBLAS are computed one at a time.
 *
 * How the queue of the daemon uses this module:
 *   - gemm_can_stack says whether the kernel that gemm_select chose for a request can stack rows.
 *   - Requests can share a stack if kernel, types, precision, scales, activation, n, k, transb,
 *     alpha, beta, B, its scales, bias and the leading dimensions are the same (gemm_same_stack).
 *     Their numbers of rows may differ.
 *   - gemm_stacked_bytes gives the device memory that a stack of `problem->m` rows needs. The size
 *     grows with m, so a workspace for the largest stack serves all stacks.
 *   - gemm_stacked enqueues the whole computation on the context's stream. Rows are read from and
 *     results are written to the requests' own buffers, which may be mapped pinned host memory, so
 *     no further copies are needed.
 */
#ifndef KERNELS_STACKED_H
#define KERNELS_STACKED_H

#include "kernels/gemm.h"

/* The rows of one request. The distances between rows are the problem's lda, ldc0, ldc and
 * a_scale.step. On CUDA the rows are in device memory or mapped host memory and are aligned to
 * their elements. */
struct gemm_stack_rows {
    const void *a;
    const void *c0; /* read only if beta != 0 */
    void *c;
    uint64_t rows;        /* at least 1 */
    const float *a_scale; /* read only with scales */
};

/* Whether two products, each of which gemm_can_stack allows, can share a stack; and a hash that is
 * equal for products that can, never 0. Pure. */
bool gemm_same_stack(const struct gemm_kernel *kernel, const struct gemm_problem *problem,
                     const struct gemm_kernel *other_kernel, const struct gemm_problem *other);
uint64_t gemm_stack_key(const struct gemm_kernel *kernel, const struct gemm_problem *problem);

/* Whether `kernel` can compute the problem as part of a stack, for any m. The batch has to be 1 and
 * neither A nor its scales may be transposed. Pure. */
bool gemm_can_stack(const struct gemm_kernel *kernel, const struct gemm_problem *problem);

/* The check of all rows of a stack, as one product (kernels/freivalds.h). */
struct gemm_stack_check {
    uint64_t seed;
    double *residuals; /* receives the residual of each row [problem->m]; in host memory, pinned on
                          CUDA */
};

/* The size of the workspace for a stack of problem->m rows, with a check. For up to 512 rows the
 * workspace also suffices for every stack with fewer rows. False: the size overflows. Pure. */
bool gemm_stacked_bytes(const struct gemm_kernel *kernel, const struct gemm_problem *problem,
                        uint64_t *out);

/* Computes the stack. problem->m is the sum of all rows. The problem's a, c0, c and a_scale.data
 * are ignored; b, b_scale and bias are in the memory of the backend. `check` is NULL if no row is
 * checked; op(B) is multiplied with the check's vector once, however many rows there are.
 * `workspace` has gemm_stacked_bytes bytes and the alignment of a kernel's workspace. `rows` and
 * `check` are not read after the function returns. Errors are those of gemm_kernel.run; after an
 * error the contents of every C are undefined. */
enum gemmd_error gemm_stacked(struct gemm_context *context, const struct gemm_kernel *kernel,
                              const struct gemm_problem *problem,
                              const struct gemm_stack_rows *rows, uint32_t count,
                              const struct gemm_stack_check *check, void *workspace);

#endif
