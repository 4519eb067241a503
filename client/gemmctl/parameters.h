/*
 * parameters.h - the request that the command line describes: the options that are parameters of
 * POST /gemm, /attention and the other operations, by the rules of proto/, and operands that are
 * resident on the daemon, which the command line names tensor:NAME.
 */
#ifndef GEMMCTL_PARAMETERS_H
#define GEMMCTL_PARAMETERS_H

#include <gemmd/gemmd.h>

#include "client/gemmctl/options.h"
#include "proto/attention_request.h"
#include "proto/conv2d_request.h"
#include "proto/gemm_request.h"
#include "proto/parameter.h"
#include "proto/tensor.h"

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

/* ---- resident operands ---- */

/* The NAME of an operand "tensor:NAME", borrowed from `operand`; NULL if `operand` is NULL or has
 * another form. */
const char *resident_name(const char *operand);
/* Asks the daemon for the type and shape of a resident tensor. */
enum gemmd_error resident_look(struct gemmd_client *client, const char *name, struct tensor *tensor,
                               struct gemmd_error_info *error);
/* If `*path` is "tensor:NAME": looks at the tensor, gives the request the parameter (the table's)
 * with that name, points `*resident` at `tensor` and makes `*path` NULL. */
enum gemmd_error resident_take(struct gemmd_client *client, const struct parameter_table *table,
                               void *request, const char *parameter, const char **path,
                               struct tensor *tensor, const struct tensor **resident,
                               struct gemmd_error_info *error);

/* ---- floating-point operations, two for each multiply-add ---- */

/* 2 m n k for each problem of the batch. */
double flops_of_gemm(const struct gemm_request *request);
/* 2 (d + dv) for each pair of a query and a key that no mask excludes, of each head. Lengths from
 * --lens-q and --lens-kv are not taken into account: the rows of ragged entries count as those of
 * one entry. */
double flops_of_attention(const struct attention_request *request);
/* 2 channels / groups * filter_h * filter_w for each element of Y. The sizes must be settled. */
double flops_of_conv(const struct conv2d_request *request);

#endif
