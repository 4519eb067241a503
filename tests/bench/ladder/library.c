/*
 * Products and attentions of our kernels as a shared object, for the scripts of this folder: no
 * header, since only a foreign function interface calls it. One stream, one thread.
 *
 * Products are C = act(A * B + bias) of square row-major matrices of one type, f16 or f32.
 * Attentions are of f16, with contiguous heads [batch, heads, s, d]. A kernel's name may be "auto".
 */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/operations.h"
#include "proto/revision.h"

/* Enough for the parts of two operands of 4096 x 4096. */
enum { WORKSPACE_BYTES = 512 << 20 };

static const struct gemm_device HOPPER = {.backend = GEMM_BACKEND_CUDA, .compute_capability = 90};

struct library {
    struct gemm_context *context;
    void *workspace;
};

#define EXPORTED __attribute__((visibility("default")))
EXPORTED void *gemmd_bench_ladder_open(void *stream);
EXPORTED const char *gemmd_bench_ladder_revision(void);
EXPORTED int gemmd_bench_ladder_product(void *handle, const char *name, int f16, int fused,
                                        uint64_t n, const void *a, const void *b, const void *bias,
                                        void *c);
EXPORTED int gemmd_bench_ladder_attention(void *handle, const char *name, const uint64_t shape[4],
                                          int causal, const void *q, const void *k, const void *v,
                                          void *o);

/* NULL, after saying why on standard error, if there is no memory or no GPU. */
void *gemmd_bench_ladder_open(void *stream)
{
    struct fault fault = {0};
    struct library *library = calloc(1, sizeof *library);
    if (library == NULL)
        return NULL;
    const cudaError_t error = cudaMalloc(&library->workspace, WORKSPACE_BYTES);
    if (error != cudaSuccess)
        fprintf(stderr, "gemmd_bench_ladder: %s\n", cudaGetErrorString(error));
    else if (gemm_context_create(GEMM_BACKEND_CUDA, stream, 0, &library->context, &fault) !=
             GEMMD_OK)
        fprintf(stderr, "gemmd_bench_ladder: %s\n", fault.detail);
    else
        return library;
    (void)cudaFree(library->workspace);
    free(library);
    return NULL;
}

const char *gemmd_bench_ladder_revision(void)
{
    static char text[96];
    snprintf(text, sizeof text, GEMMD_VERSION " (%s)", gemmd_revision);
    return text;
}

/* Enqueues the task by the kernel with the name. Returns enum gemmd_error. */
static int ladder_run(const struct library *library, const char *name, struct task *task)
{
    struct fault fault = {0};
    uint64_t bytes = 0;
    const enum gemmd_error code =
        operation_select(task->operation, &HOPPER, name, &task->problem, &task->kernel, &fault);
    if (code != GEMMD_OK)
        return (int)code;
    if (!task->kernel->workspace_bytes(&task->problem, &bytes) || bytes > WORKSPACE_BYTES)
        return GEMMD_ERR_UNSUPPORTED;
    return (int)operation_run(task->kernel, library->context, &task->problem, library->workspace);
}

/* Enqueues a product of n x n x n; with `fused` a bias and gelu_tanh are added. Returns enum
 * gemmd_error. */
int gemmd_bench_ladder_product(void *handle, const char *name, int f16, int fused, uint64_t n,
                               const void *a, const void *b, const void *bias, void *c)
{
    const enum gemmd_dtype dtype = f16 ? GEMMD_F16 : GEMMD_F32;
    struct task task = {.operation = &operation_gemm};
    task.problem.gemm = (struct gemm_problem){.dtype = dtype,
                                              .out = dtype,
                                              .act = fused ? GEMM_ACT_GELU_TANH : GEMM_ACT_NONE,
                                              .m = n,
                                              .n = n,
                                              .k = n,
                                              .batch = 1,
                                              .alpha = 1,
                                              .a = a,
                                              .b = b,
                                              .bias = fused ? bias : NULL,
                                              .c = c};
    gemm_problem_contiguous(&task.problem.gemm);
    return ladder_run(handle, name, &task);
}

/* Enqueues an attention with scale 1 / sqrt(d); shape: batch, heads, s, d. Returns enum
 * gemmd_error. */
int gemmd_bench_ladder_attention(void *handle, const char *name, const uint64_t shape[4],
                                 int causal, const void *q, const void *k, const void *v, void *o)
{
    struct task task = {.operation = &operation_attention};
    struct attention_problem *p = &task.problem.attention;
    *p = (struct attention_problem){.dtype = GEMMD_F16,
                                    .batch = shape[0],
                                    .heads = shape[1],
                                    .kv_heads = shape[1],
                                    .sq = shape[2],
                                    .skv = shape[2],
                                    .d = shape[3],
                                    .dv = shape[3],
                                    .causal = causal != 0,
                                    .scale = 1 / sqrtf((float)shape[3]),
                                    .q = q,
                                    .k = k,
                                    .v = v,
                                    .o = o};
    p->q_strides = p->k_strides = p->v_strides = p->o_strides =
        attention_strides(ATTENTION_BHSD, p->heads, p->sq, p->d);
    return ladder_run(handle, name, &task);
}
