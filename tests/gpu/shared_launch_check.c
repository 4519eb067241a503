#include "tests/gpu/shared_launch_check.h"

#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/dtype.h"
#include "tests/product/cases.h"
#include "tests/product/random.h"

enum { M = 2100, STREAMS = 4, TIMES = 100, STARTS = 3 };

/* n and k: an ordinary product, and products whose k is divided into chunks. The chunks of the
 * second are launched one by one for few rows and together for many rows; one launch computes those
 * of the third, in the blocks of a cluster for few rows and in one block for many. */
static const uint64_t SHAPES[][2] = {{1032, 1048}, {200, 16500}, {600, 6200}};

struct shared_launch_check {
    struct gemm_problem problem; /* the product of all rows; device pointers */
    const struct operation_kernel *kernel;
    cudaStream_t streams[STREAMS];
    struct gemm_context *contexts[STREAMS];
    void *a, *b, *bias; /* `b` holds the same matrix twice */
    void *c[STREAMS], *workspace[STREAMS];
    uint64_t c_bytes, workspace_bytes;
    unsigned char *expected, *got; /* host */
    char why[160];
};

/* Returns device memory with `times` copies of `count` random elements: numbers of either sign with
 * a magnitude between 1/2 and 1 and a random mantissa; any integers for i8 and i32. */
static void *random_on_device(enum gemmd_dtype dtype, uint64_t count, uint64_t times,
                              uint64_t *seed)
{
    const uint64_t size = dtype_size(dtype), bytes = count * size;
    const uint32_t keep = dtype == GEMMD_F32    ? 0x807fffff
                          : dtype == GEMMD_BF16 ? 0x807f
                          : dtype == GEMMD_F16  ? 0x83ff
                                                : 0x87;
    const uint32_t exponent = dtype == GEMMD_F32    ? 0x3f000000
                              : dtype == GEMMD_BF16 ? 0x3f00
                              : dtype == GEMMD_F16  ? 0x3800
                                                    : 0x30;
    unsigned char *host = malloc(bytes);
    void *device = NULL;
    if (host == NULL || cudaMalloc(&device, bytes * times) != cudaSuccess) {
        free(host);
        return NULL;
    }
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t bits = (uint32_t)random_next(seed);
        const uint32_t value =
            dtype == GEMMD_I8 || dtype == GEMMD_I32 ? bits : (bits & keep) | exponent;
        memcpy(host + i * size, &value, size); /* both machines are little-endian */
    }
    for (uint64_t i = 0; i < times; i++)
        (void)cudaMemcpy((char *)device + i * bytes, host, bytes, cudaMemcpyHostToDevice);
    (void)cudaDeviceSynchronize(); /* copies of up to 64 KiB may still be on their way */
    free(host);
    return device;
}

static void close_check(struct shared_launch_check *c)
{
    for (unsigned i = 0; i < STREAMS; i++) {
        gemm_context_destroy(c->contexts[i]);
        if (c->streams[i] != NULL)
            (void)cudaStreamDestroy(c->streams[i]);
        (void)cudaFree(c->c[i]);
        (void)cudaFree(c->workspace[i]);
    }
    (void)cudaFree(c->a);
    (void)cudaFree(c->b);
    (void)cudaFree(c->bias);
    free(c->expected);
    free(c->got);
}

static bool open_check(struct shared_launch_check *c)
{
    struct gemm_problem *p = &c->problem;
    uint64_t seed = 4711 + (uint64_t)p->dtype;
    c->c_bytes = p->m * p->n * dtype_size(p->out);
    c->a = random_on_device(p->dtype, p->m * p->k, 1, &seed);
    c->b = random_on_device(p->dtype, p->k * p->n, 2, &seed);
    c->bias = random_on_device(p->out, p->n, 1, &seed);
    c->expected = malloc(c->c_bytes);
    c->got = malloc(c->c_bytes);
    /* The batch of two needs the largest workspace. */
    struct gemm_problem two = *p;
    two.batch = 2;
    uint64_t most;
    if (!c->kernel->workspace_bytes(p, &c->workspace_bytes) ||
        !c->kernel->workspace_bytes(&two, &most))
        return false;
    c->workspace_bytes = most > c->workspace_bytes ? most : c->workspace_bytes;
    for (unsigned i = 0; i < STREAMS; i++) {
        struct fault fault;
        if (cudaStreamCreateWithFlags(&c->streams[i], cudaStreamNonBlocking) != cudaSuccess ||
            gemm_context_create(GEMM_BACKEND_CUDA, c->streams[i], 0, &c->contexts[i], &fault) !=
                GEMMD_OK ||
            cudaMalloc(&c->c[i], c->c_bytes) != cudaSuccess ||
            cudaMalloc(&c->workspace[i], c->workspace_bytes + 256) != cudaSuccess)
            return false;
    }
    p->a = c->a;
    p->b = c->b;
    return c->a != NULL && c->b != NULL && c->bias != NULL && c->expected != NULL && c->got != NULL;
}

/* Computes `problem` on one stream, into poisoned memory. */
static bool enqueue(struct shared_launch_check *c, unsigned stream, struct gemm_problem problem)
{
    problem.c = c->c[stream];
    return cudaMemsetAsync(c->c[stream], 0xff, c->c_bytes, c->streams[stream]) == cudaSuccess &&
           operation_run(c->kernel, c->contexts[stream], &problem, c->workspace[stream]) ==
               GEMMD_OK;
}

