/*
 * bf16_range.h - whether numbers of bf16 are so small that instructions for bf16, which take
 * subnormal numbers for zero, would compute their products and sums wrong.
 *
 * Pure functions, any thread.
 */
#ifndef KERNELS_CPU_BF16_RANGE_H
#define KERNELS_CPU_BF16_RANGE_H

#include <stdbool.h>
#include <stdint.h>

/* Finds the least magnitude but zero in each of `extent` lines of `depth` numbers. Where `along` is
 * true a line is in one piece and the next one begins `ld` numbers further; otherwise lines are
 * neighbours, and their next numbers are `ld` numbers further. A magnitude is the number without
 * its sign, less 1: 65535 if all numbers of the line are zero. */
void bf16_least(const uint16_t *x, uint64_t ld, bool along, uint64_t extent, uint64_t depth,
                uint16_t least[]);

/* The least magnitude of `lines` lines of `length` numbers, each of which begins `ld` numbers after
 * the one before. */
uint16_t bf16_least_of_all(const uint16_t *x, uint64_t ld, uint64_t lines, uint64_t length);

/* Whether all products of numbers of two operands, and all their sums, are zero or normal, from the
 * least magnitudes of the operands. */
bool bf16_products_are_normal(uint16_t a_least, uint16_t b_least);

#endif
