/*
 * Each figure is the median of 15 timings of several launches, over operands of 512 MiB, ten times
 * the L2 cache, so that every launch reads from device memory. The last rows of the table of
 * reductions are 64 results of 100,000 elements each, which the L2 cache holds: few results, for
 * which a kernel must divide each over many blocks. GB/s counts operands and results once each.
 */
#include "tests/bench/rows.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/operations.h"
#include "proto/dtype.h"
#include "tests/bench/device.h"

enum { TIMINGS = 15, OPERAND_BYTES = 512 << 20, KERNELS_MAX = 6 };
enum { FEW_LENGTH = 100000, FEW_RESULTS = 64 };

struct rows_bench {
    struct gemm_context *context;
    cudaStream_t stream;
    cudaEvent_t begun, ended;
    unsigned char *x, *y, *workspace;
    uint64_t workspace_bytes;
};

static int by_value(const void *one, const void *other)
{
    const float a = *(const float *)one, b = *(const float *)other;
    return a < b ? -1 : a > b;
}

/* The seconds of one launch; 0: the kernel cannot compute the problem here. */
static double time_kernel(struct rows_bench *bench, const struct operation_kernel *kernel,
                          const void *problem)
{
    float times[TIMINGS];
    uint64_t workspace = 0;
    if (!kernel->takes(problem) || !kernel->workspace_bytes(problem, &workspace) ||
        workspace > bench->workspace_bytes)
        return 0;
    uint32_t launches = 1;
    for (int i = -2; i < TIMINGS; i++) {
        float milliseconds = 0;
        (void)cudaEventRecord(bench->begun, bench->stream);
        for (uint32_t j = 0; j < launches; j++)
            if (operation_run(kernel, bench->context, problem, bench->workspace) != GEMMD_OK)
                return 0;
        (void)cudaEventRecord(bench->ended, bench->stream);
        if (cudaStreamSynchronize(bench->stream) != cudaSuccess)
            return 0;
        (void)cudaEventElapsedTime(&milliseconds, bench->begun, bench->ended);
        if (i == -1) /* the first warms up, the second says how many launches take 2 ms */
            launches = milliseconds >= 2 ? 1 : (uint32_t)(2 / (milliseconds + 1e-3f)) + 1;
        if (i >= 0)
            times[i] = milliseconds / (float)launches;
        if (i >= 2 && milliseconds > 200) { /* a slow kernel: three timings do */
            qsort(times, (size_t)i + 1, sizeof *times, by_value);
            return (double)times[i / 2] * 1e-3;
        }
    }
    qsort(times, TIMINGS, sizeof *times, by_value);
    return (double)times[TIMINGS / 2] * 1e-3;
}

static void make_reduce(struct rows_bench *bench, struct reduce_problem *p, enum gemmd_dtype dtype,
                        enum reduce_op op, uint64_t length, uint64_t rows, bool first)
{
    const struct array_shape shape = {2, {first ? length : rows, first ? rows : length}};
    reduce_problem_of(p, &shape, first ? 0 : 1, shape.dims[1]);
    p->op = op;
    p->dtype = dtype;
    p->out = reduce_default_out(op, dtype);
    p->x = bench->x;
    p->y = bench->y;
}

static void make_softmax(struct rows_bench *bench, struct softmax_problem *p,
                         enum gemmd_dtype dtype, uint64_t length, bool log)
{
    const uint64_t rows = OPERAND_BYTES / dtype_size(dtype) / length;
    const struct array_shape shape = {2, {rows, length}};
    softmax_problem_of(p, &shape, 0);
    p->dtype = p->out = dtype;
    p->log = log;
    p->x = bench->x;
    p->y = bench->y;
}

/* The kernels to measure, ended by NULL. */
static void list_kernels(const struct operation *operation, const char *name,
                         const struct operation_kernel *list[KERNELS_MAX + 1])
{
    const struct operation_kernel *const *k = operation_kernels(operation, GEMM_BACKEND_CUDA);
    uint32_t count = 0;
    for (; *k != NULL && count < KERNELS_MAX; k++)
        if (name == NULL || strcmp(name, (*k)->name) == 0)
            list[count++] = *k;
    list[count] = NULL;
}

/* One row of the table: GB/s of each kernel. */
static void bench_row(struct rows_bench *bench, FILE *to, const struct rows_options *options,
                      const struct operation *operation, const void *problem, const char *what,
                      enum gemmd_dtype dtype, uint64_t length)
{
    const struct operation_kernel *list[KERNELS_MAX + 1], *const *k = list;
    list_kernels(operation, options->kernel, list);
    fprintf(to, "| %s | %s | %llu |", what, dtype_name(dtype), (unsigned long long)length);
    for (; *k != NULL; k++) {
        const double seconds = time_kernel(bench, *k, problem);
        if (seconds > 0)
            fprintf(to, " %.0f |", operation->moved_bytes(problem) / seconds * 1e-9);
        else
            fprintf(to, " - |");
    }
    fprintf(to, "\n");
    fflush(to);
}

