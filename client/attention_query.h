/*
 * attention_query.h - the path and query of a request for an attention.
 */
#ifndef CLIENT_ATTENTION_QUERY_H
#define CLIENT_ATTENTION_QUERY_H

#include <gemmd/gemmd.h>
#include <stddef.h>

#include "proto/attention_request.h"

/* Writes "/attention?heads=..." to `out` of `room` bytes, with the rules of gemm_query_write
 * (gemm_query.h). `asked` becomes the parsed request, with all sizes filled in. */
enum gemmd_error attention_query_write(const struct gemmd_attention *attention, char *out,
                                       size_t room, struct attention_request *asked,
                                       struct fault *fault);

#endif
