/*
 * gemm_query.h - the path and query of a request for a product.
 */
#ifndef CLIENT_GEMM_QUERY_H
#define CLIENT_GEMM_QUERY_H

#include <gemmd/gemmd.h>
#include <stddef.h>

#include "proto/gemm_request.h"

/* Writes "/gemm?m=..." to `out` of `room` bytes, without the parameters that have their default.
 * timeout_ms is written for a job only, since each attempt appends the time that is left. Every
 * parameter is also parsed by proto/ into `asked`, so that a parameter that the daemon would refuse
 * is refused here with the same sentence. */
enum gemmd_error gemm_query_write(const struct gemmd_gemm *gemm, char *out, size_t room,
                                  struct gemm_request *asked, struct fault *fault);

#endif
