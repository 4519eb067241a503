#include "client/gemmctl/fill.h"

#include <string.h>

#include "proto/dtype.h"

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static double next_real(uint64_t *state)
{
    return (double)(int64_t)next_random(state) / 0x1p63;
}

/* Returns the bits of `value`, whose magnitude is below 2, as a float of `exponent` and `mantissa`
 * bits. The value is rounded towards zero, and a subnormal value becomes zero. */
static uint32_t narrow(double value, uint32_t exponent, uint32_t mantissa)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = (uint32_t)(bits >> 63) << (exponent + mantissa);
    int32_t bias = (1 << (exponent - 1)) - 1;
    int32_t power = (int32_t)(bits >> 52 & 0x7ff) - 1023 + bias;
    if (power <= 0)
        return sign;
    uint64_t fraction = (bits & ((UINT64_C(1) << 52) - 1)) >> (52 - mantissa);
    return sign | (uint32_t)power << mantissa | (uint32_t)fraction;
}

void fill_random(void *out, enum gemmd_dtype dtype, uint64_t count, uint64_t seed)
{
    unsigned char *at = out;
    uint32_t size = dtype_size(dtype);
    for (uint64_t i = 0; i < count; i++, at += size) {
        double value = next_real(&seed);
        float single = (float)value;
        uint32_t bits = 0;
        switch (dtype) {
        case GEMMD_F64:
            memcpy(at, &value, sizeof value);
            continue;
        case GEMMD_F32:
            memcpy(at, &single, sizeof single);
            continue;
        case GEMMD_F16:
            bits = narrow(value, 5, 10);
            break;
        case GEMMD_BF16:
            bits = narrow(value, 8, 7);
            break;
        case GEMMD_F8_E4M3:
            bits = narrow(value, 4, 3);
            break;
        default:
            bits = (uint32_t)next_random(&seed);
        }
        for (uint32_t byte = 0; byte < size; byte++)
            at[byte] = (unsigned char)(bits >> (8 * byte));
    }
}
