/*
 * parameters.h - reads the options that are parameters of POST /gemm, /attention and the other
 * operations, by the rules of proto/.
 */
#ifndef GEMMCTL_PARAMETERS_H
#define GEMMCTL_PARAMETERS_H

#include <gemmd/gemmd.h>

#include "client/gemmctl/options.h"
#include "proto/attention_request.h"
#include "proto/gemm_request.h"
#include "proto/parameter.h"

/* Set the parameters of `request` that the command line gives. GEMMD_ERR_MALFORMED with a sentence
 * in `fault`. */
enum gemmd_error parameters_read_gemm(struct gemm_request *request,
                                      const struct arguments *arguments, struct fault *fault);
enum gemmd_error parameters_read_attention(struct attention_request *request,
                                           const struct arguments *arguments, struct fault *fault);
/* Sets the parameters of a request of any operation, which has the defaults, from the command line,
 * by the operation's table. GEMMD_ERR_MALFORMED with a sentence in `fault`. */
enum gemmd_error parameters_read(void *request, const struct parameter_table *table,
                                 const struct arguments *arguments, struct fault *fault);
/* Fills in the library's structure of a product from a request with bound operands. Strings are
 * borrowed from the request. */
void parameters_to_gemm(const struct gemm_request *request, const struct gemm_operands *operands,
                        struct gemmd_gemm *gemm);
/* Fills in the library's structure of an attention, with the rules of parameters_to_gemm. */
void parameters_to_attention(const struct attention_request *request,
                             const struct attention_operands *operands,
                             struct gemmd_attention *attention);

#endif
