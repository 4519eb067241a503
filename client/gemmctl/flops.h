/*
 * flops.h - floating-point operations of products, attentions and convolutions: two for each
 * multiply-add.
 */
#ifndef GEMMCTL_FLOPS_H
#define GEMMCTL_FLOPS_H

#include "proto/attention_request.h"
#include "proto/conv2d_request.h"
#include "proto/gemm_request.h"

/* 2 m n k for each problem of the batch. */
double flops_of_gemm(const struct gemm_request *request);
/* 2 (d + dv) for each pair of a query and a key that no mask excludes, of each head. Lengths from
 * --lens-q and --lens-kv are not taken into account. */
double flops_of_attention(const struct attention_request *request);
/* 2 channels / groups * filter_h * filter_w for each element of Y. The sizes must be settled. */
double flops_of_conv(const struct conv2d_request *request);

#endif
