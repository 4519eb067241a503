/*
 * attention_query.h - the path and query of a request for an attention.
 */
#ifndef CLIENT_ATTENTION_QUERY_H
#define CLIENT_ATTENTION_QUERY_H

#include <gemmd/gemmd.h>
#include <stddef.h>

#include "proto/attention_request.h"

/* Writes "/attention?heads=..." as gemm_query_write does; `asked` then has all sizes. */
enum gemmd_error attention_query_write(const struct gemmd_attention *attention, char *out,
                                       size_t room, struct attention_request *asked,
                                       struct fault *fault);

#endif
