/*
 * operands.h - the operands of simulated requests, their sizes, and the task that computes the
 * right result from them.
 */
#ifndef TESTS_SIMULATE_OPERANDS_H
#define TESTS_SIMULATE_OPERANDS_H

#include "kernels/operations.h"
#include "tests/simulate/requests.h"

/* The elements of the request's body and of its result. */
uint64_t operands_in_body(const struct request_traits *t);
uint64_t operands_in_result(const struct request_traits *t);

/* Writes the first `count` elements of the contents number `contents`, which are small whole
 * numbers, so that sums are exact. */
void operands_fill(uint64_t contents, float *out, uint64_t count);

/* The task of a request to compute. `b` is the resident B; NULL: B is in the body. */
struct task operands_task(const struct request_traits *t, const float *body, const float *b,
                          float *result);

#endif
