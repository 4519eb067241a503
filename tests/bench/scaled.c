/* gemmd-bench scaled: products of operands with scales, every tile, next to cuBLASLt's own scaling.
 * The least of several rounds, in which the participants take turns. cuBLASLt has no scales for i8;
 * it stays with the product, and its results are i32. */
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/sm90/sm90.h"
#include "proto/revision.h"
#include "tests/bench/cublaslt.h"
#include "tests/bench/device.h"
#include "tests/bench/kernels.h"
#include "tests/bench/served.h"

enum { SETS_MAX = 16, TILES_MAX = 12, ROUNDS = 7 };
static const double SETS_BYTES = 120e6; /* more than twice the L2 */
static const double BLOCK_US = 400;     /* of launches that are timed together */

static const struct kind {
    const char *name;
    enum gemmd_dtype dtype;
    enum gemm_scales scales;
} KINDS[] = {
    {"f8_e4m3, precision f8, scales=rowcol", GEMMD_F8_E4M3, GEMM_SCALES_ROWCOL},
    {"f8_e4m3, precision f8, scales=block", GEMMD_F8_E4M3, GEMM_SCALES_BLOCK},
    {"i8, scales=rowcol", GEMMD_I8, GEMM_SCALES_ROWCOL},
};

static const uint64_t SHAPES[][3] = {
    {4096, 4096, 4096}, {8192, 8192, 8192}, {4096, 7168, 2048}, {4096, 4096, 7168},
    {1024, 4096, 4096}, {256, 4096, 4096},  {64, 7168, 2048},   {64, 4096, 7168},
    {16, 14336, 4096},  {1, 4096, 4096},
};

/* The buffers of all shapes: sets of operands, which the launches take in turns. */
struct scaled_bench {
    struct sm90_device device;
    struct lt lt;
    cudaStream_t stream;
    cudaEvent_t from, to;
    struct gemm_problem problem;
    uint32_t sets;
    void *a[SETS_MAX], *b[SETS_MAX], *c;
    float *a_scale, *b_scale;
    unsigned long long *hash;
};

static uint64_t scaled_blocks(uint64_t extent)
{
    return (extent + GEMM_SCALE_BLOCK - 1) / GEMM_SCALE_BLOCK;
}

/* Scales from 1/4 to 4 for `count` elements. */
static bool fill_scales(float **scales, uint64_t count)
{
    float *host = malloc(count * sizeof *host);
    bool filled = host != NULL && cudaMalloc((void **)scales, count * sizeof *host) == cudaSuccess;
    for (uint64_t i = 0; filled && i < count; i++)
        host[i] = exp2f((float)(i * 7 % 33) / 8 - 2);
    filled = filled &&
             cudaMemcpy(*scales, host, count * sizeof *host, cudaMemcpyHostToDevice) == cudaSuccess;
    free(host);
    return filled;
}

static void scaled_tear_down(struct scaled_bench *s)
{
    for (uint32_t i = 0; i < SETS_MAX; i++) {
        cudaFree(s->a[i]);
        cudaFree(s->b[i]);
        s->a[i] = s->b[i] = NULL;
    }
    cudaFree(s->c);
    cudaFree(s->a_scale);
    cudaFree(s->b_scale);
    s->c = s->a_scale = s->b_scale = NULL;
}

static bool scaled_set_up(struct scaled_bench *s, const struct kind *kind, const uint64_t shape[3])
{
    const uint64_t m = shape[0], n = shape[1], k = shape[2];
    struct gemm_problem *p = &s->problem;
    *p = (struct gemm_problem){.dtype = kind->dtype,
                               .out = GEMMD_BF16,
                               .precision = kind->dtype == GEMMD_F8_E4M3 ? GEMM_PRECISION_F8
                                                                         : GEMM_PRECISION_FULL,
                               .scales = kind->scales,
                               .transb = true,
                               .m = m,
                               .n = n,
                               .k = k,
                               .batch = 1,
                               .alpha = 1};
    gemm_problem_contiguous(p);
    gemm_problem_scales_contiguous(p, false, true);
    /* cuBLASLt wants rows of scales in multiples of 4. */
    const uint64_t a_scales = (m + 4) * (scaled_blocks(k) + 4);
    const uint64_t b_scales = (n + 4) * (scaled_blocks(k) + 4);
    s->sets = (uint32_t)fmin(SETS_MAX, ceil(SETS_BYTES / (double)((m + n) * k)));
    bool there = fill_scales(&s->a_scale, a_scales) && fill_scales(&s->b_scale, b_scales) &&
                 cudaMalloc(&s->c, m * n * sizeof(int32_t)) == cudaSuccess;
    for (uint32_t i = 0; i < s->sets && there; i++)
        there = cudaMalloc(&s->a[i], m * k) == cudaSuccess &&
                cudaMalloc(&s->b[i], n * k) == cudaSuccess &&
                bench_fill(s->a[i], m * k, kind->dtype, 2 * i) == cudaSuccess &&
                bench_fill(s->b[i], n * k, kind->dtype, 2 * i + 1) == cudaSuccess;
    p->a_scale.data = s->a_scale;
    p->b_scale.data = s->b_scale;
    p->c = s->c;
    return there && cudaDeviceSynchronize() == cudaSuccess;
}

