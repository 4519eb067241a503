/*
 * parts.h - operands made into what kernels take: f32 in the parts of precision full, B of tf32
 * turned.
 */
#ifndef TESTS_BENCH_PARTS_H
#define TESTS_BENCH_PARTS_H

#include "kernels/cuda/sm90/sm90.h"

/* Makes the parts of both operands of a problem, on the default stream, into device memory that is
 * allocated here: *memory is the caller's to free with cudaFree. False, with nothing allocated, on
 * failure; true without doing anything for problems that need no parts. */
bool bench_make_parts(const struct gemm_problem *problem, void **memory, struct sm90_parts *parts);

/* The same problem with B along k, if it is one of tf32 and B lies along n: turned on the default
 * stream into device memory that is allocated here, the caller's to free with cudaFree. Other
 * problems stay as they are. False, with nothing allocated, on failure. */
bool bench_turn(const struct gemm_problem *problem, void **memory, struct gemm_problem *turned);

bool bench_is_in_parts(const struct gemm_problem *problem);

#endif
