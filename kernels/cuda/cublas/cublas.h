/*
 * cublas.h - functions that cublas.c and i8.c share.
 *
 * cuBLAS is column-major. A row-major matrix read by columns is its transpose, so C = op(A) * op(B)
 * is computed as C^T = op(B)^T * op(A)^T: the operands are swapped and nothing is copied.
 */
#ifndef KERNELS_CUDA_CUBLAS_CUBLAS_H
#define KERNELS_CUDA_CUBLAS_CUBLAS_H

#include "kernels/cuda/context.h"

enum { CUBLAS_BATCH_MAX = 65535 }; /* of one call: a grid's limit */

/* Where cuBLAS writes, and whether the epilogue is still to come. */
struct cublas_sums {
    enum gemmd_dtype type;
    double alpha;        /* that cuBLAS applies; 1 if the epilogue follows */
    bool finished;       /* what cuBLAS writes is C as wanted */
    bool in_c;           /* it writes into C, else into the workspace */
    uint64_t k_step;     /* so much of k is summed by a call, the calls' sums are added in f32 */
    uint64_t ld, stride; /* elements */
    uint64_t bytes;      /* of the workspace */
};

/* Decides it for a product that cuBLAS writes as `rows` >= m of `columns` >= n elements and whose
 * leading dimension and stride must be multiples of `alignment` bytes. cuBLAS computes in the
 * accumulator's type and rounds once, as wanted, but only for scalars and types that it has; and
 * it may skip the product if alpha is 0, where NaN times 0 must be NaN. False on overflow. */
bool cublas_sums_plan(const struct gemm_problem *problem, uint64_t rows, uint64_t columns,
                      uint64_t alignment, struct cublas_sums *sums);

cudaDataType_t cublas_type(enum gemmd_dtype dtype);

/* Operands of i8: cublasLt with both operands along k and all that touches tensor cores in
 * multiples of 16. */
bool cublas_i8_workspace_bytes(const struct gemm_problem *problem, uint64_t *out);
enum gemmd_error cublas_i8_run(struct cuda_context *context, const struct gemm_problem *problem,
                               void *workspace);

#endif