/* Whoever takes part: a tile with its launches, or cuBLASLt with a candidate. */
struct participant {
    const char *name;
    struct sm90_launch launches[SETS_MAX];
    const struct lt_plan *plan; /* NULL: a tile */
    int candidate;
    double us;
};

static bool enqueue(struct scaled_bench *s, const struct participant *who, uint32_t set)
{
    return who->plan != NULL ? lt_enqueue(&s->lt, who->plan, who->candidate, s->a[set], s->b[set],
                                          s->c, s->stream) == CUBLAS_STATUS_SUCCESS
                             : sm90_enqueue(&who->launches[set], s->stream) == cudaSuccess;
}

/* Microseconds of a launch; infinite if it failed. */
static double time_launches(struct scaled_bench *s, const struct participant *who, uint32_t count)
{
    float ms = 0;
    bool good = cudaEventRecord(s->from, s->stream) == cudaSuccess;
    for (uint32_t i = 0; i < count && good; i++)
        good = enqueue(s, who, i % s->sets);
    good = good && cudaEventRecord(s->to, s->stream) == cudaSuccess &&
           cudaStreamSynchronize(s->stream) == cudaSuccess &&
           cudaEventElapsedTime(&ms, s->from, s->to) == cudaSuccess;
    return good ? 1e3 * (double)ms / count : (double)INFINITY;
}

static uint32_t launches_of(double us)
{
    return us < BLOCK_US / 2 ? (uint32_t)(BLOCK_US / us) + 1 : 2;
}

/* The fastest of cuBLASLt's candidates. */
static void choose_candidate(struct scaled_bench *s, struct participant *lt)
{
    int best = 0;
    double best_us = INFINITY;
    for (int i = 0; i < lt->plan->count; i++) {
        lt->candidate = i;
        (void)time_launches(s, lt, 2);
        const double us = time_launches(s, lt, 8);
        if (us < best_us) {
            best_us = us;
            best = i;
        }
    }
    lt->candidate = best;
}

static unsigned long long hash_of(struct scaled_bench *s, const struct participant *who)
{
    unsigned long long hash = 0;
    const struct gemm_problem *p = &s->problem;
    if (cudaMemset(s->hash, 0, sizeof hash) != cudaSuccess || !enqueue(s, who, 0) ||
        cudaStreamSynchronize(s->stream) != cudaSuccess ||
        bench_hash(s->c, 2, p->m, p->n, p->ldc, s->hash) != cudaSuccess ||
        cudaMemcpy(&hash, s->hash, sizeof hash, cudaMemcpyDeviceToHost) != cudaSuccess)
        return 0;
    return hash;
}

static uint32_t add_tiles(struct scaled_bench *s, struct participant *list)
{
    uint32_t count = 0;
    const struct gemm_problem *p = &s->problem;
    const struct sm90_kernel *kernel = sm90_kernels(p->dtype, p->precision, p->scales);
    for (; kernel != NULL && kernel->name != NULL && count < TILES_MAX; kernel++) {
        struct participant *who = &list[count];
        bool prepared = sm90_takes(kernel, p);
        *who = (struct participant){.name = strchr(kernel->name, '_') + 1};
        for (uint32_t i = 0; i < s->sets && prepared; i++) {
            struct gemm_problem q = *p;
            q.a = s->a[i];
            q.b = s->b[i];
            prepared = sm90_prepare(&s->device, kernel, &q, NULL, &who->launches[i]) == cudaSuccess;
        }
        count += prepared;
    }
    return count;
}

static void report_shape(const struct scaled_bench *s, const struct participant *list,
                         uint32_t tiles, bool has_lt, bool same, FILE *to)
{
    const struct gemm_problem *p = &s->problem;
    const struct sm90_kernel *chosen = sm90_choose(p, &s->device.card);
    const double tera = 2e-6 * (double)p->m * (double)p->n * (double)p->k;
    const double lt_us = has_lt ? list[tiles].us : (double)NAN;
    fprintf(to, "| %llu×%llu×%llu | %.1f |", (unsigned long long)p->m, (unsigned long long)p->n,
            (unsigned long long)p->k, tera / lt_us);
    for (uint32_t i = 0; i < tiles; i++) {
        const bool is_chosen =
            chosen != NULL && strcmp(strchr(chosen->name, '_') + 1, list[i].name) == 0;
        fprintf(to, " %s%.1f (%.2f)%s |", is_chosen ? "**" : "", tera / list[i].us,
                lt_us / list[i].us, is_chosen ? "**" : "");
    }
    fprintf(to, " %s |\n", same ? "same" : "OTHER BITS");
    fflush(to);
}

