/*
 * parameters.h - the options that are parameters of POST /gemm or /attention, read by proto's own
 * rules.
 */
#ifndef GEMMCTL_PARAMETERS_H
#define GEMMCTL_PARAMETERS_H

#include <gemmd/gemmd.h>

#include "client/gemmctl/options.h"
#include "proto/attention_request.h"
#include "proto/gemm_request.h"

/* Set every parameter that was given. GEMMD_ERR_MALFORMED with a sentence. */
enum gemmd_error parameters_read_gemm(struct gemm_request *request,
                                      const struct arguments *arguments, struct fault *fault);
enum gemmd_error parameters_read_attention(struct attention_request *request,
                                           const struct arguments *arguments, struct fault *fault);
/* The product that a request describes once its operands are bound. The names are borrowed from
 * the request. */
void parameters_to_gemm(const struct gemm_request *request, const struct gemm_operands *operands,
                        struct gemmd_gemm *gemm);
/* The same of an attention. */
void parameters_to_attention(const struct attention_request *request,
                             const struct attention_operands *operands,
                             struct gemmd_attention *attention);

#endif
