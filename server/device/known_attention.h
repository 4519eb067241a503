/*
 * known_attention.h - a small attention whose answer is known, for every type.
 *
 * Keys are orthogonal rows of 1 and -1, and each query is one of them, so that one weight is 1 and
 * all others vanish: a row of O is a row of V, of small integers. With a causal mask, queries also
 * match, and twice as well, a key that they must not see. For the self-test.
 */
#ifndef SERVER_DEVICE_KNOWN_ATTENTION_H
#define SERVER_DEVICE_KNOWN_ATTENTION_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/attention.h"

/* Host memory for operands and result of any type, each part at a multiple of 256 bytes. */
enum { KNOWN_ATTENTION_BYTES = 160 * 1024 };

/* Describes the attention and writes its operands to `memory` (KNOWN_ATTENTION_BYTES long, aligned
 * to 256), where the result will be too; the result is poisoned. */
void known_attention_init(struct attention_problem *problem, enum gemmd_dtype dtype, bool causal,
                          void *memory);
/* Whether the result is right. If not, the first wrong element is at (*row, *column), rows counted
 * over all heads of all entries. */
bool known_attention_check(const struct attention_problem *problem, uint64_t *row,
                           uint64_t *column);

#endif
