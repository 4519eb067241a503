/*
 * cpu_reduce.h - the locations of operands and results of reductions.
 *
 * Pure functions, any thread.
 */
#ifndef KERNELS_CPU_CPU_REDUCE_H
#define KERNELS_CPU_CPU_REDUCE_H

#include <stdint.h>

#include "kernels/reduce.h"

/* The first element that is reduced to result number `result`, and the result. */
struct reduce_place {
    const char *x;
    char *y;
};
struct reduce_place reduce_place_of(const struct reduce_problem *problem, uint64_t result);

/* Rounds a value to the type of a result, and stores it. */
void reduce_store(enum gemmd_dtype out, double value, char *y);
/* Stores an integer in a result of i32 or i8, modulo the type, or rounded in any other type. */
void reduce_store_integer(enum gemmd_dtype out, int64_t value, char *y);

#endif
