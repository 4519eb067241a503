#include "kernels/cpu/cpu_softmax.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

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

INLINE float step(const float *scores, float unit, float *weights, uint64_t count,
                  struct softmax_row *row)
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
        for (int l = 0; l < L; l++) {
            const float score = unit * scores[j + (uint64_t)l];
            most[l] = score > most[l] ? score : most[l];
        }
    float top = row->most;
    for (int l = 0; l < L; l++)
        top = most[l] > top ? most[l] : top;

    /* Before the first score any finite value is right. */
    const float base = top == -INFINITY ? 0 : top;
    for (uint64_t j = 0; j < count; j += L)
        for (int l = 0; l < L; l++) {
            const float weight = exp_f32((unit * scores[j + (uint64_t)l] - base) * scale);
            weights[j + (uint64_t)l] = weight;
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

static float step_base(const float *scores, float unit, float *weights, uint64_t count,
                       struct softmax_row *row)
{
    return step(scores, unit, weights, count, row);
}

#ifdef __x86_64__
__attribute__((target("avx2,fma"))) static float
step_avx2(const float *scores, float unit, float *weights, uint64_t count, struct softmax_row *row)
{
    return step(scores, unit, weights, count, row);
}

/* exp_f32 with an instruction that multiplies by 2^n and rounds once. */
__attribute__((target("avx512f"), always_inline)) static inline __m512 exp_avx512(__m512 x)
{
    const __m512 round = _mm512_set1_ps(12582912.0f);
    const __mmask16 is_some = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-104.0f), _CMP_NLT_UQ);
    const __m512 n = _mm512_sub_ps(_mm512_fmadd_ps(x, _mm512_set1_ps(1.44269504f), round), round);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693145752f), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(1.42860677e-6f), r);
    __m512 y = _mm512_fmadd_ps(_mm512_set1_ps(1.0f / 5040), r, _mm512_set1_ps(1.0f / 720));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(1.0f / 120));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(1.0f / 24));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(1.0f / 6));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(0.5f));
    y = _mm512_add_ps(_mm512_fmadd_ps(_mm512_mul_ps(y, r), r, r), _mm512_set1_ps(1));
    return _mm512_maskz_scalef_ps(is_some, y, n);
}

__attribute__((target("avx512f"))) static float step_avx512(const float *scores, float unit,
                                                            float *weights, uint64_t count,
                                                            struct softmax_row *row)
{
    enum { L = SOFTMAX_LANES, VECTORS = 4 };
    _Static_assert(L * sizeof(float) == sizeof(__m512), "the lanes are a vector");
    const __m512 scale = _mm512_set1_ps(row->scale), units = _mm512_set1_ps(unit);
    __m512 most[VECTORS], total = _mm512_setzero_ps();
    uint64_t j = 0;
    for (int v = 0; v < VECTORS; v++)
        most[v] = _mm512_set1_ps(-INFINITY);
    for (; j + VECTORS * L <= count; j += VECTORS * L)
#pragma GCC unroll 4
        for (uint64_t v = 0; v < VECTORS; v++) /* NaN is not greater */
            most[v] = _mm512_max_ps(units * _mm512_loadu_ps(scores + j + v * L), most[v]);
    for (; j < count; j += L)
        most[0] = _mm512_max_ps(units * _mm512_loadu_ps(scores + j), most[0]);
    most[0] = _mm512_max_ps(_mm512_max_ps(most[0], most[1]), _mm512_max_ps(most[2], most[3]));
    const float here = _mm512_reduce_max_ps(most[0]);
    const float top = here > row->most ? here : row->most;
    const float base = top == -INFINITY ? 0 : top; /* as in `step` */
    for (j = 0; j < count; j += L) {
        const __m512 score = units * _mm512_loadu_ps(scores + j);
        const __m512 weight = exp_avx512((score - _mm512_set1_ps(base)) * scale);
        _mm512_storeu_ps(weights + j, weight);
        total = _mm512_add_ps(total, weight);
    }
    float factor = 0; /* before the first score */
    if (row->most != -INFINITY)
        factor = _mm512_cvtss_f32(exp_avx512(_mm512_set1_ps((row->most - base) * row->scale)));
    row->most = top;
    row->total = row->total * factor + _mm512_reduce_add_ps(total);
    return factor;
}
#endif

float softmax_step(const float *scores, float unit, float *weights, uint64_t count,
                   struct softmax_row *row)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f"))
        return step_avx512(scores, unit, weights, count, row);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return step_avx2(scores, unit, weights, count, row);
#endif
    return step_base(scores, unit, weights, count, row);
}

#define DIVIDE(NAME, TARGET)                                                                       \
    TARGET static void divide_##NAME(const float *weights, float sum, uint64_t count, float *to)   \
    {                                                                                              \
        for (uint64_t i = 0; i < count; i++)                                                       \
            to[i] = weights[i] / sum;                                                              \
    }
DIVIDE(base, )
#ifdef __x86_64__
DIVIDE(avx2, __attribute__((target("avx2"))))
DIVIDE(avx512, WIDE_VECTORS("avx512f"))
#endif

void softmax_divide(const float *weights, float sum, uint64_t count, float *to)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f")) {
        divide_avx512(weights, sum, count, to);
        return;
    }
    if (__builtin_cpu_supports("avx2")) {
        divide_avx2(weights, sum, count, to);
        return;
    }
#endif
    divide_base(weights, sum, count, to);
}
