#include "kernels/cpu/cpu_softmax.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/cpu/wide_vectors.h"

#define INLINE static inline __attribute__((always_inline))

/* exp(x) for x <= 0 or NaN, to less than 2 units in the last place, or for subnormal results less
 * than 1. x = n ln 2 + r with |r| <= ln 2 / 2, exp(r) by its series. 2^n is the product of two
 * factors, of which the second is 1 where 2^n is normal. Nothing but arithmetic, so that the
 * compiler makes vectors of it. */
INLINE float exp_f32(float x)
{
    const float log2_e = 1.44269504f, round = 12582912.0f; /* 1.5 * 2^23: integers from here on */
    const float ln2_high = 0.693145752f, ln2_low = 1.42860677e-6f;
    const float shifted = x * log2_e + round, n = shifted - round;
    const float r = (x - n * ln2_high) - n * ln2_low;
    float y = 1.0f / 5040;
    y = y * r + 1.0f / 720;
    y = y * r + 1.0f / 120;
    y = y * r + 1.0f / 24;
    y = y * r + 1.0f / 6;
    y = y * r + 0.5f;
    y = y * r * r + r + 1;
    const bool is_small = x < -64.0f;
    uint32_t bits;
    float power;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + (is_small ? 127u + 64 : 127u)) << 23; /* the low bits of `shifted` are n */
    memcpy(&power, &bits, sizeof power);
    return x < -104.0f ? 0 : y * power * (is_small ? 0x1p-64f : 1);
}

INLINE float step(float *scores, uint64_t count, struct softmax_row *row)
{
    enum { L = SOFTMAX_LANES };
    const float scale = row->scale; /* the compiler does not know that no score is the scale */
    float most[L], total[L];
    for (int l = 0; l < L; l++) {
        most[l] = -INFINITY;
        total[l] = 0;
    }
    for (uint64_t j = 0; j < count; j += L)
#pragma omp simd /* or the compiler unrolls the loop and makes no vector of it */
        for (int l = 0; l < L; l++)
            most[l] = scores[j + (uint64_t)l] > most[l] ? scores[j + (uint64_t)l] : most[l];
    float top = row->most;
    for (int l = 0; l < L; l++)
        top = most[l] > top ? most[l] : top;

    /* Before the first score any finite value is right. */
    const float base = top == -INFINITY ? 0 : top;
    for (uint64_t j = 0; j < count; j += L)
        for (int l = 0; l < L; l++) {
            const float weight = exp_f32((scores[j + (uint64_t)l] - base) * scale);
            scores[j + (uint64_t)l] = weight;
            total[l] += weight;
        }
    for (int half = L / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            total[l] += total[l + half];
    const float factor = exp_f32((row->most - base) * scale);
    row->most = top;
    row->total = row->total * factor + total[0];
    return factor;
}

typedef float step_function(float *scores, uint64_t count, struct softmax_row *row);

static float step_base(float *scores, uint64_t count, struct softmax_row *row)
{
    return step(scores, count, row);
}

#ifdef __x86_64__
__attribute__((target("avx2,fma"))) static float step_avx2(float *scores, uint64_t count,
                                                           struct softmax_row *row)
{
    return step(scores, count, row);
}

WIDE_VECTORS("avx512f")
static float step_avx512(float *scores, uint64_t count, struct softmax_row *row)
{
    return step(scores, count, row);
}
#endif

float softmax_step(float *scores, uint64_t count, struct softmax_row *row)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f"))
        return step_avx512(scores, count, row);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return step_avx2(scores, count, row);
#endif
    return step_base(scores, count, row);
}
