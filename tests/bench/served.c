/* See served.h. */
#include "tests/bench/served.h"
#include "proto/revision.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/operations.h"
#include "proto/dtype.h"
#include "tests/bench/cublaslt.h"
#include "tests/bench/device.h"
#include "tests/bench/kernels.h"

enum { SETS_MAX = 64, ROUNDS = 7, PARTICIPANTS = 3, OWN = 0, CUBLAS = 1, LT = 2 };
static const double SET_BYTES = 100e6; /* twice the L2 */

struct shape {
    uint64_t m, n, k;
};

static const struct shape SQUARES[] = {
    {512, 512, 512}, {1024, 1024, 1024}, {2048, 2048, 2048}, {4096, 4096, 4096}, {8192, 8192, 8192},
};
static const struct shape WEIGHTS[] = {
    {1, 4096, 4096},    {16, 4096, 4096},   {64, 4096, 4096},    {256, 4096, 4096},
    {1024, 4096, 4096}, {256, 14336, 4096}, {4096, 14336, 4096},
};
static const struct shape ODD[] = {
    {4097, 4095, 4099}, {333, 777, 1001}, {1001, 1001, 1001}, {511, 2049, 4095}, {100, 30000, 513},
};

/* Few columns, for which k is computed in chunks. */
static const struct shape DEEP[] = {
    {1, 16, 4096},     {64, 64, 4096},      {4096, 16, 4096},   {4096, 64, 4096},
    {16, 64, 14336},   {1024, 64, 14336},   {4096, 64, 14336},  {16, 128, 14336},
    {64, 256, 16384},  {1024, 256, 16384},  {4096, 256, 16384}, {64, 64, 65536},
    {64, 64, 1048576}, {200, 200, 1000000},
};
static const struct {
    const struct shape *shapes;
    size_t count;
} LISTS[] = {
    {SQUARES, sizeof SQUARES / sizeof *SQUARES},
    {WEIGHTS, sizeof WEIGHTS / sizeof *WEIGHTS},
    {ODD, sizeof ODD / sizeof *ODD},
    {DEEP, sizeof DEEP / sizeof *DEEP},
};
enum { ORDINARY = 1 | 2, ODD_SIZES = 4, DEEP_SIZES = 8 }; /* sets of these lists */

/* A table: one type and one way for the operands to lie. */
struct group {
    const char *name, *title;
    enum gemmd_dtype dtype, out;
    enum gemm_precision precision;
    bool transb;
    int lists;
    bool fused;
};

