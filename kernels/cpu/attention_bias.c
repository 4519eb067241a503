#include "kernels/cpu/attention_bias.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "proto/dtype.h"

/* The values of `count` elements of a mask. */
static void attention_bias_of_mask(const struct attention_problem *problem, const char *mask,
                                   uint64_t count, float values[])
{
    if (problem->mask_dtype != GEMMD_I8) {
        convert_widen(problem->mask_dtype, mask, values, count);
        return;
    }
    for (uint64_t j = 0; j < count; j++)
        values[j] = mask[j] != 0 ? 0 : -INFINITY;
}

void attention_bias(const struct attention_problem *problem, uint64_t entry, uint64_t head,
                    uint64_t query, int64_t position, uint64_t first, uint64_t count,
                    float values[])
{
    const struct attention_strides *strides = &problem->mask_strides;
    if (problem->mask == NULL)
        memset(values, 0, count * sizeof *values);
    else
        attention_bias_of_mask(
            problem,
            (const char *)problem->mask +
                (entry * strides->batch + head * strides->head + query * strides->row + first) *
                    dtype_size(problem->mask_dtype),
            count, values);
    for (uint64_t j = 0; j < count && problem->slopes != NULL; j++)
        values[j] -= problem->slopes[head] * fabsf((float)((int64_t)(first + j) - position));
}
