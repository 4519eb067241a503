/*
 * cases.h - which problems a kernel is tested with.
 */
#ifndef TESTS_PRODUCT_CASES_H
#define TESTS_PRODUCT_CASES_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/gemm.h"

/* The pairs of types that proto/PROTOCOL.md offers. */
struct case_types {
    enum gemmd_dtype dtype, out;
};
extern const struct case_types case_types[];
uint32_t case_types_count(void);

/* Odd sizes, among them the neighbours of powers of two. */
extern const uint64_t case_sizes[];
uint32_t case_sizes_count(void);

/* A sanitizer makes each access a lot slower, and what it looks for is the same for a small
 * part of the numbers: under it, tests take every so-manieth case, and sums that much shorter,
 * unless the build has GEMMD_WHOLE_CASES. So do tests that are compiled for another processor,
 * which an emulator runs. The factor has none in common with case_options_count, so every option
 * still has each of its values. */
#ifdef CASES_THINNED
enum { CASE_THINNING = 29 };
#else
enum { CASE_THINNING = 1 };
#endif

/* ThreadSanitizer looks for races, which neither widths nor masks decide. Under it, and in an
 * emulator, tests that CASE_THINNING does not thin take every CASE_STRIDE-th case, and groups are
 * as much smaller. */
#ifdef CASES_FEW
enum { CASE_STRIDE = 5 };
#else
enum { CASE_STRIDE = 1 };
#endif
#define CASES_OF(count) (((count) + CASE_STRIDE - 1) / CASE_STRIDE)

/* Every combination of transposes, scalars, bias, activation and batch, numbered from 0; sets them
 * in `problem`, whose types are set. False if such a problem is not offered for its types. */
uint32_t case_options_count(void);
bool case_set_options(struct gemm_problem *problem, uint32_t number);

#endif