static const struct group GROUPS[] = {
    {"f32", "f32, precision full", GEMMD_F32, GEMMD_F32, GEMM_PRECISION_FULL, 0, ORDINARY, 0},
    {"tf32", "tf32, B stored [k, n]", GEMMD_F32, GEMMD_F32, GEMM_PRECISION_TF32, 0, ORDINARY, 0},
    {"tf32t", "tf32, B stored [n, k]", GEMMD_F32, GEMMD_F32, GEMM_PRECISION_TF32, 1, ORDINARY, 0},
    {"i8", "i8, B stored [k, n]", GEMMD_I8, GEMMD_I32, GEMM_PRECISION_FULL, 0, ORDINARY, 0},
    {"i8t", "i8, B stored [n, k]", GEMMD_I8, GEMMD_I32, GEMM_PRECISION_FULL, 1, ORDINARY, 0},
    {"f8", "f8_e4m3, B stored [k, n]", GEMMD_F8_E4M3, GEMMD_BF16, GEMM_PRECISION_FULL, 0, ORDINARY,
     0},
    {"f8t", "f8_e4m3, B stored [n, k]", GEMMD_F8_E4M3, GEMMD_BF16, GEMM_PRECISION_FULL, 1, ORDINARY,
     0},
    {"f8p", "f8_e4m3, precision f8, B stored [n, k]", GEMMD_F8_E4M3, GEMMD_BF16, GEMM_PRECISION_F8,
     1, ORDINARY, 0},
    {"bf16", "bf16", GEMMD_BF16, GEMMD_BF16, GEMM_PRECISION_FULL, 0, ORDINARY, 0},
    {"fused", "bf16 with bias and gelu_tanh", GEMMD_BF16, GEMMD_BF16, GEMM_PRECISION_FULL, 0,
     ORDINARY, 1},
    {"f32out", "bf16 to f32", GEMMD_BF16, GEMMD_F32, GEMM_PRECISION_FULL, 0, ORDINARY, 0},
    {"odd", "bf16, odd sizes, contiguous", GEMMD_BF16, GEMMD_BF16, GEMM_PRECISION_FULL, 0,
     ODD_SIZES, 0},
    {"odd32", "f32, odd sizes, contiguous", GEMMD_F32, GEMMD_F32, GEMM_PRECISION_FULL, 0, ODD_SIZES,
     0},
    {"deep", "bf16, few columns", GEMMD_BF16, GEMMD_BF16, GEMM_PRECISION_FULL, 0, DEEP_SIZES, 0},
    {"deep32", "tf32, few columns", GEMMD_F32, GEMMD_F32, GEMM_PRECISION_TF32, 0, DEEP_SIZES, 0},
    {"deep8", "i8, few columns, B stored [n, k]", GEMMD_I8, GEMMD_I32, GEMM_PRECISION_FULL, 1,
     DEEP_SIZES, 0},
};

/* Everything that lasts. */
struct served {
    cudaStream_t stream;
    struct gemm_context *context;
    const struct operation_kernel *kernels[2]; /* own, cublas */
    struct gemm_device device;
    struct lt lt;
    double deadline;
};

/* One row of a table. */
struct row {
    struct gemm_problem problem;
    void *a, *b, *c, *bias, *workspace;
    uint64_t a_bytes, b_bytes, c_bytes;
    uint32_t sets;
    struct lt_plan plan;
    bool takes_part[PARTICIPANTS];
};

static const struct operation_kernel *kernel_named(const char *name)
{
    const struct operation_kernel *const *k = operation_kernels(&operation_gemm, GEMM_BACKEND_CUDA);
    while (*k != NULL && strcmp((*k)->name, name) != 0) {
        k++;
    }
    return *k;
}

static void enqueue(const struct served *s, const struct row *row, int participant, uint32_t set)
{
    struct gemm_problem problem = row->problem;
    problem.a = (char *)row->a + set * row->a_bytes;
    problem.b = (char *)row->b + set * row->b_bytes;
    problem.c = (char *)row->c + set * row->c_bytes;
    if (participant == LT) {
        lt_enqueue(&s->lt, &row->plan, row->plan.best, problem.a, problem.b, problem.c, s->stream);
    } else {
        (void)operation_run(s->kernels[participant], s->context, &problem, row->workspace);
    }
}

/* Milliseconds of one product, from `count` of them. */
static float time_block(const struct served *s, const struct row *row, int participant, int count)
{
    cudaEvent_t from, to;
    float ms = 0;
    cudaEventCreate(&from);
    cudaEventCreate(&to);
    cudaEventRecord(from, s->stream);
    for (int i = 0; i < count; i++) {
        enqueue(s, row, participant, (uint32_t)i % row->sets);
    }
    cudaEventRecord(to, s->stream);
    cudaEventSynchronize(to);
    cudaEventElapsedTime(&ms, from, to);
    cudaEventDestroy(from);
    cudaEventDestroy(to);
    return ms / (float)count;
}

