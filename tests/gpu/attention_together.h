/*
 * attention_together.h - compares attentions that are computed together, in a shared launch or as
 * the ragged entries of one attention, with the same attentions by themselves, byte for byte.
 */
#ifndef TESTS_GPU_ATTENTION_TOGETHER_H
#define TESTS_GPU_ATTENTION_TOGETHER_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/attention.h"

struct attention_together {
    uint64_t passed, failed; /* attentions */
    char first[512];         /* description of the first failure */
};

/* Checks a kernel with operands of type `dtype`. O, lse and the bytes around them must be the same
 * as for each attention by itself. Checks nothing if the kernel does not take such problems.
 * `stream` is the context's stream. Returns false if no further check can run. */
typedef bool (*attention_together_check)(const struct operation_kernel *kernel,
                                         enum gemmd_dtype dtype, struct gemm_context *context,
                                         void *stream, bool quick,
                                         struct attention_together *result);

/* Of kernels with run_group: random groups with every kind of mask, of a few attentions and of more
 * attentions than one launch takes. */
bool attention_shared_launch_check(const struct operation_kernel *kernel, enum gemmd_dtype dtype,
                                   struct gemm_context *context, void *stream, bool quick,
                                   struct attention_together *result);

/* Of kernels that take ragged entries: entries of many and of no queries and keys, with every kind
 * of mask, slopes and sinks. Each entry is also compared with f64, by itself. The ragged attention
 * runs in one launch, in several, and divided as over several devices. */
bool attention_ragged_check(const struct operation_kernel *kernel, enum gemmd_dtype dtype,
                            struct gemm_context *context, void *stream, bool quick,
                            struct attention_together *result);

#endif
