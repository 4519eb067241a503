/* gemmd-bench-counters: launches for the profiler to count, and their times without it. The tables
 * are made by tests/gpu/counters.py. */
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/revision.h"
#include "tests/bench/counters/counted.h"
#include "tests/bench/device.h"

enum { ROUNDS = 5, POISON = 0xff, SIDE_MIN = 256, SIDE_MAX = 8192 };
static const float BLOCK_MS = 3, WARM_MS = 1000;

static void usage(FILE *to)
{
    fputs(
        "usage: gemmd-bench-counters [--time] [--n N] patterns|rungs|tiles\n"
        "Launches each kernel of a list once, between cudaProfilerStart and cudaProfilerStop and\n"
        "after a kernel counters_marker, and prints \"name<TAB>instructions\" in that order: for "
        "a\n"
        "pattern, the accesses to shared memory that its warps make, otherwise 0.\n"
        "  --time   check every result, then print \"name<TAB>milliseconds\": medians over rounds\n"
        "           in which the kernels take turns\n"
        "  --n N    products of N x N x N, N a multiple of 256 up to 8192 (default 4096)\n",
        to);
}

static bool succeeded(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return true;
    fprintf(stderr, "gemmd-bench-counters: %s: %s\n", what, cudaGetErrorString(error));
    return false;
}

static bool set_up(const struct counted *counted, uint32_t count, uint32_t n,
                   struct counted_space *space)
{
    struct fault fault = {0};
    uint64_t workspace = 256;
    const uint64_t elements = (uint64_t)n * n, bytes = elements * sizeof(float);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t needed = 0;
        if (counted[i].kernel != NULL &&
            counted[i].kernel->workspace_bytes(&counted[i].problem, &needed) && needed > workspace)
            workspace = needed;
    }
    if (!succeeded(cudaStreamCreate(&space->stream), "a stream") ||
        !succeeded(cudaMalloc(&space->a, bytes), "memory") ||
        !succeeded(cudaMalloc(&space->b, bytes), "memory") ||
        !succeeded(cudaMalloc(&space->c, bytes), "memory") ||
        !succeeded(cudaMalloc(&space->workspace, workspace), "memory"))
        return false;
    if (gemm_context_create(GEMM_BACKEND_CUDA, space->stream, 0, &space->context, &fault) ==
        GEMMD_OK)
        return true;
    fprintf(stderr, "gemmd-bench-counters: %s\n", fault.detail);
    return false;
}

static void tear_down(struct counted_space *space)
{
    if (space->context != NULL)
        gemm_context_destroy(space->context);
    (void)cudaFree(space->a);
    (void)cudaFree(space->b);
    (void)cudaFree(space->c);
    (void)cudaFree(space->workspace);
    if (space->stream != NULL)
        (void)cudaStreamDestroy(space->stream);
}

/* Operands of a type, uniform in [-1, 1]. */
static bool fill(const struct counted_space *space, enum gemmd_dtype dtype, uint32_t n)
{
    const uint64_t elements = (uint64_t)n * n;
    return succeeded(bench_fill(space->a, elements, dtype, 1), "operands") &&
           succeeded(bench_fill(space->b, elements, dtype, 2), "operands") &&
           succeeded(cudaDeviceSynchronize(), "operands");
}

static bool check_pattern(const struct counted *counted, const struct counted_space *space)
{
    float sums[PATTERN_THREADS];
    if (!succeeded(cudaMemset(space->c, POISON, sizeof sums), "poisoning") ||
        !counted_enqueue(counted, space) || !succeeded(cudaDeviceSynchronize(), counted->name) ||
        !succeeded(cudaMemcpy(sums, space->c, sizeof sums, cudaMemcpyDeviceToHost), "a copy"))
        return false;
    for (uint32_t i = 0; i < PATTERN_THREADS; i++)
        if ((double)sums[i] != counted->pattern->sum(i % 32, PATTERN_REPEATS)) {
            fprintf(stderr, "gemmd-bench-counters: %s: %g in thread %u, not %g\n", counted->name,
                    (double)sums[i], i, counted->pattern->sum(i % 32, PATTERN_REPEATS));
            return false;
        }
    return true;
}

