/*
 * The attention kernels as a shared object, for attention_cudnn.py: no header, since only a foreign
 * function interface calls it. One stream, one thread.
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/operations.h"
#include "proto/revision.h"
#include "tests/bench/attention.h"

enum { WORKSPACE_BYTES = 256 << 20, KERNEL_NAME_MAX = 64 };

/* That is where cuDNN is worth comparing with. */
static const struct gemm_device HOPPER = {.backend = GEMM_BACKEND_CUDA, .compute_capability = 90};

struct library {
    struct gemm_context *context;
    void *workspace;
};

#define EXPORTED __attribute__((visibility("default")))
EXPORTED void *gemmd_bench_attention_open(void *stream);
EXPORTED const char *gemmd_bench_attention_revision(void);
EXPORTED int gemmd_bench_attention_cells(void);
EXPORTED int gemmd_bench_attention_cell(int index, char name[48], uint64_t shape[7]);
EXPORTED int gemmd_bench_attention(void *handle, const char *kernel, int bf16,
                                   const uint64_t shape[7], const void *q, const void *k,
                                   const void *v, void *o);
EXPORTED int gemmd_bench_attention_kernel(int bf16, const uint64_t shape[7], int number,
                                          char *name);

/* NULL if there is no memory or no GPU. */
void *gemmd_bench_attention_open(void *stream)
{
    struct fault fault = {0};
    struct library *library = calloc(1, sizeof *library);
    if (library != NULL && (cudaMalloc(&library->workspace, WORKSPACE_BYTES) != cudaSuccess ||
                            gemm_context_create(GEMM_BACKEND_CUDA, stream, 0, &library->context,
                                                &fault) != GEMMD_OK)) {
        free(library);
        library = NULL;
    }
    return library;
}

const char *gemmd_bench_attention_revision(void)
{
    static char text[96];
    snprintf(text, sizeof text, GEMMD_VERSION " (%s)", gemmd_revision);
    return text;
}

int gemmd_bench_attention_cells(void)
{
    struct attention_cell cells[ATTENTION_CELLS_MAX];
    int count = attention_cells(NULL, cells);
    while (count > 0 && cells[count - 1].launches != ATTENTION_WHOLE)
        count--;
    return count;
}

/* shape: batch, heads, kv_heads, sq, skv, d, causal. */
int gemmd_bench_attention_cell(int index, char name[48], uint64_t shape[7])
{
    struct attention_cell cells[ATTENTION_CELLS_MAX];
    if (index < 0 || index >= attention_cells(NULL, cells))
        return -1;
    const struct attention_cell *c = &cells[index];
    const uint64_t values[] = {c->batch, c->heads, c->kv_heads, c->sq, c->skv, c->d, c->causal};
    memcpy(name, c->name, sizeof c->name);
    memcpy(shape, values, sizeof values);
    return 0;
}

static struct attention_problem problem_of_shape(const uint64_t shape[7], int bf16)
{
    const struct attention_cell cell = {.batch = shape[0],
                                        .heads = shape[1],
                                        .kv_heads = shape[2],
                                        .sq = shape[3],
                                        .skv = shape[4],
                                        .d = shape[5],
                                        .causal = shape[6] != 0};
    return attention_cell_problem(&cell, bf16 ? GEMMD_BF16 : GEMMD_F16);
}

/* The name of the `number`th kernel worth measuring on a shape, the one that would be chosen first;
 * -1 if there are no more. */
int gemmd_bench_attention_kernel(int bf16, const uint64_t shape[7], int number, char *name)
{
    struct attention_own own[ATTENTION_OWN_MAX];
    const struct attention_problem p = problem_of_shape(shape, bf16);
    const int count = attention_own_list(p.dtype, own);
    const struct operation_kernel *chosen = NULL;
    for (int k = 0; k < count; k++) {
        if (!attention_own_takes(&own[k], &p))
            continue;
        if (chosen == NULL) {
            chosen = operation_preferred(&operation_attention, &HOPPER, own[k].kernel, &p);
            if (number-- == 0) {
                strncpy(name, chosen->name, KERNEL_NAME_MAX - 1);
                return 0;
            }
        }
        const bool is_chosen = own[k].kernel == chosen && own[k].tile == NULL;
        if (!is_chosen && number-- == 0) {
            strncpy(name, own[k].name, KERNEL_NAME_MAX - 1);
            return 0;
        }
    }
    return -1;
}

/* Enqueues an attention of a shape, scale 1 / sqrt(d); enum gemmd_error. */
int gemmd_bench_attention(void *handle, const char *kernel, int bf16, const uint64_t shape[7],
                          const void *q, const void *k, const void *v, void *o)
{
    struct library *library = handle;
    struct attention_own own[ATTENTION_OWN_MAX];
    struct attention_problem p = problem_of_shape(shape, bf16);
    p.q = q;
    p.k = k;
    p.v = v;
    p.o = o;
    const int count = attention_own_list(p.dtype, own);
    for (int i = 0; i < count; i++) {
        uint64_t bytes = 0;
        if (strcmp(own[i].name, kernel) == 0 && own[i].kernel->takes(&p) &&
            own[i].kernel->workspace_bytes(&p, &bytes) && bytes <= WORKSPACE_BYTES)
            return attention_own_run(&own[i], library->context, &p, library->workspace);
    }
    return GEMMD_ERR_UNSUPPORTED;
}
