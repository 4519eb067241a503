/*
 * parts.h - f32 operands in the parts that the kernels of precision full take.
 */
#ifndef TESTS_BENCH_PARTS_H
#define TESTS_BENCH_PARTS_H

#include "kernels/cuda/sm90/sm90.h"

/* Splits both operands of a problem, on the default stream, into device memory that is allocated
 * here: *memory is the caller's to free with cudaFree. False, with nothing allocated, on failure;
 * true without doing anything for problems that need no parts. */
bool bench_split(const struct gemm_problem *problem, void **memory, struct sm90_parts *parts);

bool bench_is_split(const struct gemm_problem *problem);

#endif