static bool bench_shape_scaled(struct scaled_bench *s, struct participant *list, bool heading,
                               FILE *to)
{
    struct gemm_problem plain = s->problem;
    struct lt_plan plan;
    if (plain.dtype == GEMMD_I8) {
        plain.scales = GEMM_SCALES_NONE;
        plain.out = GEMMD_I32;
    }
    const uint32_t tiles = add_tiles(s, list);
    const bool has_lt = lt_plan_create(&s->lt, &plain, &plan) == CUBLAS_STATUS_SUCCESS;
    bool same = true;
    if (heading) {
        fprintf(to, "| m×n×k | cuBLASLt |");
        for (uint32_t i = 0; i < tiles; i++)
            fprintf(to, " %s |", list[i].name);
        fprintf(to, " bits |\n|---|---|");
        for (uint32_t i = 0; i < tiles; i++)
            fprintf(to, "---|");
        fprintf(to, "---|\n");
    }
    for (uint32_t i = 0; i < tiles; i++)
        same = hash_of(s, &list[i]) == hash_of(s, &list[0]) && same;
    if (has_lt) {
        list[tiles] = (struct participant){.name = "cuBLASLt", .plan = &plan};
        choose_candidate(s, &list[tiles]);
    }
    const uint32_t all = tiles + has_lt;
    for (uint32_t i = 0; i < all; i++) {
        list[i].us = INFINITY;
        (void)time_launches(s, &list[i], 2);
    }
    for (int round = 0; round < ROUNDS; round++)
        for (uint32_t i = 0; i < all; i++) {
            const double once = isfinite(list[i].us) ? list[i].us : time_launches(s, &list[i], 4);
            list[i].us = fmin(list[i].us, time_launches(s, &list[i], launches_of(once)));
        }
    report_shape(s, list, tiles, has_lt, same, to);
    if (has_lt)
        lt_plan_destroy(&plan);
    return cudaGetLastError() == cudaSuccess && tiles > 0 && same;
}

/* False if a shape could not be set up or a tile has other bits than the others. */
static bool bench_all(struct scaled_bench *s, double seconds, FILE *to)
{
    const double deadline = bench_now() + seconds;
    struct participant *list = calloc(TILES_MAX + 1, sizeof *list);
    bool there = list != NULL, same = true;
    for (size_t kind = 0; kind < sizeof KINDS / sizeof KINDS[0] && there; kind++) {
        fprintf(to, "\n## %s\n\nTFLOP/s, and the speed relative to cuBLASLt's; bold: chosen.\n\n",
                KINDS[kind].name);
        for (size_t i = 0; i < sizeof SHAPES / sizeof SHAPES[0] && bench_now() < deadline; i++) {
            there = there && scaled_set_up(s, &KINDS[kind], SHAPES[i]);
            same = there && bench_shape_scaled(s, list, i == 0, to) && same;
            scaled_tear_down(s);
        }
    }
    free(list);
    return there && same;
}

int bench_scaled(double seconds, const char *out)
{
    struct scaled_bench s = {.sets = 0};
    struct cudaDeviceProp properties;
    FILE *to = out != NULL ? fopen(out, "w") : stdout;
    if (to == NULL) {
        perror(out);
        return 1;
    }
    bool good = sm90_device_open(&s.device) == cudaSuccess &&
                lt_open(&s.lt) == CUBLAS_STATUS_SUCCESS &&
                cudaStreamCreate(&s.stream) == cudaSuccess &&
                cudaEventCreate(&s.from) == cudaSuccess && cudaEventCreate(&s.to) == cudaSuccess &&
                cudaMalloc((void **)&s.hash, sizeof *s.hash) == cudaSuccess &&
                cudaGetDeviceProperties(&properties, 0) == cudaSuccess;
    if (good) {
        fprintf(to,
                "# Operands with scales\n\n%.60s; cuBLASLt %zu; gemmd %s (%s). B stored [n, k], "
                "results of bf16.\n",
                properties.name, cublasLtGetVersion(), GEMMD_VERSION, gemmd_revision);
        good = bench_all(&s, seconds, to);
    }
    if (!good)
        fprintf(stderr, "gemmd-bench: %s\n", cudaGetErrorString(cudaGetLastError()));
    scaled_tear_down(&s);
    lt_close(&s.lt);
    if (to != stdout)
        fclose(to);
    return good ? 0 : 1;
}