static int compare_floats(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static int launches_for(float milliseconds, float each)
{
    const float count = milliseconds / fmaxf(each, 1e-3f);
    return count < 1 ? 1 : count > 500 ? 500 : (int)count;
}

static void choose_candidate(const struct served *s, struct row *row)
{
    float best = INFINITY;
    int chosen = 0;
    for (int i = 0; i < row->plan.count; i++) {
        row->plan.best = i;
        float each = time_block(s, row, LT, 2);
        each = fminf(time_block(s, row, LT, launches_for(2, each)),
                     time_block(s, row, LT, launches_for(2, each)));
        if (cudaGetLastError() == cudaSuccess && each < best) {
            best = each;
            chosen = i;
        }
    }
    row->plan.best = chosen;
}

static void tear_down(struct row *row)
{
    cudaFree(row->a);
    cudaFree(row->b);
    cudaFree(row->c);
    cudaFree(row->bias);
    cudaFree(row->workspace);
    lt_plan_destroy(&row->plan);
}

static bool set_up(const struct served *s, const struct group *g, const struct shape *shape,
                   struct row *row)
{
    *row = (struct row){.problem = {.dtype = g->dtype,
                                    .out = g->out,
                                    .precision = g->precision,
                                    .act = g->fused ? GEMM_ACT_GELU_TANH : GEMM_ACT_NONE,
                                    .transb = g->transb,
                                    .m = shape->m,
                                    .n = shape->n,
                                    .k = shape->k,
                                    .batch = 1,
                                    .alpha = 1}};
    struct gemm_problem *p = &row->problem;
    gemm_problem_contiguous(p);
    const uint64_t element = dtype_size(p->dtype);
    row->a_bytes = (p->m * p->k * element + 255) / 256 * 256;
    row->b_bytes = (p->k * p->n * element + 255) / 256 * 256;
    row->c_bytes = (p->m * p->n * dtype_size(p->out) + 255) / 256 * 256;
    const double sets = ceil(SET_BYTES / (double)(row->a_bytes + row->b_bytes + row->c_bytes));
    row->sets = sets < 2 ? 2 : sets > SETS_MAX ? SETS_MAX : (uint32_t)sets;
    uint64_t workspace = 0;
    for (int i = 0; i < 2; i++) {
        uint64_t bytes;
        row->takes_part[i] = s->kernels[i]->takes(p) && s->kernels[i]->workspace_bytes(p, &bytes);
        workspace = row->takes_part[i] && bytes > workspace ? bytes : workspace;
    }
    if (cudaMalloc(&row->a, row->a_bytes * row->sets) != cudaSuccess ||
        cudaMalloc(&row->b, row->b_bytes * row->sets) != cudaSuccess ||
        cudaMalloc(&row->c, row->c_bytes * row->sets) != cudaSuccess ||
        cudaMalloc(&row->bias, p->n * dtype_size(p->out)) != cudaSuccess ||
        cudaMalloc(&row->workspace, workspace + 256) != cudaSuccess ||
        bench_fill(row->a, row->a_bytes / element * row->sets, p->dtype, 1) != cudaSuccess ||
        bench_fill(row->b, row->b_bytes / element * row->sets, p->dtype, 2) != cudaSuccess ||
        bench_fill(row->bias, p->n, p->out, 3) != cudaSuccess) {
        return false;
    }
    row->takes_part[LT] = lt_plan_create(&s->lt, p, &row->plan) == CUBLAS_STATUS_SUCCESS;
    p->bias = g->fused ? row->bias : NULL; /* cuBLASLt computes the plain product */
    return cudaDeviceSynchronize() == cudaSuccess;
}

/* Relative difference of our result from the library's; also proves that ours was written. */
static double difference(const struct served *s, const struct row *row)
{
    const struct gemm_problem *p = &row->problem;
    struct bench_difference start = {.first_bad = UINT64_MAX}, *on_device = NULL;
    void *expected = NULL;
    double result = NAN;
    if (cudaMalloc((void **)&on_device, sizeof start) == cudaSuccess &&
        cudaMalloc(&expected, row->c_bytes) == cudaSuccess) {
        cudaMemset(row->c, 0xFF, row->c_bytes);
        enqueue(s, row, CUBLAS, 0);
        cudaStreamSynchronize(s->stream);
        cudaMemcpy(expected, row->c, row->c_bytes, cudaMemcpyDeviceToDevice);
        cudaMemset(row->c, 0xFF, row->c_bytes);
        cudaMemcpy(on_device, &start, sizeof start, cudaMemcpyHostToDevice);
        cudaDeviceSynchronize();
        enqueue(s, row, OWN, 0);
        cudaStreamSynchronize(s->stream);
        bench_compare(row->c, p->out, 1, p->m, p->n, p->ldc, 0, NULL, expected, INFINITY, 0,
                      on_device);
        if (cudaMemcpy(&start, on_device, sizeof start, cudaMemcpyDeviceToHost) == cudaSuccess) {
            result = start.bad > 0 ? NAN : sqrt(start.squares / start.reference_squares);
        }
    }
    cudaFree(expected);
    cudaFree(on_device);
    return result;
}

static void measure(const struct served *s, struct row *row, float *milliseconds)
{
    float times[PARTICIPANTS][ROUNDS] = {0};
    int counts[PARTICIPANTS] = {0};
    for (int i = 0; i < PARTICIPANTS; i++) {
        if (row->takes_part[i]) {
            counts[i] = launches_for(5, time_block(s, row, i, 3));
        }
    }
    for (int r = 0; r < ROUNDS; r++) {
        for (int i = 0; i < PARTICIPANTS; i++) {
            times[i][r] = counts[i] > 0 ? time_block(s, row, i, counts[i]) : 0;
        }
    }
    for (int i = 0; i < PARTICIPANTS; i++) {
        qsort(times[i], ROUNDS, sizeof(float), compare_floats);
        milliseconds[i] = times[i][ROUNDS / 2];
    }
}

static double tera(const struct gemm_problem *p, float milliseconds)
{
    return milliseconds > 0
               ? 2.0 * (double)p->m * (double)p->n * (double)p->k / ((double)milliseconds * 1e9)
               : 0;
}

/* Of all rows against cublas and against cuBLASLt. */
struct means {
    double sums[2];
    int rows[2];
};

static bool measure_shape(const struct served *s, const struct group *g, const struct shape *shape,
                          FILE *to, struct means *means)
{
    struct row row;
    float ms[PARTICIPANTS];
    const struct operation_kernel *chosen = NULL;
    if (!set_up(s, g, shape, &row)) {
        fprintf(stderr, "gemmd-bench: %s\n", cudaGetErrorString(cudaGetLastError()));
        tear_down(&row);
        return false;
    }
    if (row.takes_part[LT]) {
        choose_candidate(s, &row);
    }
    const double off = row.takes_part[OWN] ? difference(s, &row) : NAN;
    measure(s, &row, ms);
    (void)operation_select(&operation_gemm, &s->device, "auto", &row.problem, &chosen, NULL);
    fprintf(to, "| %llu×%llu×%llu | %.1f | %.1f | %.1f | %.1f |", (unsigned long long)shape->m,
            (unsigned long long)shape->n, (unsigned long long)shape->k, tera(&row.problem, ms[OWN]),
            (double)ms[OWN] * 1e3, tera(&row.problem, ms[CUBLAS]), tera(&row.problem, ms[LT]));
    for (int i = CUBLAS; i <= LT; i++) {
        if (ms[i] > 0 && ms[OWN] > 0) {
            fprintf(to, " %.2f |", (double)(ms[i] / ms[OWN]));
            means->sums[i - 1] += log((double)(ms[i] / ms[OWN]));
            means->rows[i - 1]++;
        } else {
            fprintf(to, " |");
        }
    }
    fprintf(to, " %s | %.1e |\n", chosen != NULL ? chosen->name : "none", off);
    fflush(to);
    tear_down(&row);
    return true;
}

static bool measure_group(const struct served *s, const struct group *g, FILE *to)
{
    struct means means = {0};
    fprintf(to,
            "\n### %s\n\n| m×n×k | %s | µs | cublas | cuBLASLt best | own/cublas | own/cuBLASLt |"
            " auto | difference |\n|---|---|---|---|---|---|---|---|---|\n",
            g->title, s->kernels[OWN]->name);
    for (size_t list = 0; list < sizeof LISTS / sizeof *LISTS; list++) {
        for (size_t i = 0; (g->lists >> list & 1) && i < LISTS[list].count; i++) {
            if (bench_now() < s->deadline &&
                !measure_shape(s, g, &LISTS[list].shapes[i], to, &means)) {
                return false;
            }
        }
    }
    fprintf(to, "\nGeometric mean against cublas %.3f over %d, against cuBLASLt %.3f over %d.\n",
            exp(means.sums[0] / fmax(1, means.rows[0])), means.rows[0],
            exp(means.sums[1] / fmax(1, means.rows[1])), means.rows[1]);
    return cudaDeviceSynchronize() == cudaSuccess;
}

static bool wanted(const char *groups, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = groups; at != NULL && *at != '\0';) {
        const size_t word = strcspn(at, ",");
        if (word == length && strncmp(at, name, length) == 0) {
            return true;
        }
        at += word + (at[word] == ',');
    }
    return groups == NULL;
}

