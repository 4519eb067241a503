#include "kernels/cpu/cpu_reduce.h"

#include <string.h>

#include "kernels/cpu/convert.h"
#include "proto/dtype.h"

struct reduce_place reduce_place_of(const struct reduce_problem *problem, uint64_t result)
{
    const struct reduce_problem *p = problem;
    /* Divisions by one, and rows without gaps, are common and take no division. */
    const uint64_t row = p->width == 1 ? result : result / p->width;
    const uint64_t outer = p->mid == 1 ? row : row / p->mid;
    const uint64_t x = outer * p->outer_stride + (row - outer * p->mid) * p->mid_stride +
                       (result - row * p->width);
    const uint64_t y = p->y_width == p->y_leading
                           ? result
                           : result / p->y_width * p->y_leading + result % p->y_width;
    return (struct reduce_place){(const char *)p->x + x * dtype_size(p->dtype),
                                 (char *)p->y + y * dtype_size(p->out)};
}

void reduce_store(enum gemmd_dtype out, double value, char *y)
{
    const float narrow = (float)value;
    if (out == GEMMD_F64)
        memcpy(y, &value, sizeof value);
    else
        convert_narrow(out, &narrow, y, 1);
}

void reduce_store_integer(enum gemmd_dtype out, int64_t value, char *y)
{
    const uint32_t wrapped = (uint32_t)(uint64_t)value;
    if (out == GEMMD_I32)
        memcpy(y, &wrapped, sizeof wrapped);
    else if (out == GEMMD_I8)
        *(uint8_t *)y = (uint8_t)wrapped;
    else if (out == GEMMD_F32) /* one rounding, not one to f64 and one to f32 */
        memcpy(y, &(float){(float)value}, sizeof(float));
    else
        reduce_store(out, (double)value, y);
}
