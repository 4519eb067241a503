/*
 * gemm_query.h - the path and query of a request for a product.
 */
#ifndef CLIENT_GEMM_QUERY_H
#define CLIENT_GEMM_QUERY_H

#include <gemmd/gemmd.h>
#include <stddef.h>

#include "proto/gemm_request.h"

/* Writes "/gemm?m=...", without timeout_ms unless it is a job's, to `out` of `room` bytes;
 * parameters at their default are left out. Each goes through proto's reading of it into `asked`,
 * so that what the daemon would refuse is refused here, in the same words. */
enum gemmd_error gemm_query_write(const struct gemmd_gemm *gemm, char *out, size_t room,
                                  struct gemm_request *asked, struct fault *fault);

#endif