static void write_head(FILE *to)
{
    struct cudaDeviceProp properties;
    char date[32] = "";
    int driver = 0, runtime = 0;
    const time_t now = time(NULL);
    struct tm utc;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    if (gmtime_r(&now, &utc) != NULL) {
        strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", &utc);
    }
    fprintf(to,
            "%s, %s; CUDA runtime %d, driver %d, cuBLASLt %zu; gemmd " GEMMD_VERSION
            " (%s). TFLOP/s, operands laid out in the time.\n",
            date, cudaGetDeviceProperties(&properties, 0) == cudaSuccess ? properties.name : "",
            runtime, driver, cublasLtGetVersion(), gemmd_revision);
}

int bench_served(const char *groups, const char *own, double seconds, const char *out)
{
    struct served s = {.deadline = bench_now() + seconds};
    struct fault fault = {.detail = "no CUDA device"};
    int major = 0, minor = 0;
    if (cudaStreamCreateWithFlags(&s.stream, cudaStreamNonBlocking) != cudaSuccess ||
        gemm_context_create(GEMM_BACKEND_CUDA, s.stream, 0, &s.context, &fault) != GEMMD_OK ||
        lt_open(&s.lt) != CUBLAS_STATUS_SUCCESS) {
        fprintf(stderr, "gemmd-bench: %s\n", fault.detail);
        return 1;
    }
    (void)cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
    (void)cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0);
    s.device = (struct gemm_device){.backend = GEMM_BACKEND_CUDA,
                                    .compute_capability = (uint32_t)(10 * major + minor)};
    s.kernels[OWN] = kernel_named(own != NULL ? own : "wgmma");
    s.kernels[CUBLAS] = kernel_named("cublas");
    FILE *to = out != NULL ? fopen(out, "w") : stdout;
    if (to == NULL) {
        perror(out);
        return 1;
    }
    write_head(to);
    bool good = s.kernels[OWN] != NULL && s.kernels[CUBLAS] != NULL;
    if (!good) {
        fprintf(stderr, "gemmd-bench: no kernel '%s'\n", own != NULL ? own : "wgmma");
    }
    for (size_t i = 0; i < sizeof GROUPS / sizeof *GROUPS && good; i++) {
        good = !wanted(groups, GROUPS[i].name) || measure_group(&s, &GROUPS[i], to);
    }
    if (out != NULL) {
        fclose(to);
    }
    lt_close(&s.lt);
    gemm_context_destroy(s.context);
    cudaStreamDestroy(s.stream);
    return good ? 0 : 1;
}
