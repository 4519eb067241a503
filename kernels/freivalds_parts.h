/*
 * freivalds_parts.h - the definitions that the checks of both backends use
 * (kernels/cpu/cpu_freivalds.c and kernels/cuda/freivalds).
 */
#ifndef KERNELS_FREIVALDS_PARTS_H
#define KERNELS_FREIVALDS_PARTS_H

#include <float.h>

#include "kernels/gemm.h"

#ifdef __CUDACC__
#define FREIVALDS_DEVICE __host__ __device__
#else
#define FREIVALDS_DEVICE
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum { FREIVALDS_EXPLAINED_MAX = 8 }; /* infinities and NaNs of a row that are looked at singly */

#define FREIVALDS_CONFIDENCE 6.0 /* Hoeffding's, see freivalds.h */
#define FREIVALDS_OWN_ROUNDING (DBL_EPSILON / 2)

/* Sums of elements times r: of a row of C or C0, or of the bias. */
struct freivalds_dot {
    double value, square, absolute;
    uint32_t strange; /* elements that are not finite: their number, or 1 for any number */
};

/* The start of the workspace (freivalds_bytes). The residuals of the rows follow the header. Then
 * come r [n]; value, square and absolute [batch][k], the sums of op(B)*r, of which the
 * second become the weights of the bound; and expected and bound [batch][m]. For i8 to i32 these
 * are r, value and expected, of 32 bits. */
struct freivalds_header {
    uint64_t residual;  /* the bits of a double >= 0; as integers such bits have the same order */
    double norm_square; /* of r */
    struct freivalds_dot bias;
    double reserved[2];
};

/* The rounding error of one element: at most relative * (|A||B|), plus after * the terms of the
 * epilogue, plus last * |result|, plus `least` near zero. */
struct freivalds_rounding {
    double relative, after, last, least;
    double largest; /* a larger value becomes infinity, in the sum or in the result */
};

static inline FREIVALDS_DEVICE struct freivalds_rounding
freivalds_rounding_of(const struct gemm_problem *p)
{
    const double n = (double)p->n, k = (double)p->k;
    struct freivalds_rounding r = {0, 4 * 0x1p-24, 0, (k + 4) * 0x1p-126, FLT_MAX};
    switch (p->dtype) {
    case GEMMD_F64:
        r.relative = (k + 8) * 0x1p-53;
        r.after = 4 * 0x1p-53;
        /* Times r, whose elements are about 2^-64, this is what the check's own sums round where
         * they are subnormal. */
        r.least = (n + k + 4) * 0x1p-1010;
        r.largest = DBL_MAX;
        break;
    case GEMMD_I8:
        r.relative = 4 * 0x1p-24; /* the sum is exact */
        break;
    default:
        r.relative = (k + 8) * 0x1p-24;
        if (p->precision == GEMM_PRECISION_TF32)
            r.relative += 2.1 * 0x1p-10; /* both operands cut to 11 bits */
        if (p->precision == GEMM_PRECISION_F8)
            r.relative += 0x1p-8; /* sums of 128 products keep 13 bits */
        break;
    }
    if (p->out == GEMMD_F16) {
        r.last = 0x1p-11;
        r.least += 0x1p-24;
        r.largest = 65504;
    } else if (p->out == GEMMD_BF16) {
        r.last = 0x1p-8;
    } else {
        r.last = p->out == GEMMD_F64 ? 0x1p-53 : 0x1p-24;
    }
    return r;
}

/* Number `index` (0, 1, ...) of the pseudo-random sequence that `seed` chooses (S. Vigna's
 * splitmix64; public domain). */
static inline FREIVALDS_DEVICE uint64_t freivalds_random(uint64_t seed, uint64_t index)
{
    uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Element `index` of r. The magnitudes are a little over 1 and all different: errors of two
 * elements do not cancel, and none weighs much less than the others. f64 is scaled so that sums
 * with r do not overflow. */
static inline FREIVALDS_DEVICE double freivalds_r(enum gemmd_dtype dtype, uint64_t seed,
                                                  uint64_t index)
{
    const double scale = dtype == GEMMD_F64 ? 1.0 / 18446744073709551616.0 : 1; /* 2^-64 */
    const uint64_t random = freivalds_random(seed, index);
    const double magnitude = 1 + (double)(random >> 11) / 36028797018963968.0; /* 2^-55 */
    return (random & 1 ? -scale : scale) * magnitude;
}

/* Element `index` of r modulo 2^32. The elements are odd: no nonzero difference times an odd number
 * is 0. */
static inline FREIVALDS_DEVICE uint32_t freivalds_r_i32(uint64_t seed, uint64_t index)
{
    return (uint32_t)freivalds_random(seed, index) | 1u;
}

/* From this k on, the sums of i8 may exceed 32 bits. |b| <= 128, so the sum of the magnitudes of a
 * row of A says whether the sums of the row stay within 32 bits. */
enum { FREIVALDS_WRAPS_K = INT32_MAX / (128 * 128) + 1 };

#ifdef __cplusplus
}
#endif
#endif
