/*
 * attention_shared_launch.h - compares attentions that share a launch with the same attentions
 * by themselves, byte for byte.
 */
#ifndef TESTS_GPU_ATTENTION_SHARED_LAUNCH_H
#define TESTS_GPU_ATTENTION_SHARED_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/attention.h"

struct attention_shared_launch {
    uint64_t passed, failed; /* attentions */
    char first[512];         /* description of the first failure */
};

/* Checks a kernel that has run_group, with operands of type `dtype`: random groups with every kind
 * of mask, of a few attentions and of more attentions than one launch takes. O, lse and the bytes
 * around them must be the same as for each attention by itself. `stream` is the context's stream.
 * Returns false if no further check can run. */
bool attention_shared_launch_check(const struct operation_kernel *kernel, enum gemmd_dtype dtype,
                                   struct gemm_context *context, void *stream, bool quick,
                                   struct attention_shared_launch *result);

#endif