/* The rows of reductions of one type and length. `rows` is the number of results. */
static void bench_reductions(struct rows_bench *bench, FILE *to, const struct rows_options *options,
                             enum gemmd_dtype dtype, uint64_t length, uint64_t rows)
{
    static const struct {
        const char *name;
        enum reduce_op op;
        bool first;
    } cases[] = {
        {"sum of rows", REDUCE_SUM, false},
        {"sum over the first axis", REDUCE_SUM, true},
        {"logsumexp of rows", REDUCE_LOGSUMEXP, false},
        {"argmax of rows", REDUCE_ARGMAX, false},
        {"argmax over the first axis", REDUCE_ARGMAX, true},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const enum reduce_op op = cases[i].op;
        union operation_problem problem;
        if (!reduce_offers(op, dtype, reduce_default_out(op, dtype)))
            continue;
        make_reduce(bench, &problem.reduce, dtype, op, length, rows, cases[i].first);
        bench_row(bench, to, options, &operation_reduce, &problem, cases[i].name, dtype, length);
    }
}

static void bench_table(struct rows_bench *bench, FILE *to, const struct rows_options *options)
{
    static const enum gemmd_dtype dtypes[] = {GEMMD_F32, GEMMD_F16, GEMMD_BF16,
                                              GEMMD_F64, GEMMD_I8,  GEMMD_I32};
    static const uint64_t lengths[] = {128,  256,  512,   1000,  1024,  2048,
                                       4096, 8192, 16384, 32768, 65536, 131072};
    const bool reduces = strcmp(options->command, "reduce") == 0;
    const struct operation *operation = reduces ? &operation_reduce : &operation_softmax;
    const struct operation_kernel *list[KERNELS_MAX + 1], *const *k = list;
    const time_t begun = time(NULL);
    uint32_t columns = 3;
    list_kernels(operation, options->kernel, list);
    fprintf(to, "| operation | dtype | length |");
    for (; *k != NULL; k++) {
        fprintf(to, " %s, GB/s |", (*k)->name);
        columns++;
    }
    fprintf(to, "\n|");
    for (uint32_t i = 0; i < columns; i++)
        fprintf(to, "---|");
    fprintf(to, "\n");
    for (uint32_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (uint32_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
            const uint64_t rows = OPERAND_BYTES / dtype_size(dtypes[d]) / lengths[i];
            union operation_problem problem;
            if (options->seconds > 0 && difftime(time(NULL), begun) > options->seconds)
                return;
            if (reduces) {
                bench_reductions(bench, to, options, dtypes[d], lengths[i], rows);
            } else if (softmax_offers(dtypes[d], dtypes[d])) {
                make_softmax(bench, &problem.softmax, dtypes[d], lengths[i], false);
                bench_row(bench, to, options, operation, &problem, "softmax", dtypes[d],
                          lengths[i]);
            }
        }
    for (uint32_t d = 0; reduces && d < sizeof dtypes / sizeof *dtypes; d++)
        bench_reductions(bench, to, options, dtypes[d], FEW_LENGTH, FEW_RESULTS);
}

int bench_rows(const struct rows_options *options)
{
    struct rows_bench bench = {.workspace_bytes = 256 << 20};
    struct fault fault = {.detail = ""};
    int status = 1;
    FILE *to = options->out != NULL ? fopen(options->out, "we") : stdout;
    if (to == NULL) {
        perror(options->out);
        return 1;
    }
    if (cudaStreamCreate(&bench.stream) == cudaSuccess &&
        cudaEventCreate(&bench.begun) == cudaSuccess &&
        cudaEventCreate(&bench.ended) == cudaSuccess &&
        cudaMalloc((void **)&bench.x, OPERAND_BYTES) == cudaSuccess &&
        cudaMalloc((void **)&bench.y, OPERAND_BYTES) == cudaSuccess &&
        cudaMalloc((void **)&bench.workspace, bench.workspace_bytes) == cudaSuccess &&
        bench_fill(bench.x, OPERAND_BYTES / 4, GEMMD_F32, 1) == cudaSuccess &&
        cudaDeviceSynchronize() == cudaSuccess &&
        gemm_context_create(GEMM_BACKEND_CUDA, bench.stream, 0, &bench.context, &fault) ==
            GEMMD_OK) {
        bench_table(&bench, to, options);
        gemm_context_destroy(bench.context);
        status = 0;
    } else {
        fprintf(stderr, "gemmd-bench: %s %s\n", fault.detail,
                cudaGetErrorString(cudaGetLastError()));
    }
    (void)cudaFree(bench.x);
    (void)cudaFree(bench.y);
    (void)cudaFree(bench.workspace);
    if (to != stdout && fclose(to) != 0)
        status = 1;
    return status;
}
