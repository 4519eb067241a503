/*
 * backend.h - the interface between kernels/backend.c and a backend: its kernels and its context.
 *
 * There are two backends, CPU and CUDA. In a build without CUDA the CUDA backend has no kernels.
 */
#ifndef KERNELS_BACKEND_H
#define KERNELS_BACKEND_H

#include "kernels/gemm.h"
#include "kernels/operation.h"

/* Copies of blocks of rows. On CUDA source and destination may be in mapped host memory. */
enum { GEMM_MOVES = 160 }; /* the most that fit in the parameters of a launch */
struct gemm_move {
    const void *from;
    void *to;
    uint64_t rows;
};
struct gemm_moves {
    uint64_t row_bytes, from_pitch, to_pitch; /* the same for all blocks; pitches in bytes */
    uint32_t count;
    struct gemm_move list[GEMM_MOVES];
};

struct operation_small_check;

struct gemm_backend_entry {
    const char *name; /* "cpu" */
    /* The kernels of each operation, best first, ended by NULL. NULL: the backend has no kernels
     * for the operation. */
    const struct operation_kernel *const *kernels[OPERATION_COUNT];
    enum gemmd_error (*context_create)(void *stream, uint32_t threads,
                                       struct gemm_context **context, struct fault *fault);
    void (*context_destroy)(struct gemm_context *context);
    /* Enqueues (CUDA) or performs (CPU) the copies. */
    enum gemmd_error (*move_rows)(struct gemm_context *context, const struct gemm_moves *moves);
    /* freivalds_check of the backend (kernels/freivalds.h). `residuals`, if not NULL, gets the
     * residuals of the rows [batch][m] in the workspace's stead; on CUDA this is device memory or
     * mapped host memory. */
    enum gemmd_error (*check)(struct gemm_context *context, const struct gemm_problem *problem,
                              uint64_t seed, double *residuals, void *workspace);
    /* freivalds_check_small of the backend. NULL: the backend has no shared launches of small
     * problems. */
    enum gemmd_error (*check_small)(struct gemm_context *context,
                                    struct operation_small_check *checks, uint32_t count);
    const char *(*library)(void);
    /* gemm_leading of the backend. The result is at least `width`. NULL: always `width`. */
    uint64_t (*leading)(const struct gemm_device *device, enum gemmd_dtype dtype, uint64_t width,
                        bool stays);
};

/* The first member of every backend's context struct. */
struct gemm_context {
    const struct gemm_backend_entry *backend;
};

extern const struct gemm_backend_entry gemm_backend_cpu;
extern const struct gemm_backend_entry gemm_backend_cuda;

/* Whether the protocol allows the problem's types, dimensions, scales and, for integer results,
 * scalars and activation. Every kernel's `takes` calls this function or gemm_problem_unscaled
 * first. */
bool gemm_problem_offered(const void *problem);
/* As gemm_problem_offered, for kernels that take no scales. */
bool gemm_problem_unscaled(const void *problem);
/* Whether B is packed weights, and the protocol allows the problem's types and dimensions. The
 * functions above return false for packed weights. */
bool gemm_problem_packed(const void *problem);
/* As gemm_problem_offered, for attentions. f8_e4m3 is false: a kernel for f8_e4m3 checks the
 * problem itself. */
bool attention_problem_offered(const void *problem);
/* Whether attention_problem_offered, and the problem has none of what fewer kernels take: a mask,
 * an offset, a window to the right, ragged entries, slopes or sinks. */
bool attention_problem_is_plain(const void *problem);
/* As gemm_problem_offered, for convolutions. */
bool conv_problem_offered(const void *problem);
/* As gemm_problem_offered, for experts. */
bool experts_problem_offered(const void *problem);

#endif