static bool fetch(struct shared_launch_check *c, unsigned stream, unsigned char *to, uint64_t bytes)
{
    return cudaMemcpyAsync(to, c->c[stream], bytes, cudaMemcpyDeviceToHost, c->streams[stream]) ==
               cudaSuccess &&
           cudaStreamSynchronize(c->streams[stream]) == cudaSuccess;
}

/* Computes `rows` rows from `first` on by themselves, and compares them with the same rows of the
 * launch of all rows. */
static bool rows_agree(struct shared_launch_check *c, struct gemm_problem problem, uint64_t first,
                       uint64_t rows)
{
    const uint64_t line = problem.n * dtype_size(problem.out);
    problem.m = rows;
    problem.a = (const char *)c->a + first * problem.k * dtype_size(problem.dtype);
    snprintf(c->why, sizeof c->why, "rows %" PRIu64 " to %" PRIu64 " by themselves", first,
             first + rows - 1);
    return enqueue(c, 0, problem) && fetch(c, 0, c->got, rows * line) &&
           memcmp(c->got, c->expected + first * line, rows * line) == 0;
}

static bool stacks_agree(struct shared_launch_check *c, const struct gemm_problem *problem)
{
    static const uint64_t heights[] = {1, 2, 63, 64, 65, 128, 129, 300, 1000};
    static const uint64_t starts[STARTS] = {0, 777, 1099};
    for (unsigned h = 0; h < sizeof heights / sizeof heights[0]; h++)
        for (unsigned s = 0; s < STARTS; s++)
            if (!rows_agree(c, *problem, starts[s], heights[h]))
                return false;
    return true;
}

/* Computes all rows as a batch of two problems, each with half of the rows and the same B. */
static bool batch_agrees(struct shared_launch_check *c, struct gemm_problem problem)
{
    snprintf(c->why, sizeof c->why, "as a batch of two");
    problem.m = M / 2;
    problem.batch = 2;
    problem.stride_a = M / 2 * problem.k;
    problem.stride_c = problem.stride_c0 = M / 2 * problem.n;
    return enqueue(c, 0, problem) && fetch(c, 0, c->got, c->c_bytes) &&
           memcmp(c->got, c->expected, c->c_bytes) == 0;
}

static bool streams_agree(struct shared_launch_check *c, const struct gemm_problem *problem)
{
    for (unsigned i = 0; i < TIMES / STREAMS; i++) {
        for (unsigned s = 0; s < STREAMS; s++)
            if (!enqueue(c, s, *problem))
                return false;
        for (unsigned s = 0; s < STREAMS; s++) {
            snprintf(c->why, sizeof c->why, "time %u on stream %u", i, s);
            if (!fetch(c, s, c->got, c->c_bytes) || memcmp(c->got, c->expected, c->c_bytes) != 0)
                return false;
        }
    }
    return true;
}

static bool check_agrees(struct shared_launch_check *c)
{
    for (unsigned fused = 0; fused < 2; fused++) {
        struct gemm_problem problem = c->problem;
        problem.bias = fused ? c->bias : NULL;
        problem.act = !fused                     ? GEMM_ACT_NONE
                      : problem.out == GEMMD_I32 ? GEMM_ACT_RELU
                                                 : GEMM_ACT_GELU_TANH;
        snprintf(c->why, sizeof c->why, "the launch of all rows");
        if (!enqueue(c, 0, problem) || !fetch(c, 0, c->expected, c->c_bytes) ||
            !stacks_agree(c, &problem) || !batch_agrees(c, problem) || !streams_agree(c, &problem))
            return false;
    }
    return true;
}

static bool check_types(const struct gemm_device *device, struct gemm_problem problem)
{
    struct shared_launch_check check = {.problem = problem};
    bool right = true;
    gemm_problem_contiguous(&check.problem);
    if (operation_select(&operation_gemm, device, "auto", &check.problem, &check.kernel, NULL) !=
            GEMMD_OK ||
        check.kernel->compute_capability == 0)
        return true;
    snprintf(check.why, sizeof check.why, "no memory");
    right = open_check(&check) && check_agrees(&check);
    printf("%-8s %-8s to %-5s%s%s  rows of %" PRIu64 ", k of %" PRIu64 " in any company: %s%s\n",
           check.kernel->name, dtype_name(problem.dtype), dtype_name(problem.out),
           problem.precision == GEMM_PRECISION_TF32 ? " tf32" : "", problem.transb ? " T" : "",
           problem.n, problem.k, right ? "the same bytes" : "OTHER BYTES, ",
           right ? "" : check.why);
    close_check(&check);
    return right;
}

void shared_launch_check(const struct gemm_device *device, uint64_t *passed, uint64_t *failed)
{
    enum { SHAPE_COUNT = sizeof SHAPES / sizeof SHAPES[0], VARIANTS = 4 };
    for (uint32_t i = 0; i < case_types_count() * SHAPE_COUNT * VARIANTS; i++) {
        const struct case_types types = case_types[i / VARIANTS / SHAPE_COUNT];
        const uint64_t *shape = SHAPES[i / VARIANTS % SHAPE_COUNT];
        const struct gemm_problem problem = {.dtype = types.dtype,
                                             .out = types.out,
                                             .precision =
                                                 i & 1 ? GEMM_PRECISION_TF32 : GEMM_PRECISION_FULL,
                                             .transb = i & 2,
                                             .m = M,
                                             .n = shape[0],
                                             .k = shape[1],
                                             .batch = 1,
                                             .alpha = 1};
        if (problem.precision == GEMM_PRECISION_TF32 && problem.dtype != GEMMD_F32)
            continue;
        const bool right = check_types(device, problem);
        *passed += right;
        *failed += !right;
    }
}
