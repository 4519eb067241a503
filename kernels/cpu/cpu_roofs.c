/*
 * cpu_roofs.c - how fast the threads of a context can compute and read memory, all at once.
 *
 * The rate of arithmetic is that of the fastest microkernel on panels in the first cache, and the
 * rate of memory that of reading what no cache has. Both are the best of several rounds, since
 * other programs may have the cores in some of them. A round lasts from the first thread's start to
 * the last thread's end.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "kernels/cpu/cpu_context.h"
#include "kernels/cpu/microkernel.h"
#include "proto/dtype.h"

enum {
    ROUNDS = 3,
    DEPTH = 128,    /* of the panels, in elements */
    TILES = 128,    /* that a member computes in a round, of one type */
    LINE = 64,      /* bytes of a cache line, or a part of one */
    FILL = 0x3c,    /* bytes that are small normal numbers of every type, subnormals of none */
    SHARE = 1 << 19 /* bytes that a member reads in a round */
};

struct roofs_job {
    const struct cpu_context *context;
    const struct microkernel *micro;
    unsigned char *memory;          /* SHARE bytes for each part */
    struct timespec *starts, *ends; /* of each part */
    uint64_t *sums;                 /* of what each part reads */
};

/* Panels of A and B and a tile of sums in the member's scratch memory. */
struct panels {
    _Alignas(64) double a[DEPTH * MICROKERNEL_ROWS], b[DEPTH * MICROKERNEL_COLUMNS];
    double tile[MICROKERNEL_ROWS * MICROKERNEL_COLUMNS];
};

static void compute_part(void *argument, uint64_t part, uint32_t member)
{
    const struct roofs_job *job = argument;
    struct panels *panels = (struct panels *)(void *)((char *)job->context->scratch +
                                                      member * job->context->scratch_bytes);
    memset(panels, FILL, sizeof *panels);
    clock_gettime(CLOCK_MONOTONIC, &job->starts[part]);
    for (int i = 0; i < TILES; i++)
        job->micro->run(DEPTH, panels->a, panels->b, panels->tile, job->micro->columns,
                        job->micro->rows);
    clock_gettime(CLOCK_MONOTONIC, &job->ends[part]);
}

/* Writes a member's share of the memory, so that it has pages, and then empties the caches of it.
 */
static void write_part(void *argument, uint64_t part, uint32_t member)
{
    const struct roofs_job *job = argument;
    unsigned char *share = job->memory + part * SHARE;
    (void)member;
    memset(share, FILL, SHARE);
#ifdef __x86_64__
    for (uint64_t i = 0; i < SHARE; i += LINE)
        _mm_clflush(share + i);
    _mm_mfence();
#endif
}

static void read_part(void *argument, uint64_t part, uint32_t member)
{
    typedef uint64_t vector __attribute__((vector_size(16), may_alias));
    const struct roofs_job *job = argument;
    const vector *share = (const vector *)(const void *)(job->memory + part * SHARE);
    vector sums[LINE / sizeof(vector)] = {{0}};
    (void)member;
    clock_gettime(CLOCK_MONOTONIC, &job->starts[part]);
    for (uint64_t i = 0; i < SHARE / sizeof *share; i += LINE / sizeof *share) {
        sums[0] ^= share[i];
        sums[1] ^= share[i + 1];
        sums[2] ^= share[i + 2];
        sums[3] ^= share[i + 3];
    }
    clock_gettime(CLOCK_MONOTONIC, &job->ends[part]);
    sums[0] ^= sums[1] ^ sums[2] ^ sums[3];
    job->sums[part] = sums[0][0] ^ sums[0][1];
}

static double seconds_of(const struct timespec *time)
{
    return (double)time->tv_sec + (double)time->tv_nsec * 1e-9;
}

/* The rate of a round in which each part has done `amount`. 0: the clock did not advance. */
static double round_rate(const struct roofs_job *job, double amount)
{
    const uint32_t parts = team_size(job->context->team);
    double first = seconds_of(&job->starts[0]), last = seconds_of(&job->ends[0]);
    for (uint32_t i = 1; i < parts; i++) {
        const double start = seconds_of(&job->starts[i]), end = seconds_of(&job->ends[i]);
        first = start < first ? start : first;
        last = end > last ? end : last;
    }
    return last > first ? parts * amount / (last - first) : 0;
}

static double compute_rate(struct roofs_job *job, enum gemmd_dtype dtype)
{
    const struct microkernel *narrow = microkernel_narrow(dtype, 0);
    job->micro = narrow != NULL ? narrow : microkernel_for(dtype_accumulator(dtype), 0);
    const double flops =
        2.0 * job->micro->rows * job->micro->columns * job->micro->steps * DEPTH * TILES;
    double most = 0;
    for (int i = 0; i < ROUNDS; i++) {
        team_run(job->context->team, compute_part, job, team_size(job->context->team));
        const double rate = round_rate(job, flops);
        most = rate > most ? rate : most;
    }
    return most;
}

static double read_rate(struct roofs_job *job)
{
    const uint32_t parts = team_size(job->context->team);
    double most = 0;
    job->memory = aligned_alloc(LINE, (size_t)parts * SHARE);
    if (job->memory == NULL)
        return 0;
    for (int i = 0; i < ROUNDS; i++) {
        team_run(job->context->team, write_part, job, parts);
        team_run(job->context->team, read_part, job, parts);
        const double rate = round_rate(job, SHARE);
        most = rate > most ? rate : most;
    }
    free(job->memory);
    return most;
}

void cpu_roofs_measure(struct gemm_context *base, double flops[GEMMD_DTYPE_COUNT],
                       double *memory_bytes)
{
    static const enum gemmd_dtype dtypes[] = {GEMMD_F64,  GEMMD_F32,     GEMMD_F16,
                                              GEMMD_BF16, GEMMD_F8_E4M3, GEMMD_I8};
    const struct cpu_context *context = cpu_context_of(base);
    const uint32_t parts = team_size(context->team);
    struct roofs_job job = {.context = context,
                            .starts = calloc(parts, sizeof *job.starts),
                            .ends = calloc(parts, sizeof *job.ends),
                            .sums = calloc(parts, sizeof *job.sums)};
    memset(flops, 0, GEMMD_DTYPE_COUNT * sizeof *flops);
    *memory_bytes = 0;
    if (job.starts != NULL && job.ends != NULL && job.sums != NULL &&
        sizeof(struct panels) <= context->scratch_bytes) {
        for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
            flops[dtypes[i]] = compute_rate(&job, dtypes[i]);
        *memory_bytes = read_rate(&job);
    }
    free(job.starts);
    free(job.ends);
    free(job.sums);
}
