/* Rungs on the GPU: each round gives every kernel some milliseconds, and a kernel's figure is the
 * median over the rounds. Operands are taken in turn from sets that do not fit in the L2. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/dtype.h"
#include "tests/bench/cublaslt.h"
#include "tests/bench/device.h"
#include "tests/bench/ladder.h"
#include "tests/bench/sensors.h"
#include "tests/gpu/tile_kernels.h"

enum { SETS_MAX = 64, ROUNDS = 7, POISON = 0xff };
static const float BLOCK_MS = 3;

struct ladder_cuda {
    cudaStream_t stream;
    cudaEvent_t from, to;
    struct gemm_context *context;
    struct lt lt;
    struct bench_difference *difference;
    struct sensors sensors;
    struct cudaDeviceProp properties;
    bool warm;
};

/* What the measurement of one shape owns. */
struct shape_bench {
    struct gemm_problem problem; /* of set 0 */
    void *a, *b, *c, *workspace; /* `sets` of the first three */
    uint64_t a_bytes, b_bytes, c_bytes;
    double *reference;
    uint32_t sets;
    struct lt_plan lt;
};

static bool succeeded(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return true;
    fprintf(stderr, "gemmd-bench: %s: %s\n", what, cudaGetErrorString(error));
    return false;
}

struct ladder_cuda *ladder_cuda_open(void)
{
    struct fault fault = {0};
    struct ladder_cuda *cuda = calloc(1, sizeof *cuda);
    if (cuda == NULL)
        return NULL;
    bool done =
        succeeded(cudaGetDeviceProperties(&cuda->properties, 0), "the device") &&
        succeeded(cudaStreamCreate(&cuda->stream), "a stream") &&
        succeeded(cudaEventCreate(&cuda->from), "an event") &&
        succeeded(cudaEventCreate(&cuda->to), "an event") &&
        succeeded(cudaMalloc((void **)&cuda->difference, sizeof *cuda->difference), "memory");
    if (done && lt_open(&cuda->lt) != CUBLAS_STATUS_SUCCESS) {
        fprintf(stderr, "gemmd-bench: no cuBLASLt\n");
        done = false;
    }
    if (done && gemm_context_create(GEMM_BACKEND_CUDA, cuda->stream, 0, &cuda->context, &fault) !=
                    GEMMD_OK) {
        fprintf(stderr, "gemmd-bench: %s\n", fault.detail);
        done = false;
    }
    if (!done) {
        ladder_cuda_close(cuda);
        return NULL;
    }
    sensors_open(&cuda->sensors);
    return cuda;
}

void ladder_cuda_close(struct ladder_cuda *cuda)
{
    gemm_context_destroy(cuda->context);
    lt_close(&cuda->lt);
    sensors_close(&cuda->sensors);
    (void)cudaFree(cuda->difference);
    if (cuda->from != NULL)
        (void)cudaEventDestroy(cuda->from);
    if (cuda->to != NULL)
        (void)cudaEventDestroy(cuda->to);
    if (cuda->stream != NULL)
        (void)cudaStreamDestroy(cuda->stream);
    free(cuda);
}

const char *ladder_cuda_device(const struct ladder_cuda *cuda)
{
    return cuda->properties.name;
}

void ladder_cuda_state(const struct ladder_cuda *cuda, FILE *to)
{
    int driver = 0, runtime = 0;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    fprintf(to,
            "%d multiprocessors, L2 %d MiB; CUDA runtime %d, driver %d, cuBLASLt %zu; %u MHz, %u W "
            "at the end",
            cuda->properties.multiProcessorCount, cuda->properties.l2CacheSize >> 20, runtime,
            driver, cublasLtGetVersion(), sensors_clock_mhz(&cuda->sensors),
            sensors_power_watts(&cuda->sensors));
}

uint32_t ladder_cuda_tiles(const struct ladder_cuda *cuda, const struct gemm_problem *shape,
                           const struct operation_kernel *kernels[], uint32_t max)
{
    const struct gemm_device device = {
        .backend = GEMM_BACKEND_CUDA,
        .compute_capability = (uint32_t)(10 * cuda->properties.major + cuda->properties.minor)};
    uint32_t count = 0;
    for (const struct operation_kernel *tile = tile_kernels; tile->name != NULL && count < max;
         tile++)
        if (operation_kernel_runs_on(&operation_gemm, tile, &device) && tile->takes(shape))
            kernels[count++] = tile;
    return count;
}

