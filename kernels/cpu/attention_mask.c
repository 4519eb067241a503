#include "kernels/cpu/attention_mask.h"

#include <math.h>

#include "kernels/cpu/convert.h"
#include "proto/dtype.h"

const void *attention_mask_row(const struct attention_problem *problem, uint64_t entry,
                               uint64_t head, uint64_t query)
{
    const struct attention_strides *strides = &problem->mask_strides;
    if (problem->mask == NULL)
        return NULL;
    return (const char *)problem->mask +
           (entry * strides->batch + head * strides->head + query * strides->row) *
               dtype_size(problem->mask_dtype);
}

void attention_mask_values(const struct attention_problem *problem, const void *row, uint64_t first,
                           uint64_t count, float values[])
{
    const char *from = (const char *)row + first * dtype_size(problem->mask_dtype);
    if (problem->mask_dtype != GEMMD_I8) {
        convert_widen(problem->mask_dtype, from, values, count);
        return;
    }
    for (uint64_t j = 0; j < count; j++)
        values[j] = from[j] != 0 ? 0 : -INFINITY;
}
