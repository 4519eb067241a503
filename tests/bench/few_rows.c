/* gemmd-bench few: f8_e4m3 with precision full and few rows: the designs of few_rows.h next to
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
/* Columns of a block, teams that widen B in shared memory (0: B is widened into registers), boxes
 * of 128 steps of k in a stage, blocks of a cluster, and bytes of B that each block prefetches
 * while the kernel before runs. */
static const struct candidate {
    struct few_rows_design design;
    uint32_t bytes_ahead;
} CANDIDATES[] = {
    {{64, 0, 1, 1}, 0},     {{64, 0, 1, 1}, 32768}, {{32, 1, 1, 1}, 0},     {{32, 2, 1, 1}, 0},
    {{32, 2, 1, 1}, 4096},  {{32, 2, 1, 1}, 32768}, {{32, 2, 1, 1}, 65536}, {{32, 2, 1, 2}, 0},
    {{32, 2, 1, 2}, 32768}, {{32, 2, 1, 4}, 0},     {{32, 2, 2, 1}, 0},     {{32, 2, 2, 1}, 32768},
    {{32, 2, 2, 2}, 32768}, {{64, 1, 1, 1}, 0},     {{64, 2, 1, 1}, 0},     {{64, 2, 1, 1}, 32768},
    {{64, 2, 1, 1}, 65536}, {{64, 2, 1, 2}, 0},     {{64, 2, 1, 2}, 32768},
};
enum { DESIGNS = sizeof CANDIDATES / sizeof CANDIDATES[0] };
/* Participants: these, and then the candidates. */
enum { BF16, WIDENED, FIRST, PARTICIPANTS = FIRST + DESIGNS };

static const uint64_t WEIGHTS[][2] = {{4096, 4096}, {14336, 4096}, {4096, 14336}, {7168, 2048}};
static const uint64_t ROWS[] = {1, 16, 32, 64};
/* Shapes that fill neither tiles nor stages, whose bits alone are compared. */
static const uint64_t ODD[][3] = {{1, 784, 16},    {7, 1040, 144},   {17, 4112, 2064},
                                  {33, 800, 528},  {48, 1936, 4112}, {64, 2080, 1040},
                                  {63, 8464, 272}, {16, 4128, 400}};

struct few_bench {
    struct sm90_device device;
    struct lt lt;
    cudaStream_t stream;
    cudaEvent_t from, to;
    unsigned long long *hash;
    uint32_t sets;
    void *a, *b[SETS], *wide_a, *wide_b, *c; /* b: of twice the bytes, for bf16 */
    struct gemm_problem problem;
    struct sm90_launch few[DESIGNS][SETS], f16;
    struct lt_plan plan;
    const char *variants;  /* only candidates with this in their name; NULL: all */
    bool offered[DESIGNS]; /* whether a candidate takes part and computes the problem */
    uint32_t compared;     /* results */
    bool other_bits;       /* of a result, at least */
};

struct few_name {
    char text[160];
};

static struct few_name few_name(int who)
{
    struct few_name name = {"cuBLASLt bf16"};
    if (who == WIDENED) {
        snprintf(name.text, sizeof name.text, "widened in memory");
    } else if (who >= FIRST) {
        const struct candidate *c = &CANDIDATES[who - FIRST];
        char design[48] = "direct", stages[32] = "", clusters[32] = "", ahead[32] = "";
        if (c->design.teams > 0)
            snprintf(design, sizeof design, "%u columns, %u team%s", c->design.columns,
                     c->design.teams, c->design.teams == 1 ? "" : "s");
        if (c->design.boxes > 1)
            snprintf(stages, sizeof stages, ", stages of %u", 128 * c->design.boxes);
        if (c->design.cluster > 1)
            snprintf(clusters, sizeof clusters, ", clusters of %u", c->design.cluster);
        if (c->bytes_ahead > 0)
            snprintf(ahead, sizeof ahead, ", %u KiB ahead", c->bytes_ahead / 1024);
        snprintf(name.text, sizeof name.text, "%s%s%s%s", design, stages, clusters, ahead);
    }
    return name;
}

