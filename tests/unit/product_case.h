/*
 * product_case.h - one small product, and clients of a fake server, for the tests of libgemmd.
 */
#ifndef TESTS_UNIT_PRODUCT_CASE_H
#define TESTS_UNIT_PRODUCT_CASE_H

#include <gemmd/gemmd.h>

#include "fake_http.h"

enum { CASE_M = 2, CASE_N = 3, CASE_K = 4, CASE_C_BYTES = CASE_M * CASE_N * 4 };

extern const float case_a[CASE_M * CASE_K], case_b[CASE_K * CASE_N];
extern const float case_bias[CASE_N], case_c0[CASE_M * CASE_N];
/* What the fake server answers; it is no product of anything. */
extern const float case_product[CASE_M * CASE_N];

/* C = A * B in f32, into a buffer of the library's. */
struct gemmd_gemm case_gemm(void);
/* The act that answers it. */
struct fake_act case_act(char head[FAKE_HEAD_MAX]);
/* A client with a token and so many repeats. */
struct gemmd_client *case_client(const char *url, uint32_t retries);

#endif
