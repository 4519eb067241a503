/*
 * How far f32 sums of `grouped` are from the exact ones, next to those of a chain of multiply-adds
 * in the order of k, which must have no smaller error by root mean square. proto/PROTOCOL.md
 * ("Errors") promises less.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/gpu/group_check.h"
#include "tests/product/random.h"

enum { SIDE = 96, K_MAX = 1024 };

struct sums {
    struct group_bench *bench;
    float *a, *b, *c; /* mapped host memory: as they are given to the kernel */
    float *wide_a, *wide_b;
    uint64_t seed;
};

static float bf16_rounded(double x)
{
    int exponent;
    const double fraction = frexp(x, &exponent);
    return (float)ldexp(nearbyint(ldexp(fraction, 8)), exponent - 8);
}

/* Values of the type, as themselves and widened. f32 values spread over `spread` powers of two
 * below 2^top. */
static void draw(struct sums *s, enum gemmd_dtype dtype, uint64_t count, int spread, int top,
                 float *given, float *wide)
{
    for (uint64_t i = 0; i < count; i++) {
        const double x = random_unit(&s->seed);
        const int power = spread > 0 ? (int)(random_next(&s->seed) % (unsigned)spread) : 0;
        if (dtype == GEMMD_F32) {
            given[i] = wide[i] = (float)ldexp(x, top - power);
            continue;
        }
        wide[i] = bf16_rounded(x);
        union {
            float value;
            uint32_t bits;
        } u = {wide[i]};
        ((uint16_t *)(void *)given)[i] = (uint16_t)(u.bits >> 16);
    }
}

static bool measure(struct sums *s, enum gemmd_dtype dtype, uint64_t k, int spread, int top,
                    int top_b, uint64_t *passed, uint64_t *failed)
{
    struct gemm_problem p = {.dtype = dtype,
                             .out = GEMMD_F32,
                             .m = SIDE,
                             .n = SIDE,
                             .k = k,
                             .batch = 1,
                             .alpha = 1,
                             .a = s->a,
                             .b = s->b,
                             .c = s->c};
    gemm_problem_contiguous(&p);
    draw(s, dtype, SIDE * k, spread, top, s->a, s->wide_a);
    draw(s, dtype, SIDE * k, spread, top_b, s->b, s->wide_b);
    if (operation_run(s->bench->kernel, s->bench->context, &p, NULL) != GEMMD_OK ||
        !group_succeeded(cudaStreamSynchronize(s->bench->stream), "the kernel"))
        return false;
    double own = 0, chains = 0, own_worst = 0, chains_worst = 0;
    for (uint64_t i = 0; i < SIDE; i++)
        for (uint64_t j = 0; j < SIDE; j++) {
            long double exact = 0, magnitude = 0;
            float chain = 0;
            for (uint64_t x = 0; x < k; x++) {
                const float left = s->wide_a[i * k + x], right = s->wide_b[x * SIDE + j];
                const long double product = (long double)left * (long double)right;
                exact += product;
                magnitude += fabsl(product);
                chain = fmaf(left, right, chain);
            }
            const double scale = (double)magnitude * 0x1p-24;
            const double mine = (double)((long double)s->c[i * SIDE + j] - exact) / scale;
            const double theirs = (double)((long double)chain - exact) / scale;
            own += mine * mine;
            chains += theirs * theirs;
            own_worst = fmax(own_worst, fabs(mine));
            chains_worst = fmax(chains_worst, fabs(theirs));
        }
    own = sqrt(own / (SIDE * SIDE));
    chains = sqrt(chains / (SIDE * SIDE));
    const bool right = own <= chains;
    printf("  %s, k = %4" PRIu64
           ", A from 2^%-4d to 2^%-4d, B to 2^%-4d  error %.4f (largest %.3f), of chains %.4f "
           "(%.3f)%s\n",
           dtype == GEMMD_F32 ? "f32 " : "bf16", k, top - spread, top, top_b, own, own_worst,
           chains, chains_worst, right ? "" : "  FAILED: larger than a chain's");
    (*(right ? passed : failed))++;
    return true;
}

void group_check_error(struct group_bench *bench, uint64_t *passed, uint64_t *failed)
{
    struct sums s = {.bench = bench, .seed = 11};
    const uint64_t operand = SIDE * K_MAX;
    void *memory = NULL;
    s.wide_a = malloc(2 * operand * sizeof *s.wide_a);
    bool going = s.wide_a != NULL &&
                 group_succeeded(cudaHostAlloc(&memory, (2 * operand + SIDE * SIDE) * sizeof *s.a,
                                               cudaHostAllocMapped),
                                 "cudaHostAlloc");
    if (going) {
        s.a = memory;
        s.b = s.a + operand;
        s.c = s.b + operand;
        s.wide_b = s.wide_a + operand;
    }
    printf("errors of f32 results, in units of 2^-24 of the sum of the magnitudes:\n");
    static const uint64_t lengths[] = {1,  7,  16,  32,  48,  63,  64,   72,
                                       95, 96, 100, 128, 200, 256, K_MAX};
    for (unsigned i = 0; i < sizeof lengths / sizeof lengths[0] && going; i++)
        going = measure(&s, GEMMD_F32, lengths[i], 0, 0, 0, passed, failed) &&
                measure(&s, GEMMD_F32, lengths[i], 12, 0, 0, passed, failed) &&
                /* A near the smallest numbers, alone and with a B so large that it overflows once
                 * scaled and the elements are computed again. */
                measure(&s, GEMMD_F32, lengths[i], 2, -110, 0, passed, failed) &&
                measure(&s, GEMMD_F32, lengths[i], 2, -120, 120, passed, failed) &&
                measure(&s, GEMMD_BF16, lengths[i], 0, 0, 0, passed, failed);
    if (!going)
        (*failed)++;
    (void)cudaFreeHost(memory);
    free(s.wide_a);
}
