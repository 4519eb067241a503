/*
 * Products with more than 2^31 elements in C: indices of 32 bits would wrap. Operands are small
 * whole numbers, so that results are exact; rows are sampled, the first and the last among them.
 */
#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "proto/dtype.h"
#include "tests/gpu/gemm_check.h"
#include "tests/product/random.h"

enum { M = 70000, N = 40000, K = 16, SAMPLES = 24 };

struct large {
    struct gemm_problem problem; /* device pointers */
    int8_t *a, *b;               /* [M][K], [K][N] as whole numbers */
    void *workspace;
};

static void *upload(enum gemmd_dtype dtype, const int8_t *values, uint64_t count)
{
    const uint64_t size = dtype_size(dtype);
    void *host = malloc(count * size), *device = NULL;
    if (host == NULL || cudaMalloc(&device, count * size) != cudaSuccess) {
        free(host);
        return NULL;
    }
    for (uint64_t i = 0; i < count; i++) {
        if (dtype == GEMMD_I8)
            ((int8_t *)host)[i] = values[i];
        else
            ((uint16_t *)host)[i] = convert_f32_to_f16((float)values[i]);
    }
    cudaError_t error = cudaMemcpy(device, host, count * size, cudaMemcpyHostToDevice);
    free(host);
    return error == cudaSuccess ? device : NULL;
}

static bool prepare(struct large *large, enum gemmd_dtype dtype, enum gemmd_dtype out)
{
    struct gemm_problem *p = &large->problem;
    uint64_t seed = 99;
    *p = (struct gemm_problem){
        .dtype = dtype, .out = out, .m = M, .n = N, .k = K, .batch = 1, .alpha = 1};
    gemm_problem_contiguous(p);
    large->a = malloc((uint64_t)M * K);
    large->b = malloc((uint64_t)K * N);
    if (large->a == NULL || large->b == NULL)
        return false;
    for (uint64_t i = 0; i < (uint64_t)M * K; i++)
        large->a[i] = (int8_t)(random_next(&seed) % 5 - 2);
    for (uint64_t i = 0; i < (uint64_t)K * N; i++)
        large->b[i] = (int8_t)(random_next(&seed) % 5 - 2);
    p->a = upload(dtype, large->a, (uint64_t)M * K);
    p->b = upload(dtype, large->b, (uint64_t)K * N);
    return p->a != NULL && p->b != NULL &&
           cudaMalloc(&p->c, (uint64_t)M * N * dtype_size(out)) == cudaSuccess;
}

static void release(struct large *large)
{
    (void)cudaFree((void *)(uintptr_t)large->problem.a);
    (void)cudaFree((void *)(uintptr_t)large->problem.b);
    (void)cudaFree(large->problem.c);
    (void)cudaFree(large->workspace);
    free(large->a);
    free(large->b);
    *large = (struct large){.workspace = NULL};
}

static bool row_right(const struct large *large, uint64_t row, void *line, double *wide)
{
    const uint64_t bytes = N * dtype_size(large->problem.out);
    if (cudaMemcpy(line, (const char *)large->problem.c + row * bytes, bytes,
                   cudaMemcpyDeviceToHost) != cudaSuccess)
        return false;
    convert_to_f64(large->problem.out, line, wide, N);
    for (uint64_t column = 0; column < N; column++) {
        int sum = 0;
        for (uint64_t i = 0; i < K; i++)
            sum += large->a[row * K + i] * large->b[i * N + column];
        if (wide[column] != sum) {
            printf("         C[%" PRIu64 "][%" PRIu64 "] is %g and should be %d\n", row, column,
                   wide[column], sum);
            return false;
        }
    }
    return true;
}

static bool run_large(struct large *large, const struct operation_kernel *kernel,
                      struct gemm_context *context, void *stream)
{
    struct gemm_problem *p = &large->problem;
    uint64_t bytes, seed = 5;
    if (!kernel->workspace_bytes(p, &bytes) ||
        cudaMalloc(&large->workspace, bytes + 1) != cudaSuccess ||
        cudaMemset(p->c, 0xff, (uint64_t)M * N * dtype_size(p->out)) != cudaSuccess ||
        cudaDeviceSynchronize() != cudaSuccess ||
        operation_run(kernel, context, p, large->workspace) != GEMMD_OK ||
        cudaStreamSynchronize(stream) != cudaSuccess)
        return false;
    void *line = malloc(N * sizeof(double));
    double *wide = malloc(N * sizeof(double));
    bool right = line != NULL && wide != NULL;
    for (unsigned i = 0; i < SAMPLES && right; i++)
        right = row_right(large, i == 0 ? 0 : i == 1 ? M - 1 : random_next(&seed) % M, line, wide);
    free(line);
    free(wide);
    return right;
}

void gemm_check_large(const struct gemm_device *device, struct gemm_context *context, void *stream,
                      uint64_t *passed, uint64_t *failed)
{
    static const enum gemmd_dtype types[][2] = {
        {GEMMD_F16, GEMMD_F16}, {GEMMD_I8, GEMMD_I32}, {GEMMD_I8, GEMMD_F32}};
    for (unsigned i = 0; i < sizeof types / sizeof types[0]; i++)
        for (const struct operation_kernel *const *k =
                 operation_kernels(&operation_gemm, GEMM_BACKEND_CUDA);
             *k != NULL; k++) {
            struct large large = {.workspace = NULL};
            const struct gemm_problem asked = {.dtype = types[i][0],
                                               .out = types[i][1],
                                               .m = M,
                                               .n = N,
                                               .k = K,
                                               .batch = 1,
                                               .alpha = 1};
            if (!operation_kernel_runs_on(&operation_gemm, *k, device) || !(*k)->takes(&asked))
                continue;
            bool right =
                prepare(&large, types[i][0], types[i][1]) && run_large(&large, *k, context, stream);
            release(&large);
            printf("%-8s %s to %s, %d x %d x %d: %s\n", (*k)->name, dtype_name(types[i][0]),
                   dtype_name(types[i][1]), M, N, K, right ? "passed" : "failed");
            *(right ? passed : failed) += 1;
        }
}
