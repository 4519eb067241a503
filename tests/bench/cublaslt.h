/*
 * cublaslt.h - the baseline: the best of cuBLASLt's candidates for a plain product.
 */
#ifndef TESTS_BENCH_CUBLASLT_H
#define TESTS_BENCH_CUBLASLT_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "kernels/gemm.h"

enum { LT_CANDIDATES = 16, LT_WORKSPACE_BYTES = 32 << 20 };

struct lt {
    cublasLtHandle_t handle;
    void *workspace;
};

struct lt_plan {
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, c; /* in cuBLAS's column-major view: a is our B */
    cublasLtMatmulHeuristicResult_t candidates[LT_CANDIDATES];
    int count, best;
    int integers; /* alpha and beta are int32_t */
};

cublasStatus_t lt_open(struct lt *lt);
void lt_close(struct lt *lt);

/* Asks for candidates for the problem's shape, types, scales and leading dimensions (alpha 1, no
 * beta, bias or activation, batch 1). The scales are those that the problem points to. best is 0,
 * cuBLAS's own first choice, until the caller sets another. */
cublasStatus_t lt_plan_create(const struct lt *lt, const struct gemm_problem *problem,
                              struct lt_plan *plan);
void lt_plan_destroy(struct lt_plan *plan);
cublasStatus_t lt_enqueue(const struct lt *lt, const struct lt_plan *plan, int candidate,
                          const void *a, const void *b, void *c, cudaStream_t stream);

#endif
