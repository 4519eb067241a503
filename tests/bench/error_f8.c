/* f8_e4m3 with precision f8: the error of the sums against f64, next to cuBLASLt's. An error is the
 * root mean square of the differences, relative to that of the results, and the largest difference
 * relative to the same. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/sm90/sm90.h"
#include "kernels/gemm.h"
#include "tests/bench/cublaslt.h"
#include "tests/bench/device.h"
#include "tests/bench/served.h"

enum { SIDE = 512, K_MAX = 16384, KERNELS = 3, SEEDS = 2 };

struct f8_bench {
    struct sm90_device device;
    struct lt lt;
    unsigned char *host;
    void *a, *b, *c;
    double *reference;
    struct bench_difference *difference; /* device */
};

/* Uniform in [-1, 1], or in [0, 1] if `positive`. */
static bool fill(const struct f8_bench *e, void *data, uint64_t bytes, bool positive, uint32_t seed)
{
    if (bench_fill(data, bytes, GEMMD_F8_E4M3, seed) != cudaSuccess)
        return false;
    if (!positive)
        return true;
    if (cudaMemcpy(e->host, data, bytes, cudaMemcpyDeviceToHost) != cudaSuccess)
        return false;
    for (uint64_t i = 0; i < bytes; i++)
        e->host[i] &= 0x7f;
    return cudaMemcpy(data, e->host, bytes, cudaMemcpyHostToDevice) == cudaSuccess;
}

/* Own kernels: the one that is chosen. */
static bool own(const struct f8_bench *e, const struct gemm_problem *p)
{
    struct sm90_launch launch;
    const struct sm90_kernel *kernel = sm90_choose(p, &e->device.card);
    return kernel != NULL && sm90_prepare(&e->device, kernel, p, NULL, &launch) == cudaSuccess &&
           sm90_enqueue(&launch, 0) == cudaSuccess;
}

static bool library(const struct f8_bench *e, const struct gemm_problem *p, bool fast)
{
    struct lt_plan plan;
    if (lt_plan_create(&e->lt, p, &plan) != CUBLAS_STATUS_SUCCESS)
        return false;
    const int8_t fast_accumulation = fast;
    const bool good = cublasLtMatmulDescSetAttribute(
                          plan.operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast_accumulation,
                          sizeof fast_accumulation) == CUBLAS_STATUS_SUCCESS &&
                      lt_enqueue(&e->lt, &plan, 0, p->a, p->b, p->c, 0) == CUBLAS_STATUS_SUCCESS;
    lt_plan_destroy(&plan);
    return good;
}

static bool measure(const struct f8_bench *e, const struct gemm_problem *p, int kernel,
                    struct bench_difference *difference)
{
    const struct bench_difference none = {.first_bad = UINT64_MAX};
    const bool ran = kernel == 0 ? own(e, p) : library(e, p, kernel == 2);
    return ran &&
           cudaMemcpy(e->difference, &none, sizeof none, cudaMemcpyHostToDevice) == cudaSuccess &&
           bench_compare(e->c, p->out, 1, p->m, p->n, p->ldc, p->stride_c, e->reference, NULL,
                         INFINITY, 0, e->difference) == cudaSuccess &&
           cudaMemcpy(difference, e->difference, sizeof *difference, cudaMemcpyDeviceToHost) ==
               cudaSuccess;
}

static bool row(const struct f8_bench *e, bool positive, uint64_t k, FILE *to)
{
    struct gemm_problem p = {.dtype = GEMMD_F8_E4M3,
                             .out = GEMMD_F32,
                             .precision = GEMM_PRECISION_F8,
                             .transb = true,
                             .m = SIDE,
                             .n = SIDE,
                             .k = k,
                             .batch = 1,
                             .alpha = 1,
                             .a = e->a,
                             .b = e->b,
                             .c = e->c};
    gemm_problem_contiguous(&p);
    double mean[KERNELS] = {0}, worst[KERNELS] = {0};
    for (uint32_t seed = 0; seed < SEEDS; seed++) {
        const struct bench_product product = {.dtype = p.dtype,
                                              .out = p.out,
                                              .transb = 1,
                                              .m = p.m,
                                              .n = p.n,
                                              .k = p.k,
                                              .batch = 1,
                                              .lda = p.lda,
                                              .ldb = p.ldb,
                                              .alpha = 1,
                                              .a = p.a,
                                              .b = p.b};
        if (!fill(e, e->a, SIDE * k, positive, 2 * seed + 1) ||
            !fill(e, e->b, SIDE * k, positive, 2 * seed + 2) ||
            bench_reference(&product, e->reference) != cudaSuccess)
            return false;
        for (int i = 0; i < KERNELS; i++) {
            struct bench_difference d;
            if (!measure(e, &p, i, &d))
                return false;
            mean[i] = fmax(mean[i], sqrt(d.squares / d.reference_squares));
            worst[i] = fmax(worst[i], d.largest / sqrt(d.reference_squares / (SIDE * SIDE)));
        }
    }
    fprintf(to, "| %s | %llu | %.2e | %.2e | %.2e | %.2e | %.2e | %.2e |\n",
            positive ? "[0, 1]" : "[-1, 1]", (unsigned long long)k, mean[0], worst[0], mean[1],
            worst[1], mean[2], worst[2]);
    return true;
}

int bench_error_f8(FILE *to)
{
    static const uint64_t depths[] = {128, 384, 512, 1024, 2048, 4096, 8192, 16384};
    static struct f8_bench e; /* the process ends with it */
    const uint64_t bytes = (uint64_t)SIDE * K_MAX;
    e.host = malloc(bytes);
    bool good = e.host != NULL && sm90_device_open(&e.device) == cudaSuccess &&
                lt_open(&e.lt) == CUBLAS_STATUS_SUCCESS && cudaMalloc(&e.a, bytes) == cudaSuccess &&
                cudaMalloc(&e.b, bytes) == cudaSuccess &&
                cudaMalloc(&e.c, SIDE * SIDE * sizeof(float)) == cudaSuccess &&
                cudaMalloc((void **)&e.reference, SIDE * SIDE * sizeof(double)) == cudaSuccess &&
                cudaMalloc((void **)&e.difference, sizeof *e.difference) == cudaSuccess;
    if (!good) {
        fprintf(stderr, "gemmd-bench: f8 needs a GPU of compute capability 9.0\n");
        return 1;
    }
    fprintf(to,
            "| f8_e4m3 operands | k | wgmma: mean | largest | cuBLASLt: mean | largest | cuBLASLt"
            ", fast accumulation: mean | largest |\n|---|---|---|---|---|---|---|---|\n");
    for (int positive = 0; positive < 2 && good; positive++)
        for (size_t i = 0; i < sizeof depths / sizeof *depths && good; i++)
            good = row(&e, positive, depths[i], to);
    return good ? 0 : 1;
}
