/*
 * attention_bias.h - what the mask and the slopes of an attention (kernels/attention.h) add to its
 * scores, on the CPU.
 *
 * Pure, any thread.
 */
#ifndef KERNELS_CPU_ATTENTION_BIAS_H
#define KERNELS_CPU_ATTENTION_BIAS_H

#include <stdint.h>

#include "kernels/attention.h"

/* Whether the problem has a mask or slopes. */
static inline bool attention_has_bias(const struct attention_problem *problem)
{
    return problem->mask != NULL || problem->slopes != NULL;
}

/* Sets values[0] to values[count - 1] to what is added to the scores of a query and of the keys
 * first to first + count - 1 of its entry. Minus infinity hides the key. The query is number
 * `query` of its entry, and at `position` among the keys. */
void attention_bias(const struct attention_problem *problem, uint64_t entry, uint64_t head,
                    uint64_t query, int64_t position, uint64_t first, uint64_t count,
                    float values[]);

#endif
