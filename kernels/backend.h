/*
 * backend.h - what a backend brings to kernels/gemm.c: its kernels and what they run in.
 *
 * There is one of these for the CPU and one for CUDA; a build without CUDA has an empty one.
 */
#ifndef KERNELS_BACKEND_H
#define KERNELS_BACKEND_H

#include "kernels/attention.h"
#include "kernels/gemm.h"

struct gemm_backend_entry {
    const char *name;                                /* "cpu" */
    const struct gemm_kernel *const *kernels;        /* best first, ended by NULL */
    const struct attention_kernel *const *attention; /* likewise; NULL: it has none */
    enum gemmd_error (*context_create)(void *stream, uint32_t threads,
                                       struct gemm_context **context, struct fault *fault);
    void (*context_destroy)(struct gemm_context *context);
    const char *(*library)(void);
    /* See gemm_leading; at least `width`. NULL: `width`. */
    uint64_t (*leading)(const struct gemm_device *device, enum gemmd_dtype dtype, uint64_t width);
};

/* The first member of each backend's own context. */
struct gemm_context {
    const struct gemm_backend_entry *backend;
};

extern const struct gemm_backend_entry gemm_backend_cpu;
extern const struct gemm_backend_entry gemm_backend_cuda;

/* Whether API.md offers such a problem at all (types, dimensions, what follows an integer sum).
 * Every kernel's `takes` begins with it. */
bool gemm_problem_offered(const struct gemm_problem *problem);
/* Likewise for attention; f8_e4m3 is for kernels that say so themselves. */
bool attention_problem_offered(const struct attention_problem *problem);

#endif
