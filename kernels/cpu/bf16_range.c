#include "kernels/cpu/bf16_range.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "kernels/cpu/wide_vectors.h"

#define INLINE static inline __attribute__((always_inline))

INLINE void least_body(const uint16_t *x, uint64_t ld, bool along, uint64_t extent, uint64_t depth,
                       uint16_t least[])
{
    for (uint64_t i = 0; i < extent; i++)
        least[i] = UINT16_MAX;
    for (uint64_t i = 0; along && i < extent; i++, x += ld) {
        uint16_t of_line = UINT16_MAX;
        for (uint64_t k = 0; k < depth; k++) {
            const uint16_t magnitude = (uint16_t)((x[k] & 0x7fff) - 1);
            of_line = magnitude < of_line ? magnitude : of_line;
        }
        least[i] = of_line;
    }
    for (uint64_t k = 0; !along && k < depth; k++, x += ld)
        for (uint64_t i = 0; i < extent; i++) {
            const uint16_t magnitude = (uint16_t)((x[i] & 0x7fff) - 1);
            least[i] = magnitude < least[i] ? magnitude : least[i];
        }
}

INLINE uint16_t least_of_all_body(const uint16_t *x, uint64_t ld, uint64_t lines, uint64_t length)
{
    uint16_t least = UINT16_MAX;
    for (uint64_t i = 0; i < lines; i++, x += ld)
        for (uint64_t j = 0; j < length; j++) {
            const uint16_t magnitude = (uint16_t)((x[j] & 0x7fff) - 1);
            least = magnitude < least ? magnitude : least;
        }
    return least;
}

#ifdef __x86_64__
WIDE_VECTORS("avx512f,avx512bw")
static uint16_t least_of_all_avx512(const uint16_t *x, uint64_t ld, uint64_t lines, uint64_t length)
{
    enum { LANES = 32 };
    const __m512i magnitudes = _mm512_set1_epi16(0x7fff), one = _mm512_set1_epi16(1);
    const __mmask32 rest = (__mmask32)((1u << length % LANES) - 1);
    __m512i least = _mm512_set1_epi16(-1);
    uint16_t lanes[LANES], all = UINT16_MAX;
    for (uint64_t i = 0; i < lines; i++, x += ld)
        for (uint64_t j = 0; j < length; j += LANES) {
            const __mmask32 mask = length - j < LANES ? rest : UINT32_MAX;
            const __m512i magnitude =
                _mm512_and_si512(_mm512_maskz_loadu_epi16(mask, x + j), magnitudes);
            least = _mm512_min_epu16(least, _mm512_sub_epi16(magnitude, one));
        }
    _mm512_storeu_si512(lanes, least);
    for (int i = 0; i < LANES; i++)
        all = lanes[i] < all ? lanes[i] : all;
    return all;
}

WIDE_VECTORS("avx512f,avx512bw")
static void least_avx512(const uint16_t *x, uint64_t ld, bool along, uint64_t extent,
                         uint64_t depth, uint16_t least[])
{
    least_body(x, ld, along, extent, depth, least);
}
#endif

void bf16_least(const uint16_t *x, uint64_t ld, bool along, uint64_t extent, uint64_t depth,
                uint16_t least[])
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")) {
        least_avx512(x, ld, along, extent, depth, least);
        return;
    }
#endif
    least_body(x, ld, along, extent, depth, least);
}

uint16_t bf16_least_of_all(const uint16_t *x, uint64_t ld, uint64_t lines, uint64_t length)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"))
        return least_of_all_avx512(x, ld, lines, length);
#endif
    return least_of_all_body(x, ld, lines, length);
}

/* A product is a multiple of 2^(e - 14), where e is the sum of the exponents, and so are sums,
 * rounded or not. The least normal number is 2^-126. */
bool bf16_products_are_normal(uint16_t a_least, uint16_t b_least)
{
    enum { EXPONENTS_LEAST = 2 * 127 - 126 + 14 };
    const uint32_t a = (a_least + 1u) >> 7, b = (b_least + 1u) >> 7;
    return a_least == UINT16_MAX || b_least == UINT16_MAX ||
           (a > 0 && b > 0 && a + b >= EXPONENTS_LEAST);
}