/* A product against a sum in f64. What a chain of multiply-adds loses is far less than the bound,
 * and what a wrong element shows far more. */
static bool check_product(const struct counted *counted, const struct counted_space *space)
{
    const struct gemm_problem *p = &counted->problem;
    const struct bench_product product = {.dtype = p->dtype,
                                          .out = p->out,
                                          .transb = p->transb,
                                          .m = p->m,
                                          .n = p->n,
                                          .k = p->k,
                                          .batch = 1,
                                          .lda = p->lda,
                                          .ldb = p->ldb,
                                          .alpha = 1,
                                          .a = space->a,
                                          .b = space->b};
    const double rounding = p->out == GEMMD_F32 ? 0x1p-23 : 0x1p-10;
    struct bench_difference found = {.first_bad = UINT64_MAX}, *difference = NULL;
    double *reference = NULL;
    bool done =
        succeeded(cudaMalloc((void **)&reference, p->m * p->n * sizeof *reference), "memory") &&
        succeeded(cudaMalloc((void **)&difference, sizeof *difference), "memory") &&
        succeeded(cudaMemcpy(difference, &found, sizeof found, cudaMemcpyHostToDevice), "a copy") &&
        succeeded(bench_reference(&product, reference), "the reference") &&
        succeeded(cudaMemset(space->c, POISON, p->m * p->n * sizeof(float)), "poisoning") &&
        succeeded(cudaDeviceSynchronize(), "the reference") && counted_enqueue(counted, space) &&
        succeeded(cudaDeviceSynchronize(), counted->name) &&
        succeeded(bench_compare(space->c, p->out, 1, p->m, p->n, p->ldc, 0, reference, NULL,
                                16 * 0x1p-24 * (double)p->k, rounding, difference),
                  "the comparison") &&
        succeeded(cudaMemcpy(&found, difference, sizeof found, cudaMemcpyDeviceToHost), "a copy");
    if (done && found.bad > 0) {
        fprintf(stderr,
                "gemmd-bench-counters: %s is wrong in %llu elements, first %llu: %g, not %g\n",
                counted->name, found.bad, found.first_bad, found.first_got, found.first_wanted);
        done = false;
    }
    (void)cudaFree(reference);
    (void)cudaFree(difference);
    return done;
}

/* Milliseconds of one of `launches` launches; negative if one failed. */
static float time_block(const struct counted *counted, const struct counted_space *space,
                        cudaEvent_t from, cudaEvent_t to, int launches)
{
    float ms = 0;
    bool done = cudaEventRecord(from, space->stream) == cudaSuccess;
    for (int i = 0; i < launches && done; i++)
        done = counted_enqueue(counted, space);
    done = done && cudaEventRecord(to, space->stream) == cudaSuccess &&
           cudaEventSynchronize(to) == cudaSuccess &&
           cudaEventElapsedTime(&ms, from, to) == cudaSuccess;
    return done ? ms / (float)launches : -1;
}

