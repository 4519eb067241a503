/*
 * backend.h - what a backend brings to kernels/gemm.c: its kernels and what they run in.
 *
 * There is one of these for the CPU and one for CUDA; a build without CUDA has an empty one.
 */
#ifndef KERNELS_BACKEND_H
#define KERNELS_BACKEND_H

#include "kernels/attention.h"
#include "kernels/gemm.h"

/* Blocks of rows and where they go. On CUDA either side may be in mapped host memory. */
enum { GEMM_MOVES = 160 }; /* so many fit in the parameters of a launch */
struct gemm_move {
    const void *from;
    void *to;
    uint64_t rows;
};
struct gemm_moves {
    uint64_t row_bytes, from_pitch, to_pitch; /* of all; pitches in bytes */
    uint32_t count;
    struct gemm_move list[GEMM_MOVES];
};

struct gemm_backend_entry {
    const char *name;                                /* "cpu" */
    const struct gemm_kernel *const *kernels;        /* best first, ended by NULL */
    const struct attention_kernel *const *attention; /* likewise; NULL: it has none */
    enum gemmd_error (*context_create)(void *stream, uint32_t threads,
                                       struct gemm_context **context, struct fault *fault);
    void (*context_destroy)(struct gemm_context *context);
    /* Enqueues (CUDA) or makes (CPU) the moves. */
    enum gemmd_error (*move_rows)(struct gemm_context *context, const struct gemm_moves *moves);
    const char *(*library)(void);
    /* See gemm_leading; at least `width`. NULL: `width`. */
    uint64_t (*leading)(const struct gemm_device *device, enum gemmd_dtype dtype, uint64_t width,
                        bool stays);
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

/* `workspace_bytes` of kernels that need no workspace: sets *out to 0 and returns true. */
bool gemm_no_workspace(const struct gemm_problem *problem, uint64_t *out);
bool attention_no_workspace(const struct attention_problem *problem, uint64_t *out);

#endif
