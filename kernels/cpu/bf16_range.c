#include "kernels/cpu/bf16_range.h"

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

#ifdef __x86_64__
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

/* A product is a multiple of 2^(e - 14), where e is the sum of the exponents, and so are sums,
 * rounded or not. The least normal number is 2^-126. */
bool bf16_products_are_normal(uint16_t a_least, uint16_t b_least)
{
    enum { EXPONENTS_LEAST = 2 * 127 - 126 + 14 };
    const uint32_t a = (a_least + 1u) >> 7, b = (b_least + 1u) >> 7;
    return a_least == UINT16_MAX || b_least == UINT16_MAX ||
           (a > 0 && b > 0 && a + b >= EXPONENTS_LEAST);
}