/* One product, of set `set`. */
static bool enqueue(struct ladder_cuda *cuda, const struct shape_bench *s,
                    const struct operation_kernel *kernel, uint32_t set)
{
    struct gemm_problem p = s->problem;
    p.a = (char *)s->a + s->a_bytes * set;
    p.b = (char *)s->b + s->b_bytes * set;
    p.c = (char *)s->c + s->c_bytes * set;
    if (kernel == NULL)
        return lt_enqueue(&cuda->lt, &s->lt, s->lt.best, p.a, p.b, p.c, cuda->stream) ==
               CUBLAS_STATUS_SUCCESS;
    return operation_run(kernel, cuda->context, &p, s->workspace) == GEMMD_OK;
}

/* Milliseconds of one of `count` products; negative if one failed. */
static float time_block(struct ladder_cuda *cuda, const struct shape_bench *s,
                        const struct operation_kernel *kernel, int count)
{
    float ms = 0;
    bool done = cudaEventRecord(cuda->from, cuda->stream) == cudaSuccess;
    for (int i = 0; i < count && done; i++)
        done = enqueue(cuda, s, kernel, (uint32_t)i % s->sets);
    done = done && cudaEventRecord(cuda->to, cuda->stream) == cudaSuccess &&
           cudaEventSynchronize(cuda->to) == cudaSuccess &&
           cudaEventElapsedTime(&ms, cuda->from, cuda->to) == cudaSuccess;
    return done ? ms / (float)count : -1;
}

static int products_for(float milliseconds, float each)
{
    const float count = milliseconds / fmaxf(each, 1e-3f);
    return count < 1 ? 1 : count > 2000 ? 2000 : (int)count;
}

static int compare_floats(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static bool set_up(struct ladder_cuda *cuda, const struct gemm_problem *shape,
                   const struct operation_kernel *const kernels[], uint32_t count,
                   struct shape_bench *s)
{
    struct gemm_problem *p = &s->problem;
    *s = (struct shape_bench){.problem = *shape};
    p->batch = 1;
    p->alpha = 1;
    gemm_problem_contiguous(p);
    const uint64_t element = dtype_size(p->dtype);
    s->a_bytes = (p->m * p->k * element + 255) / 256 * 256;
    s->b_bytes = (p->k * p->n * element + 255) / 256 * 256;
    s->c_bytes = (p->m * p->n * dtype_size(p->out) + 255) / 256 * 256;
    const double sets =
        ceil(2.0 * cuda->properties.l2CacheSize / (double)(s->a_bytes + s->b_bytes + s->c_bytes));
    s->sets = sets < 2 ? 2 : sets > SETS_MAX ? SETS_MAX : (uint32_t)sets;
    uint64_t workspace = 256;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t bytes = 0;
        if (kernels[i] != NULL && kernels[i]->workspace_bytes(p, &bytes) && bytes > workspace)
            workspace = bytes;
    }
    if (!succeeded(cudaMalloc(&s->a, s->a_bytes * s->sets), "memory") ||
        !succeeded(cudaMalloc(&s->b, s->b_bytes * s->sets), "memory") ||
        !succeeded(cudaMalloc(&s->c, s->c_bytes * s->sets), "memory") ||
        !succeeded(cudaMalloc(&s->workspace, workspace), "memory") ||
        !succeeded(cudaMalloc((void **)&s->reference, p->m * p->n * sizeof *s->reference),
                   "memory"))
        return false;
    p->a = s->a;
    p->b = s->b;
    p->c = s->c;
    if (lt_plan_create(&cuda->lt, p, &s->lt) != CUBLAS_STATUS_SUCCESS) {
        fprintf(stderr, "gemmd-bench: cuBLASLt has no candidate\n");
        return false;
    }
    const struct bench_product product = {.dtype = p->dtype,
                                          .out = p->out,
                                          .transa = p->transa,
                                          .transb = p->transb,
                                          .m = p->m,
                                          .n = p->n,
                                          .k = p->k,
                                          .batch = 1,
                                          .lda = p->lda,
                                          .ldb = p->ldb,
                                          .alpha = 1,
                                          .a = p->a,
                                          .b = p->b};
    return succeeded(bench_fill(s->a, s->a_bytes / element * s->sets, p->dtype, 1), "operands") &&
           succeeded(bench_fill(s->b, s->b_bytes / element * s->sets, p->dtype, 2), "operands") &&
           succeeded(bench_reference(&product, s->reference), "the reference") &&
           succeeded(cudaDeviceSynchronize(), "the reference");
}

static void tear_down(struct shape_bench *s)
{
    (void)cudaFree(s->a);
    (void)cudaFree(s->b);
    (void)cudaFree(s->c);
    (void)cudaFree(s->workspace);
    (void)cudaFree(s->reference);
    lt_plan_destroy(&s->lt);
}