static bool few_launch(struct few_bench *f, int who, uint32_t set)
{
    const struct gemm_problem *p = &f->problem;
    if (who == BF16)
        return lt_enqueue(&f->lt, &f->plan, f->plan.best, f->wide_a, f->b[set], f->c, f->stream) ==
               CUBLAS_STATUS_SUCCESS;
    if (who != WIDENED)
        return sm90_enqueue(&f->few[who - FIRST][set], f->stream) == cudaSuccess;
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
static double few_time(struct few_bench *f, int who, uint32_t count)
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

static unsigned long long few_hash(struct few_bench *f, int who)
{
    unsigned long long hash = 0;
    const struct gemm_problem *p = &f->problem;
    if (cudaMemset(f->hash, 0, sizeof hash) != cudaSuccess ||
        cudaMemset(f->c, 0, p->m * p->n * dtype_size(p->out)) != cudaSuccess ||
        !few_launch(f, who, 0) || cudaStreamSynchronize(f->stream) != cudaSuccess ||
        bench_hash(f->c, dtype_size(p->out), p->m, p->n, p->ldc, f->hash) != cudaSuccess ||
        cudaMemcpy(&hash, f->hash, sizeof hash, cudaMemcpyDeviceToHost) != cudaSuccess) {
        fprintf(stderr, "gemmd-bench: %s: %s\n", few_name(who).text,
                cudaGetErrorString(cudaPeekAtLastError()));
        return (unsigned long long)who; /* so that no two are the same */
    }
    return hash;
}

static bool few_prepare(struct few_bench *f)
{
    const struct gemm_problem *p = &f->problem;
    struct gemm_problem wide = *p;
    wide.dtype = GEMMD_F16;
    wide.a = f->wide_a;
    wide.b = f->wide_b;
    const struct sm90_kernel *kernel = sm90_choose(&wide, f->device.multiprocessors);
    bool good = kernel != NULL && few_rows_takes(p) &&
                sm90_prepare(&f->device, kernel, &wide, NULL, &f->f16) == cudaSuccess;
    for (uint32_t i = 0; i < f->sets && good; i++) {
        struct gemm_problem q = *p;
        q.b = f->b[i];
        for (int d = 0; d < DESIGNS; d++)
            f->offered[d] =
                few_rows_prepare_design(&f->device, &q, &CANDIDATES[d].design,
                                        CANDIDATES[d].bytes_ahead, &f->few[d][i]) == cudaSuccess;
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

/* Whether a candidate's bits are those of widening in memory, whose hash is `bits`. */
static bool few_same(struct few_bench *f, int who, unsigned long long bits)
{
    const bool same = few_hash(f, who) == bits;
    f->compared++;
    f->other_bits |= !same;
    return same;
}

static bool few_shape(struct few_bench *f, FILE *to)
{
    const struct gemm_problem *p = &f->problem;
    struct gemm_problem bf16 = *p;
    double us[PARTICIPANTS];
    bf16.dtype = GEMMD_BF16;
    if (!few_prepare(f) || lt_plan_create(&f->lt, &bf16, &f->plan) != CUBLAS_STATUS_SUCCESS)
        return false;
    few_choose_candidate(f);
    fprintf(to, "| %llu×%llu×%llu%s |", (unsigned long long)p->m, (unsigned long long)p->n,
            (unsigned long long)p->k, p->transb ? "" : ", B [k, n]");
    for (int who = 0; who < PARTICIPANTS; who++)
        us[who] = INFINITY;
    for (int round = 0; round < ROUNDS; round++)
        for (int who = 0; who < PARTICIPANTS; who++) {
            if (who >= FIRST && !f->offered[who - FIRST])
                continue;
            (void)few_time(f, who, 2);
            us[who] = fmin(us[who], few_time(f, who, LAUNCHES));
        }
    const unsigned long long bits = few_hash(f, WIDENED);
    for (int who = 0; who < PARTICIPANTS; who++) {
        const bool other = who >= FIRST && !few_same(f, who, bits);
        if (who >= FIRST && !f->offered[who - FIRST]) {
            fprintf(to, " – |");
            continue;
        }
        fprintf(to, " %.2f (%.2f)%s |", us[who], who == BF16 ? 1 : us[BF16] / 2 / us[who],
                other ? " OTHER BITS" : "");
    }
    fprintf(to, "\n");
    fflush(to);
    lt_plan_destroy(&f->plan);
    return cudaStreamSynchronize(f->stream) == cudaSuccess;
}

/* Memory for products with up to `rows` rows, n columns and k, with f->sets different B. */
static bool few_allocate(struct few_bench *f, uint64_t rows, uint64_t n, uint64_t k)
{
    bool good = cudaMalloc(&f->a, rows * k) == cudaSuccess &&
                cudaMalloc(&f->wide_a, rows * k * 2) == cudaSuccess &&
                cudaMalloc(&f->wide_b, n * k * 2) == cudaSuccess &&
                cudaMalloc(&f->c, rows * n * 4) == cudaSuccess &&
                bench_fill(f->a, rows * k, GEMMD_F8_E4M3, 1) == cudaSuccess;
    for (uint32_t i = 0; i < f->sets && good; i++)
        good = cudaMalloc(&f->b[i], n * k * 2) == cudaSuccess &&
               bench_fill(f->b[i], n * k * 2, GEMMD_F8_E4M3, 2 + i) == cudaSuccess;
    return good;
}

static void few_free(struct few_bench *f)
{
    cudaFree(f->a);
    cudaFree(f->wide_a);
    cudaFree(f->wide_b);
    cudaFree(f->c);
    for (uint32_t i = 0; i < f->sets; i++)
        cudaFree(f->b[i]);
}

static void few_set_problem(struct few_bench *f, uint64_t m, uint64_t n, uint64_t k, bool transb,
                            enum gemmd_dtype out)
{
    f->problem = (struct gemm_problem){.dtype = GEMMD_F8_E4M3,
                                       .out = out,
                                       .transb = transb,
                                       .m = m,
                                       .n = n,
                                       .k = k,
                                       .batch = 1,
                                       .alpha = 1,
                                       .a = f->a,
                                       .b = f->b[0],
                                       .c = f->c};
    gemm_problem_contiguous(&f->problem);
}

static bool few_weights(struct few_bench *f, const uint64_t weight[2], FILE *to)
{
    const uint64_t n = weight[0], k = weight[1];
    f->sets = (uint32_t)fmin(SETS, ceil(120e6 / (double)(n * k)) + 1);
    bool good = few_allocate(f, 64, n, k);
    for (size_t i = 0; i < 2 * (sizeof ROWS / sizeof ROWS[0]) && good; i++) {
        few_set_problem(f, ROWS[i / 2], n, k, i % 2 == 0, GEMMD_BF16);
        good = few_shape(f, to);
    }
    few_free(f);
    return good;
}

/* Compares bits for a shape with both layouts of B and results of 16 and 32 bits. */
static bool few_odd_shape(struct few_bench *f, const uint64_t shape[3], FILE *to)
{
    f->sets = 1;
    bool good = few_allocate(f, shape[0], shape[1], shape[2]);
    for (int i = 0; i < 4 && good; i++) {
        const enum gemmd_dtype out = i / 2 == 0 ? GEMMD_BF16 : GEMMD_F32;
        few_set_problem(f, shape[0], shape[1], shape[2], i % 2 == 0, out);
        good = few_prepare(f);
        const unsigned long long bits = good ? few_hash(f, WIDENED) : 0;
        for (int d = 0; d < DESIGNS && good; d++)
            if (f->offered[d] && !few_same(f, FIRST + d, bits)) {
                fprintf(to, "OTHER BITS: %llu×%llu×%llu%s, results of %u bits: %s\n\n",
                        (unsigned long long)shape[0], (unsigned long long)shape[1],
                        (unsigned long long)shape[2], i % 2 == 0 ? "" : ", B [k, n]",
                        8 * dtype_size(out), few_name(FIRST + d).text);
            }
    }
    few_free(f);
    return good && cudaStreamSynchronize(f->stream) == cudaSuccess;
}

int bench_few_rows(const char *variants, const char *out)
{
    static struct few_bench f; /* launches are large */
    f.variants = variants;
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
                "Microseconds, and half of bf16's time as a share of them. Bits are those of "
                "widening in memory unless said otherwise.\n\n",
                properties.name, cublasLtGetVersion(), GEMMD_VERSION, gemmd_revision);
        for (size_t i = 0; i < sizeof ODD / sizeof ODD[0] && good; i++)
            good = few_odd_shape(&f, ODD[i], to);
        fprintf(to, "%u results of shapes that fill no tiles were compared.\n\n| m×n×k |",
                f.compared);
        for (int who = 0; who < PARTICIPANTS; who++) {
            fprintf(to, " %s |", few_name(who).text);
        }
        fprintf(to, "\n|---|");
        for (int who = 0; who < PARTICIPANTS; who++)
            fprintf(to, "---|");
        fprintf(to, "\n");
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
