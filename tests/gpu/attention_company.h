/*
 * attention_company.h - attentions in groups against the same ones alone, byte for byte.
 */
#ifndef TESTS_GPU_ATTENTION_COMPANY_H
#define TESTS_GPU_ATTENTION_COMPANY_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/attention.h"

struct attention_company {
    uint64_t passed, failed; /* attentions */
    char first[512];         /* what failed first */
};

/* Random mixes of a kernel that has run_group, in a type: of every kind of mask, of few and of more
 * than a launch takes; O, lse and what surrounds them have to be what they are alone. `stream` is
 * the context's. False if nothing more can be run. */
bool attention_company_check(const struct attention_kernel *kernel, enum gemmd_dtype dtype,
                             struct gemm_context *context, void *stream, bool quick,
                             struct attention_company *company);

#endif