/* Its result for set 0 against a sum in f64; what a chain of multiply-adds loses is far less than
 * this allows, and what a wrong element shows far more. */
static bool check(struct ladder_cuda *cuda, const struct shape_bench *s,
                  const struct operation_kernel *kernel)
{
    const struct gemm_problem *p = &s->problem;
    const char *name = kernel != NULL ? kernel->name : "cuBLASLt";
    struct bench_difference difference = {.first_bad = UINT64_MAX};
    const double rounding = p->out == GEMMD_F32 ? 0x1p-23 : p->out == GEMMD_F16 ? 0x1p-10 : 0x1p-7;
    if (!succeeded(cudaMemset(s->c, POISON, s->c_bytes), "poisoning") ||
        !succeeded(
            cudaMemcpy(cuda->difference, &difference, sizeof difference, cudaMemcpyHostToDevice),
            "a copy"))
        return false;
    if (!succeeded(cudaDeviceSynchronize(), name) || !enqueue(cuda, s, kernel, 0) ||
        !succeeded(cudaDeviceSynchronize(), name)) {
        fprintf(stderr, "gemmd-bench: %s failed\n", name);
        return false;
    }
    if (!succeeded(bench_compare(s->c, p->out, 1, p->m, p->n, p->ldc, 0, s->reference, NULL,
                                 16 * 0x1p-24 * (double)p->k, rounding, cuda->difference),
                   "the comparison") ||
        !succeeded(
            cudaMemcpy(&difference, cuda->difference, sizeof difference, cudaMemcpyDeviceToHost),
            "a copy"))
        return false;
    if (difference.bad > 0)
        fprintf(stderr,
                "gemmd-bench: %s is wrong in %llu elements of %llu×%llu×%llu, first %llu: %g, not "
                "%g\n",
                name, difference.bad, (unsigned long long)p->m, (unsigned long long)p->n,
                (unsigned long long)p->k, difference.first_bad, difference.first_got,
                difference.first_wanted);
    return difference.bad == 0;
}

/* Leaves the fastest of cuBLASLt's candidates as s->lt.best. */
static void choose_candidate(struct ladder_cuda *cuda, struct shape_bench *s)
{
    float best_ms = INFINITY;
    int best = 0;
    for (int i = 0; i < s->lt.count; i++) {
        float times[3];
        s->lt.best = i;
        const float each = time_block(cuda, s, NULL, 2);
        for (int r = 0; r < 3; r++)
            times[r] = time_block(cuda, s, NULL, products_for(2, each));
        qsort(times, 3, sizeof *times, compare_floats);
        if (times[0] > 0 && times[1] < best_ms) {
            best_ms = times[1];
            best = i;
        }
    }
    s->lt.best = best;
}

/* A second of work, once, so that the clock has settled. */
static void warm_up(struct ladder_cuda *cuda, const struct shape_bench *s)
{
    for (float ms = 0; !cuda->warm && ms >= 0 && ms < 1000;) {
        const int products = products_for(50, time_block(cuda, s, NULL, 2));
        const float each = time_block(cuda, s, NULL, products);
        ms = each < 0 ? -1 : ms + each * (float)products;
    }
    cuda->warm = true;
}

bool ladder_cuda_measure(struct ladder_cuda *cuda, const struct gemm_problem *shape,
                         const struct operation_kernel *const kernels[], uint32_t count,
                         double milliseconds[])
{
    struct shape_bench s;
    float times[LADDER_ROWS][ROUNDS];
    int products[LADDER_ROWS] = {0};
    bool done = set_up(cuda, shape, kernels, count, &s);
    if (done) {
        warm_up(cuda, &s);
        choose_candidate(cuda, &s);
    }
    for (uint32_t i = 0; i < count && done; i++) {
        done = check(cuda, &s, kernels[i]);
        products[i] = products_for(BLOCK_MS, done ? time_block(cuda, &s, kernels[i], 2) : 1);
    }
    for (int r = 0; r < ROUNDS && done; r++) {
        for (uint32_t i = 0; i < count && done; i++) {
            times[i][r] = time_block(cuda, &s, kernels[i], products[i]);
            done = times[i][r] >= 0;
        }
    }
    for (uint32_t i = 0; i < count && done; i++) {
        qsort(times[i], ROUNDS, sizeof times[i][0], compare_floats);
        milliseconds[i] = (double)times[i][ROUNDS / 2];
    }
    tear_down(&s);
    return done;
}
