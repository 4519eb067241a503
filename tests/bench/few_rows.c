/* gemmd-bench few: f8_e4m3 with precision full and few rows: the kernels of few_rows.h next to
 * widening in memory, and to what cuBLASLt takes for bf16, which has twice the bytes. The least of
 * several rounds, in which the participants take turns. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/move/move.h"
#include "kernels/cuda/sm90/gemm/few_rows.h"
#include "kernels/cuda/sm90/sm90.h"
#include "proto/revision.h"
#include "tests/bench/cublaslt.h"
#include "tests/bench/device.h"
#include "tests/bench/served.h"

enum { SETS = 16, ROUNDS = 7, LAUNCHES = 48 };
enum who { BF16, WIDENED, FEW, PARTICIPANTS };
static const char *const NAMES[PARTICIPANTS] = {"cuBLASLt bf16", "widened in memory", "few rows"};

static const uint64_t WEIGHTS[][2] = {{4096, 4096}, {14336, 4096}, {4096, 14336},
                                      {7168, 2048}, {5120, 5120},  {4096, 11008}};
static const uint64_t ROWS[] = {1, 16, 32, 64};

struct few_bench {
    struct sm90_device device;
    struct lt lt;
    cudaStream_t stream;
    cudaEvent_t from, to;
    unsigned long long *hash;
    uint32_t sets;
    void *a, *b[SETS], *wide_a, *wide_b, *c; /* b: of twice the bytes, for bf16 */
    struct gemm_problem problem;
    struct sm90_launch few[SETS], f16;
    struct lt_plan plan;
    bool other_bits; /* of a shape, at least */
};

static bool few_launch(struct few_bench *f, enum who who, uint32_t set)
{
    const struct gemm_problem *p = &f->problem;
    if (who == BF16)
        return lt_enqueue(&f->lt, &f->plan, f->plan.best, f->wide_a, f->b[set], f->c, f->stream) ==
               CUBLAS_STATUS_SUCCESS;
    if (who != WIDENED)
        return sm90_enqueue(&f->few[set], f->stream) == cudaSuccess;
    const uint64_t lines_b = p->transb ? p->n : p->k, length_b = p->transb ? p->k : p->n;
    const struct widen_job a = {.from = f->a,
                                .to = f->wide_a,
                                .lines = p->m,
                                .length = p->k,
                                .ld = p->k,
                                .batch = 1,
                                .ld_to = p->k};
    const struct widen_job b = {.from = f->b[set],
                                .to = f->wide_b,
                                .lines = lines_b,
                                .length = length_b,
                                .ld = length_b,
                                .batch = 1,
                                .ld_to = length_b};
    return widen_launch(f->stream, &a) == GEMMD_OK && widen_launch(f->stream, &b) == GEMMD_OK &&
           sm90_enqueue(&f->f16, f->stream) == cudaSuccess;
}

/* Microseconds of a launch; infinite if it failed. */
static double few_time(struct few_bench *f, enum who who, uint32_t count)
{
    float ms = 0;
    bool good = cudaEventRecord(f->from, f->stream) == cudaSuccess;
    for (uint32_t i = 0; i < count && good; i++)
        good = few_launch(f, who, i % f->sets);
    good = good && cudaEventRecord(f->to, f->stream) == cudaSuccess &&
           cudaStreamSynchronize(f->stream) == cudaSuccess &&
           cudaEventElapsedTime(&ms, f->from, f->to) == cudaSuccess;
    return good ? 1e3 * (double)ms / count : (double)INFINITY;
}

static unsigned long long few_hash(struct few_bench *f, enum who who)
{
    unsigned long long hash = 0;
    const struct gemm_problem *p = &f->problem;
    if (cudaMemset(f->hash, 0, sizeof hash) != cudaSuccess ||
        cudaMemset(f->c, 0, p->m * p->n * 2) != cudaSuccess || !few_launch(f, who, 0) ||
        cudaStreamSynchronize(f->stream) != cudaSuccess ||
        bench_hash(f->c, 2, p->m, p->n, p->ldc, f->hash) != cudaSuccess ||
        cudaMemcpy(&hash, f->hash, sizeof hash, cudaMemcpyDeviceToHost) != cudaSuccess)
        return who; /* so that no two are the same */
    return hash;
}

static bool few_prepare(struct few_bench *f)
{
    const struct gemm_problem *p = &f->problem;
    struct gemm_problem wide = *p, bf16 = *p;
    wide.dtype = GEMMD_F16;
    wide.a = f->wide_a;
    wide.b = f->wide_b;
    bf16.dtype = GEMMD_BF16;
    const struct sm90_kernel *kernel = sm90_choose(&wide, &f->device.card);
    bool good = kernel != NULL && few_rows_takes(p) &&
                sm90_prepare(&f->device, kernel, &wide, NULL, &f->f16) == cudaSuccess &&
                lt_plan_create(&f->lt, &bf16, &f->plan) == CUBLAS_STATUS_SUCCESS;
    for (uint32_t i = 0; i < f->sets && good; i++) {
        struct gemm_problem q = *p;
        q.b = f->b[i];
        good = few_rows_prepare(&f->device, &q, &f->few[i]) == cudaSuccess;
    }
    return good;
}

