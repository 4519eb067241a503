/*
 * cublas.h - the sums of cuBLAS (sums.c), and its products of i8 (i8.c).
 *
 * cuBLAS is column-major. A row-major matrix read by columns is its transpose, so C = op(A) * op(B)
 * is computed as C^T = op(B)^T * op(A)^T: the operands are swapped and nothing is copied.
 */
#ifndef KERNELS_CUDA_CUBLAS_CUBLAS_H
#define KERNELS_CUDA_CUBLAS_CUBLAS_H

#include "kernels/cuda/context.h"

enum { CUBLAS_BATCH_MAX = 65535 }; /* problems of one call, limited by the size of a grid */

/* Where cuBLAS writes its sums, and whether the epilogue has to follow. */
struct cublas_sums {
    enum gemmd_dtype type;
    double alpha;    /* the factor that cuBLAS applies; 1 if the epilogue follows */
    bool finished;   /* cuBLAS writes the final C, no epilogue follows */
    bool in_c;       /* cuBLAS writes into C, otherwise into the workspace */
    uint64_t k_step; /* the part of k that one call sums; the sums of all calls are added in f32 */
    uint64_t ld, stride; /* elements */
    uint64_t bytes;      /* bytes of the workspace */
};

/* Plans the sums of a product that cuBLAS writes as `rows` >= m by `columns` >= n elements, with a
 * leading dimension and a stride that are multiples of `alignment` bytes. cuBLAS computes in the
 * accumulator's type and rounds once, as gemmd requires, but only for the scalars and types that it
 * supports. cuBLAS may also skip the product if alpha is 0, although NaN times 0 must be NaN.
 * False: a size overflows. */
bool cublas_sums_plan(const struct gemm_problem *problem, uint64_t rows, uint64_t columns,
                      uint64_t alignment, struct cublas_sums *sums);

cudaDataType_t cublas_type(enum gemmd_dtype dtype);

/* Operands of i8, by cublasLt: both operands lie along k, and the sizes are padded to multiples of
 * 16. */
bool cublas_i8_workspace_bytes(const struct gemm_problem *problem, uint64_t *out);
enum gemmd_error cublas_i8_run(struct cuda_context *context, const struct gemm_problem *problem,
                               void *workspace);

#endif
