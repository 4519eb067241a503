/*
 * known_answer.h - a small product with a known answer, for every type. The self-test and the
 * readiness probe use it.
 *
 * The operands are small integers, which every type represents exactly, and so are all sums.
 * Whatever kernel computes the product, and in whatever order, every bit of the answer is the same.
 * The three dimensions differ, so that a wrong dimension or transposition shows.
 */
#ifndef KERNELS_KNOWN_ANSWER_H
#define KERNELS_KNOWN_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/gemm.h"

/* Multiples of 16, which the 8-bit kernels of some libraries need. With this k, small products of
 * f32 use tensor cores. */
enum { KNOWN_ANSWER_M = 16, KNOWN_ANSWER_N = 48, KNOWN_ANSWER_K = 64 };
/* Bytes of host memory for the operands and the result in any type. Each part starts at a multiple
 * of 256 bytes. */
enum { KNOWN_ANSWER_BYTES = 64 * 1024 };

/* Makes a problem with operands of type `dtype` and a result of type `out`. Writes the operands to
 * `memory` (KNOWN_ANSWER_BYTES bytes, aligned to 256), which also has room for the result, and
 * fills the result with bytes that are not the answer. */
void known_answer_init(struct gemm_problem *problem, enum gemmd_dtype dtype, enum gemmd_dtype out,
                       bool transa, bool transb, void *memory);
/* Whether the result of the problem, a struct gemm_problem, is the known answer. If not, the first
 * wrong element is at (*row, *column). */
bool known_answer_check(const void *problem, uint64_t *row, uint64_t *column);

/* Writes a small integer, which the type represents exactly, as one little-endian element. */
void known_answer_store(unsigned char *to, int value, enum gemmd_dtype dtype);

#endif