static int compare_floats(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Types change rarely, so operands are filled when the type of the next launch is another. */
static bool fill_for(const struct counted *counted, const struct counted_space *space, uint32_t n,
                     const struct counted **before)
{
    const bool same = *before != NULL && (*before)->problem.dtype == counted->problem.dtype;
    *before = counted;
    return counted->pattern != NULL || same || fill(space, counted->problem.dtype, n);
}

static bool time_all(const struct counted *counted, uint32_t count, uint32_t n,
                     const struct counted_space *space, cudaEvent_t from, cudaEvent_t to)
{
    float times[COUNTED_MAX][ROUNDS];
    int launches[COUNTED_MAX];
    const struct counted *before = NULL;
    for (float warm = 0; warm < WARM_MS;) {
        const float ms = time_block(&counted[count - 1], space, from, to, 10);
        if (ms < 0)
            return succeeded(cudaGetLastError(), "warming up");
        warm += 10 * ms;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!fill_for(&counted[i], space, n, &before) ||
            !(counted[i].pattern != NULL ? check_pattern(&counted[i], space)
                                         : check_product(&counted[i], space)))
            return false;
        const float each = time_block(&counted[i], space, from, to, 2);
        launches[i] = (int)fminf(fmaxf(BLOCK_MS / fmaxf(each, 1e-3f), 1), 500);
    }
    for (int r = 0; r < ROUNDS; r++)
        for (uint32_t i = 0; i < count; i++) {
            if (!fill_for(&counted[i], space, n, &before))
                return false;
            times[i][r] = time_block(&counted[i], space, from, to, launches[i]);
            if (times[i][r] < 0)
                return succeeded(cudaGetLastError(), counted[i].name);
        }
    for (uint32_t i = 0; i < count; i++) {
        qsort(times[i], ROUNDS, sizeof times[i][0], compare_floats);
        printf("%s\t%.6f\n", counted[i].name, (double)times[i][ROUNDS / 2]);
    }
    return true;
}

static bool launch_all(const struct counted *counted, uint32_t count, uint32_t n,
                       const struct counted_space *space)
{
    const struct counted *before = NULL;
    for (uint32_t i = 0; i < count; i++) {
        if (!fill_for(&counted[i], space, n, &before) ||
            !succeeded(cudaProfilerStart(), "the profiler") ||
            !succeeded(counters_mark(space->stream), "the marker") ||
            !counted_enqueue(&counted[i], space) ||
            !succeeded(cudaDeviceSynchronize(), counted[i].name) ||
            !succeeded(cudaProfilerStop(), "the profiler"))
            return false;
        printf("%s\t%llu\n", counted[i].name, counted_instructions(&counted[i], space));
    }
    return true;
}

int main(int argc, char **argv)
{
    enum { TIME = 1, N, VERSION, HELP };
    static const struct option OPTIONS[] = {{"time", no_argument, NULL, TIME},
                                            {"n", required_argument, NULL, N},
                                            {"version", no_argument, NULL, VERSION},
                                            {"help", no_argument, NULL, HELP},
                                            {NULL, 0, NULL, 0}};
    bool timed = false;
    unsigned long n = 4096;
    for (int c; (c = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1;) {
        if (c == TIME) {
            timed = true;
        } else if (c == N) {
            n = strtoul(optarg, NULL, 10);
        } else if (c == VERSION) {
            printf("gemmd " GEMMD_VERSION " (%s)\n", gemmd_revision);
            return 0;
        } else {
            usage(c == HELP ? stdout : stderr);
            return c == HELP ? 0 : 2;
        }
    }
    struct counted counted[COUNTED_MAX];
    struct counted_space space = {0};
    const bool fits = n % SIDE_MIN == 0 && n >= SIDE_MIN && n <= SIDE_MAX;
    const uint32_t count =
        optind + 1 == argc && fits ? counted_list(argv[optind], (uint32_t)n, counted) : 0;
    if (count == 0) {
        usage(stderr);
        return 2;
    }
    cudaEvent_t from = NULL, to = NULL;
    bool done = set_up(counted, count, (uint32_t)n, &space) &&
                succeeded(cudaEventCreate(&from), "an event") &&
                succeeded(cudaEventCreate(&to), "an event") &&
                (timed ? time_all(counted, count, (uint32_t)n, &space, from, to)
                       : launch_all(counted, count, (uint32_t)n, &space));
    if (from != NULL)
        (void)cudaEventDestroy(from);
    if (to != NULL)
        (void)cudaEventDestroy(to);
    tear_down(&space);
    return done && fflush(stdout) == 0 ? 0 : 1;
}
