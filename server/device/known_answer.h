/*
 * known_answer.h - a small product whose answer is known, for every type.
 *
 * Operands are small integers, which all types hold exactly, and so are all sums: whatever kernel
 * computes it, in whatever order, the answer is the same to the last bit. The three sides differ,
 * so that a mixed-up dimension or transposition shows. Self-test and readiness probe use it.
 */
#ifndef SERVER_DEVICE_KNOWN_ANSWER_H
#define SERVER_DEVICE_KNOWN_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/gemm.h"

/* Multiples of 16, which the 8-bit paths of some libraries want; k is one for which small products
 * of f32 use tensor cores. */
enum { KNOWN_ANSWER_M = 16, KNOWN_ANSWER_N = 48, KNOWN_ANSWER_K = 64 };
/* Host memory for operands and result of any type, each part at a multiple of 256 bytes. */
enum { KNOWN_ANSWER_BYTES = 64 * 1024 };

/* Describes the product of `dtype` operands into `out` and writes its operands to `memory`
 * (KNOWN_ANSWER_BYTES long, aligned to 256), where the result will be too; the result is poisoned.
 */
void known_answer_init(struct gemm_problem *problem, enum gemmd_dtype dtype, enum gemmd_dtype out,
                       bool transa, bool transb, void *memory);
/* Whether the result is right. If not, the first wrong element is at (*row, *column). */
bool known_answer_check(const struct gemm_problem *problem, uint64_t *row, uint64_t *column);

/* Writes a small integer, which the type holds exactly. */
void known_answer_store(unsigned char *to, int value, enum gemmd_dtype dtype);

#endif
