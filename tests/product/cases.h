/*
 * cases.h - which problems a kernel is tested with.
 */
#ifndef TESTS_PRODUCT_CASES_H
#define TESTS_PRODUCT_CASES_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/gemm.h"

/* The pairs of types that API.md offers. */
struct case_types {
    enum gemmd_dtype dtype, out;
};
extern const struct case_types case_types[];
uint32_t case_types_count(void);

/* Odd sizes, among them the neighbours of powers of two. */
extern const uint64_t case_sizes[];
uint32_t case_sizes_count(void);

/* Every combination of transposes, scalars, bias, activation and batch, numbered from 0; sets them
 * in `problem`, whose types are set. False if such a problem is not offered for its types. */
uint32_t case_options_count(void);
bool case_set_options(struct gemm_problem *problem, uint32_t number);

#endif
