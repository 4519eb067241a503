/*
 * known_attention.h - a small attention with a known answer, for every type. The self-test uses it.
 *
 * The keys are orthogonal rows of 1 and -1, and each query equals one key, so that the weight of
 * that key is 1 and all other weights are 0. A row of O is then a row of V, which holds small
 * integers. With a causal mask, queries also match a key that the mask hides from them, and match
 * it twice as well.
 */
#ifndef KERNELS_KNOWN_ATTENTION_H
#define KERNELS_KNOWN_ATTENTION_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/attention.h"

/* Bytes of host memory for the operands and the result in any type. Each part starts at a multiple
 * of 256 bytes. */
enum { KNOWN_ATTENTION_BYTES = 160 * 1024 };

/* Makes a problem with operands and a result of type `dtype`. Writes the operands to `memory`
 * (KNOWN_ATTENTION_BYTES bytes, aligned to 256), which also has room for the result, and fills the
 * result with bytes that are not the answer. */
void known_attention_init(struct attention_problem *problem, enum gemmd_dtype dtype, bool causal,
                          void *memory);
/* Whether the result of the problem, a struct attention_problem, is the known answer. If not, the
 * first wrong element is at (*row, *column), where rows are counted over all heads of all entries
 * of the batch. */
bool known_attention_check(const void *problem, uint64_t *row, uint64_t *column);

#endif
