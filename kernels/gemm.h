/*
 * gemm.h - the one interface of every GEMM kernel.
 *
 *   C[i] = act(alpha * op(A[i]) * op(B[i]) + beta * C0[i] + bias),  i = 0 ... batch-1
 *
 * op(A) is m x k, op(B) k x n, C0 and C m x n, bias n (one vector for all rows of all
 * problems). What follows the sum is computed in the accumulator's type (dtype_accumulator)
 * and rounded once to `out`. 32-bit integer results wrap modulo 2^32.
 *
 * All pointers of a problem are in the memory of the context's backend: device memory (or
 * mapped host memory) for CUDA, host memory for the CPU. Matrices are row-major; a leading
 * dimension is the distance between the starts of two rows as stored, in elements. Nothing is
 * allocated here once a context exists. C must not overlap any operand. Operands, C and the
 * workspace begin at addresses that their types allow; for CUDA at multiples of 256 bytes, and for
 * the CPU the workspace at a multiple of 64. On CUDA an aligned piece of 16 bytes that has a byte
 * of an operand, of 128 where its rows begin at multiples of that, may be read whole, where nothing
 * depends on the rest; no other is touched.
 */
#ifndef KERNELS_GEMM_H
#define KERNELS_GEMM_H

#include <gemmd/dtypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/error.h"
#include "proto/gemm_request.h"

enum gemm_backend { GEMM_BACKEND_CPU, GEMM_BACKEND_CUDA };

/* What of a device decides which kernels it has. */
struct gemm_device {
    enum gemm_backend backend;
    uint32_t compute_capability; /* CUDA: 90 for 9.0; CPU: 0 */
    /* Kernels that it does without: bit i is number i of gemm_kernels, of attention_kernels. */
    uint32_t without_gemm, without_attention;
};

struct gemm_problem {
    enum gemmd_dtype dtype, out;
    enum gemm_precision precision;
    enum gemm_act act;
    bool transa, transb;
    uint64_t m, n, k, batch;
    double alpha, beta;
    const void *a;                /* [m, k], or [k, m] if transa */
    const void *b;                /* [k, n], or [n, k] if transb */
    const void *bias;             /* [n] of type out, or NULL */
    const void *c0;               /* [m, n] of type out; read only if beta != 0 */
    void *c;                      /* [m, n] of type out */
    uint64_t lda, ldb, ldc0, ldc; /* elements */
    uint64_t stride_a, stride_b, stride_c0, stride_c; /* elements from problem to problem */
};

/* Sets leading dimensions and strides for contiguous operands from m, n, k, transa and transb. */
void gemm_problem_contiguous(struct gemm_problem *problem);

/* One kernel. `takes` says whether it can compute the problem (pointers are not looked at);
 * `workspace_bytes` what it needs besides the operands, as a pure function of the problem;
 * `run` enqueues it on the context's stream (CUDA) or computes it (CPU). `run` returns
 * GEMMD_ERR_INTERNAL if a launch failed, GEMMD_ERR_UNSUPPORTED if a library has nothing for the
 * problem on this device, and GEMMD_ERR_DEVICE_LOST if the context is gone. */
struct gemm_context;
struct gemm_kernel {
    const char *name;
    const char *description;     /* one line, for /info */
    uint32_t compute_capability; /* of the only GPUs it runs on, 90 for 9.0; 0: any device */
    /* The bits of a row of C depend on that row of A and C0, and not on m or other rows: rows of
     * many requests may be stacked (kernels/stacked.h). */
    bool rows_independent;
    bool any_leading; /* a result's bits are the same whatever the leading dimensions and strides
                         are. Without it they may choose other code, as in a library */
    bool (*takes)(const struct gemm_problem *problem);
    /* Whether "auto" may choose it for a problem that it takes: false where another is faster.
     * Looks at no m and no batch if rows are to have the same bits in any company. NULL: always. */
    bool (*suits)(const struct gemm_problem *problem);
    bool (*workspace_bytes)(const struct gemm_problem *problem,
                            uint64_t *out); /* false: overflow */
    enum gemmd_error (*run)(struct gemm_context *context, const struct gemm_problem *problem,
                            void *workspace);
    /* Enqueues (CUDA) or computes (CPU) many problems at once, each of which the kernel takes and
     * none of which needs a workspace. On CUDA operands and results may lie in mapped host memory,
     * aligned to their elements. Results have the bytes that `run` gives. NULL: the kernel takes
     * one at a time. */
    enum gemmd_error (*run_group)(struct gemm_context *context,
                                  const struct gemm_problem *const problems[], uint32_t count);
};

/* Whether a problem is so small that what it costs is the way there and back: it is computed
 * where it lies, with others in one launch if there are any. A pure function of shape and types. */
bool gemm_is_small(const struct gemm_problem *problem);

/* The kernels of a backend, NULL-terminated; empty for a backend that is not built in. */
const struct gemm_kernel *const *gemm_kernels(enum gemm_backend backend);

/* Whether the device has it and does not do without it. */
bool gemm_kernel_runs_on(const struct gemm_kernel *kernel, const struct gemm_device *device);

/* The kernel for a problem: `name` is "auto" or a kernel's name. "auto" is the first that takes the
 * problem and suits it; for small ones, the first of those that take many at once. A name that does
 * not exist or a kernel that cannot take the problem is GEMMD_ERR_UNSUPPORTED; `fault` lists those
 * that can. Pure: the choice depends on the device and the problem's shape and types only. */
enum gemmd_error gemm_select(const struct gemm_device *device, const char *name,
                             const struct gemm_problem *problem, const struct gemm_kernel **kernel,
                             struct fault *fault);

/* The leading dimension with which the device's kernels use a matrix of rows of `width` elements
 * where it lies; any other is right too. `stays`: on the device, for any requests, so that it has
 * to suit every kernel that they may be served by; else it is one request's, whose kernel need not
 * take what it gains nothing from (device_layout_padded). Pure. */
uint64_t gemm_leading(const struct gemm_device *device, enum gemmd_dtype dtype, uint64_t width,
                      bool stays);

/* The version of the choice that gemm_select makes for "auto"; part of /info. */
const char *gemm_select_version(void);

/* What a kernel runs in. CPU: `stream` is ignored and `threads` bounds the threads used
 * (0: all cores). CUDA: `stream` is a cudaStream_t of the current device, which stays the caller's;
 * the context owns library handles and their fixed workspace, and is used by one thread at a time.
 */
enum gemmd_error gemm_context_create(enum gemm_backend backend, void *stream, uint32_t threads,
                                     struct gemm_context **context, struct fault *fault);
void gemm_context_destroy(struct gemm_context *context);

/* "OpenBLAS 0.3.21 ..." or "cuBLAS 13.1"; static storage. For /info and the build_info metric. */
const char *gemm_backend_library(enum gemm_backend backend);

#endif
