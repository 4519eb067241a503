/*
 * attention_mask.h - the operand `mask` of an attention (kernels/attention.h) on the CPU.
 *
 * Pure, any thread.
 */
#ifndef KERNELS_CPU_ATTENTION_MASK_H
#define KERNELS_CPU_ATTENTION_MASK_H

#include <stdint.h>

#include "kernels/attention.h"

/* The mask's row for a query, of skv elements; NULL if the problem has no mask. */
const void *attention_mask_row(const struct attention_problem *problem, uint64_t entry,
                               uint64_t head, uint64_t query);

/* Sets values[0] to values[count - 1] to what elements first to first + count - 1 of a row of the
 * mask add to the scores. Minus infinity hides the key. */
void attention_mask_values(const struct attention_problem *problem, const void *row, uint64_t first,
                           uint64_t count, float values[]);

#endif
