/*
 * Up to which size products are better computed where they lie: 16 equal ones in host memory, in
 * one launch that reads and writes there, and as copies, cuBLAS and copies on 8 streams. And the
 * same for one alone. What gemm_is_small follows.
 */
#include <stdio.h>
#include <stdlib.h>

#include "proto/dtype.h"
#include "tests/gpu/group_check.h"

enum { STREAMS = 8, MOST = 16, RUNS = 101 };

struct crossover {
    struct group_bench *bench;
    cudaStream_t streams[STREAMS];
    struct gemm_context *contexts[STREAMS];
    const struct operation_kernel *library;
    unsigned char *host, *device; /* MOST works of `work_bytes` */
    uint64_t work_bytes;
    struct gemm_problem problem; /* pointers are offsets from the work's start */
};

/* Where C begins: behind the operands, aligned as an answer is. */
static uint64_t result_offset(const struct gemm_problem *p)
{
    return ((p->m + p->n) * p->k * dtype_size(p->dtype) + 15) / 16 * 16;
}

static struct gemm_problem at(const struct crossover *x, unsigned char *start)
{
    struct gemm_problem p = x->problem;
    const uint64_t size = dtype_size(p.dtype);
    p.a = start;
    p.b = start + p.m * p.k * size;
    p.c = start + result_offset(&p);
    return p;
}

static bool run_in_place(struct crossover *x, uint32_t count)
{
    struct gemm_problem problems[MOST];
    struct operation_member list[MOST];
    for (uint32_t i = 0; i < count; i++) {
        problems[i] = at(x, x->host + i * x->work_bytes);
        list[i] = (struct operation_member){&problems[i], NULL};
    }
    return x->bench->kernel->run_group(x->bench->context, list, count) == GEMMD_OK &&
           group_succeeded(cudaStreamSynchronize(x->bench->stream), "products in place");
}

static bool run_copied(struct crossover *x, uint32_t count)
{
    const struct gemm_problem *p = &x->problem;
    const uint64_t in = result_offset(p);
    const uint64_t out = p->m * p->n * dtype_size(p->out);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t s = i % STREAMS;
        unsigned char *host = x->host + i * x->work_bytes, *device = x->device + i * x->work_bytes;
        struct gemm_problem there = at(x, device);
        if (!group_succeeded(
                cudaMemcpyAsync(device, host, in, cudaMemcpyHostToDevice, x->streams[s]),
                "the copy in") ||
            operation_run(x->library, x->contexts[s], &there, x->device + MOST * x->work_bytes) !=
                GEMMD_OK ||
            !group_succeeded(
                cudaMemcpyAsync(host + in, device + in, out, cudaMemcpyDeviceToHost, x->streams[s]),
                "the copy out"))
            return false;
    }
    for (uint32_t s = 0; s < STREAMS; s++)
        if (!group_succeeded(cudaStreamSynchronize(x->streams[s]), "products with copies"))
            return false;
    return true;
}

static bool timed(struct crossover *x, bool (*run)(struct crossover *x, uint32_t count),
                  uint32_t count, double *us)
{
    double times[RUNS];
    for (uint32_t i = 0; i < RUNS; i++) {
        const double begun_us = group_now_us();
        if (!run(x, count))
            return false;
        times[i] = group_now_us() - begun_us;
    }
    *us = group_median(times, RUNS);
    return true;
}

static bool measure(struct crossover *x, enum gemmd_dtype dtype, uint64_t side)
{
    double alone, copied, alone_16, copied_16;
    x->problem = (struct gemm_problem){.dtype = dtype,
                                       .out = dtype_default_out(dtype),
                                       .m = side,
                                       .n = side,
                                       .k = side,
                                       .batch = 1,
                                       .alpha = 1};
    gemm_problem_contiguous(&x->problem);
    if (operation_select(&operation_gemm, &(struct gemm_device){.backend = GEMM_BACKEND_CUDA},
                         "cublas", &x->problem, &x->library, NULL) != GEMMD_OK ||
        !timed(x, run_in_place, 1, &alone) || !timed(x, run_copied, 1, &copied) ||
        !timed(x, run_in_place, MOST, &alone_16) || !timed(x, run_copied, MOST, &copied_16))
        return false;
    printf("  %-8s %4u³ %5u KiB   one: in place %6.1f us, copied %6.1f   16: in place %7.1f us, "
           "copied %7.1f   ratios %.2f %.2f\n",
           dtype_name(dtype), (unsigned)side,
           (unsigned)((2 * side * side * dtype_size(dtype) +
                       side * side * dtype_size(x->problem.out)) >>
                      10),
           alone, copied, alone_16, copied_16, copied / alone, copied_16 / alone_16);
    return true;
}

bool group_time_crossover(struct group_bench *bench)
{
    static const uint64_t sides[] = {32, 64, 65, 96, 128, 129, 160, 192, 224, 256, 320, 384, 512};
    static const enum gemmd_dtype dtypes[] = {GEMMD_F32, GEMMD_BF16, GEMMD_I8, GEMMD_F64};
    struct crossover *x = calloc(1, sizeof *x);
    void *host = NULL, *device = NULL;
    if (x == NULL)
        return false;
    x->bench = bench;
    x->work_bytes = UINT64_C(8) << 20;
    bool done = group_succeeded(cudaHostAlloc(&host, MOST * x->work_bytes, cudaHostAllocMapped),
                                "cudaHostAlloc") &&
                group_succeeded(cudaMalloc(&device, (MOST + 8) * x->work_bytes), "cudaMalloc");
    x->host = host;
    x->device = device;
    for (uint32_t i = 0; i < STREAMS && done; i++)
        done = group_succeeded(cudaStreamCreateWithFlags(&x->streams[i], cudaStreamNonBlocking),
                               "cudaStreamCreate") &&
               gemm_context_create(GEMM_BACKEND_CUDA, x->streams[i], 0, &x->contexts[i], NULL) ==
                   GEMMD_OK;
    for (uint64_t i = 0; done && i < MOST * x->work_bytes; i++)
        x->host[i] = (unsigned char)(i * 37 % 56); /* tiny numbers in every type */
    printf("where copies begin to pay, host memory, medians of %d:\n", RUNS);
    for (unsigned d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++)
        for (unsigned s = 0; s < sizeof sides / sizeof sides[0] && done; s++)
            done = measure(x, dtypes[d], sides[s]);
    for (uint32_t i = 0; i < STREAMS; i++) {
        gemm_context_destroy(x->contexts[i]);
        if (x->streams[i] != NULL)
            (void)cudaStreamDestroy(x->streams[i]);
    }
    (void)cudaFreeHost(host);
    (void)cudaFree(device);
    free(x);
    return done;
}