static void few_choose_candidate(struct few_bench *f)
{
    double best = INFINITY;
    int chosen = 0;
    for (int i = 0; i < f->plan.count; i++) {
        f->plan.best = i;
        (void)few_time(f, BF16, 2);
        const double us = few_time(f, BF16, 16);
        if (us < best) {
            best = us;
            chosen = i;
        }
    }
    f->plan.best = chosen;
}

static bool few_shape(struct few_bench *f, FILE *to)
{
    const struct gemm_problem *p = &f->problem;
    double us[PARTICIPANTS];
    if (!few_prepare(f))
        return false;
    few_choose_candidate(f);
    const unsigned long long bits = few_hash(f, WIDENED);
    const bool same = few_hash(f, FEW) == bits;
    for (int who = 0; who < PARTICIPANTS; who++)
        us[who] = INFINITY;
    for (int round = 0; round < ROUNDS; round++)
        for (int who = 0; who < PARTICIPANTS; who++) {
            (void)few_time(f, (enum who)who, 2);
            us[who] = fmin(us[who], few_time(f, (enum who)who, LAUNCHES));
        }
    fprintf(to, "| %llu×%llu×%llu%s |", (unsigned long long)p->m, (unsigned long long)p->n,
            (unsigned long long)p->k, p->transb ? "" : ", B [k, n]");
    for (int who = 0; who < PARTICIPANTS; who++)
        fprintf(to, " %.2f (%.2f) |", us[who], who == BF16 ? 1 : us[BF16] / 2 / us[who]);
    fprintf(to, " %.0f | %s |\n", (double)(p->n * p->k) / us[FEW] / 1e3, same ? "same" : "OTHER");
    fflush(to);
    lt_plan_destroy(&f->plan);
    f->other_bits |= !same;
    return true;
}

static bool few_weights(struct few_bench *f, const uint64_t weight[2], FILE *to)
{
    const uint64_t n = weight[0], k = weight[1], rows = 64;
    f->sets = (uint32_t)fmin(SETS, ceil(120e6 / (double)(n * k)) + 1);
    bool good = cudaMalloc(&f->a, rows * k) == cudaSuccess &&
                cudaMalloc(&f->wide_a, rows * k * 2) == cudaSuccess &&
                cudaMalloc(&f->wide_b, n * k * 2) == cudaSuccess &&
                cudaMalloc(&f->c, rows * n * 2) == cudaSuccess &&
                bench_fill(f->a, rows * k, GEMMD_F8_E4M3, 1) == cudaSuccess;
    for (uint32_t i = 0; i < f->sets && good; i++)
        good = cudaMalloc(&f->b[i], n * k * 2) == cudaSuccess &&
               bench_fill(f->b[i], n * k * 2, GEMMD_F8_E4M3, 2 + i) == cudaSuccess;
    for (size_t i = 0; i < 2 * (sizeof ROWS / sizeof ROWS[0]) && good; i++) {
        f->problem = (struct gemm_problem){.dtype = GEMMD_F8_E4M3,
                                           .out = GEMMD_BF16,
                                           .transb = i % 2 == 0,
                                           .m = ROWS[i / 2],
                                           .n = n,
                                           .k = k,
                                           .batch = 1,
                                           .alpha = 1,
                                           .a = f->a,
                                           .b = f->b[0],
                                           .c = f->c};
        gemm_problem_contiguous(&f->problem);
        good = few_shape(f, to);
    }
    cudaFree(f->a);
    cudaFree(f->wide_a);
    cudaFree(f->wide_b);
    cudaFree(f->c);
    for (uint32_t i = 0; i < f->sets; i++)
        cudaFree(f->b[i]);
    return good;
}

int bench_few_rows(const char *out)
{
    static struct few_bench f; /* launches are large */
    struct cudaDeviceProp properties;
    FILE *to = out != NULL ? fopen(out, "w") : stdout;
    if (to == NULL) {
        perror(out);
        return 1;
    }
    bool good = sm90_device_open(&f.device) == cudaSuccess &&
                lt_open(&f.lt) == CUBLAS_STATUS_SUCCESS &&
                cudaStreamCreate(&f.stream) == cudaSuccess &&
                cudaEventCreate(&f.from) == cudaSuccess && cudaEventCreate(&f.to) == cudaSuccess &&
                cudaMalloc((void **)&f.hash, sizeof *f.hash) == cudaSuccess &&
                cudaGetDeviceProperties(&properties, 0) == cudaSuccess;
    if (good) {
        fprintf(to,
                "# f8_e4m3 with precision full, few rows\n\n%.60s; cuBLASLt %zu; gemmd %s (%s). "
                "Microseconds, and half of bf16's time as a share of them; GB/s of B read by "
                "the kernels for few rows; whether their bits are those of widening in "
                "memory.\n\n| m×n×k |",
                properties.name, cublasLtGetVersion(), GEMMD_VERSION, gemmd_revision);
        for (int who = 0; who < PARTICIPANTS; who++)
            fprintf(to, " %s |", NAMES[who]);
        fprintf(to, " GB/s | bits |\n|---|---|---|---|---|---|\n");
    }
    for (size_t i = 0; i < sizeof WEIGHTS / sizeof WEIGHTS[0] && good; i++)
        good = few_weights(&f, WEIGHTS[i], to);
    if (!good)
        fprintf(stderr, "gemmd-bench: %s\n", cudaGetErrorString(cudaGetLastError()));
    lt_close(&f.lt);
    if (to != stdout)
        fclose(to);
    return good && !f.other_bits ? 0 : 1;
}
