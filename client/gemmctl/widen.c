#include "client/gemmctl/widen.h"

#include <math.h>
#include <string.h>

#include "proto/dtype.h"

/* The value of a float of `exponent` and `mantissa` bits. A format that `has_infinity` gives the
 * largest exponent to infinities and NaNs, as IEEE 754 does; f8_e4m3 has NaN where all bits below
 * the sign are set, and no infinity. */
static double widen_small(uint32_t bits, int exponent, int mantissa, bool has_infinity)
{
    const uint32_t largest = (1u << exponent) - 1;
    const uint32_t fraction = bits & ((1u << mantissa) - 1), power = bits >> mantissa & largest;
    const int bias = (1 << (exponent - 1)) - 1;
    double value;
    if (power == largest && has_infinity)
        value = fraction == 0 ? INFINITY : NAN;
    else if (power == largest && fraction == (1u << mantissa) - 1)
        value = NAN;
    else if (power == 0)
        value = ldexp(fraction, 1 - bias - mantissa);
    else
        value = ldexp(fraction | 1u << mantissa, (int)power - bias - mantissa);
    return bits >> (exponent + mantissa) != 0 ? -value : value;
}

static double widen_one(enum gemmd_dtype dtype, const unsigned char *at)
{
    double f64;
    float f32;
    int32_t i32;
    uint16_t bits;
    switch (dtype) {
    case GEMMD_F64:
        memcpy(&f64, at, sizeof f64);
        return f64;
    case GEMMD_F32:
        memcpy(&f32, at, sizeof f32);
        return f32;
    case GEMMD_I32:
        memcpy(&i32, at, sizeof i32);
        return i32;
    case GEMMD_F16:
        memcpy(&bits, at, sizeof bits);
        return widen_small(bits, 5, 10, true);
    case GEMMD_BF16:
        memcpy(&bits, at, sizeof bits);
        return widen_small(bits, 8, 7, true);
    case GEMMD_F8_E4M3:
        return widen_small(*at, 4, 3, false);
    case GEMMD_I8:
        return *(const signed char *)at;
    default:
        return NAN;
    }
}

void widen(enum gemmd_dtype dtype, const void *from, uint64_t stride, uint64_t count, double *out)
{
    const unsigned char *at = from;
    const uint64_t step = stride * dtype_size(dtype);
    for (uint64_t i = 0; i < count; i++, at += step)
        out[i] = widen_one(dtype, at);
}
