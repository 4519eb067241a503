/*
 * flops.h - floating-point operations of products and attentions: two for each multiply-add.
 */
#ifndef GEMMCTL_FLOPS_H
#define GEMMCTL_FLOPS_H

#include "proto/attention_request.h"
#include "proto/gemm_request.h"

/* 2 m n k for each problem of the batch. */
double flops_of_gemm(const struct gemm_request *request);
/* 2 (d + dv) for each pair of a query and a key that no mask excludes, of each head. Lengths from
 * --lens-q and --lens-kv are not taken into account. */
double flops_of_attention(const struct attention_request *request);

#endif
