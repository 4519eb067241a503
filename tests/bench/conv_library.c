/*
 * The convolution kernels as a shared object, for conv_cudnn.py: no header, since only a foreign
 * function interface calls it. One stream, one thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/revision.h"
#include "tests/bench/conv.h"

enum { KERNEL_NAME_MAX = 64, LAYER_NAME_MAX = 48 };
static const uint64_t WORKSPACE_BYTES = (uint64_t)1 << 30;

/* That is where cuDNN is worth comparing with. */
static const struct gemm_device HOPPER = {.backend = GEMM_BACKEND_CUDA, .compute_capability = 90};

struct library {
    struct gemm_context *context;
    void *workspace;
};

#define EXPORTED __attribute__((visibility("default")))
EXPORTED void *gemmd_bench_conv_open(void *stream);
EXPORTED const char *gemmd_bench_conv_revision(void);
EXPORTED int gemmd_bench_conv_layers(void);
EXPORTED int gemmd_bench_conv_layer(int index, char *name, uint64_t shape[9]);
EXPORTED int gemmd_bench_conv(void *handle, const char *kernel, int bf16, int index, const void *x,
                              const void *w, void *y);
EXPORTED int gemmd_bench_conv_kernel(int bf16, int index, int number, char *name);

/* NULL if there is no memory or no GPU. */
void *gemmd_bench_conv_open(void *stream)
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

const char *gemmd_bench_conv_revision(void)
{
    static char text[96];
    snprintf(text, sizeof text, GEMMD_VERSION " (%s)", gemmd_revision);
    return text;
}

int gemmd_bench_conv_layers(void)
{
    return (int)conv_layer_count;
}

static bool is_layer(int index)
{
    return index >= 0 && (unsigned)index < conv_layer_count;
}

/* shape: row (enum conv_row), batch, channels, side, filters, taps, groups, stride, padding. */
int gemmd_bench_conv_layer(int index, char *name, uint64_t shape[9])
{
    if (!is_layer(index))
        return -1;
    const struct conv_layer *l = &conv_layers[index];
    const uint64_t values[] = {l->row,  l->batch,  l->channels, l->side,   l->filters,
                               l->taps, l->groups, l->stride,   l->padding};
    snprintf(name, LAYER_NAME_MAX, "%s", l->name);
    memcpy(shape, values, sizeof values);
    return 0;
}

/* The name of the `number`th kernel worth measuring on a layer, the one that would be chosen first;
 * -1 if there are no more. */
int gemmd_bench_conv_kernel(int bf16, int index, int number, char *name)
{
    struct conv_own own[CONV_OWN_MAX];
    const struct operation_kernel *chosen = NULL;
    struct fault fault;
    const enum gemmd_dtype dtype = bf16 ? GEMMD_BF16 : GEMMD_F16;
    if (!is_layer(index))
        return -1;
    const struct conv_problem p = conv_layer_problem(&conv_layers[index], dtype, false);
    if (operation_select(&operation_conv2d, &HOPPER, "auto", &p, &chosen, &fault) != GEMMD_OK)
        return -1;
    if (number == 0) {
        snprintf(name, KERNEL_NAME_MAX, "%s", chosen->name);
        return 0;
    }
    const int count = conv_own_list(dtype, own);
    for (int k = 0; k < count; k++) {
        const bool is_chosen = own[k].kernel == chosen && own[k].tile == NULL;
        if (!is_chosen && conv_own_takes(&own[k], &p) && --number == 0) {
            snprintf(name, KERNEL_NAME_MAX, "%s", own[k].name);
            return 0;
        }
    }
    return -1;
}

/* Enqueues one layer; enum gemmd_error. */
int gemmd_bench_conv(void *handle, const char *kernel, int bf16, int index, const void *x,
                     const void *w, void *y)
{
    struct library *library = handle;
    struct conv_own own[CONV_OWN_MAX];
    const enum gemmd_dtype dtype = bf16 ? GEMMD_BF16 : GEMMD_F16;
    if (!is_layer(index))
        return GEMMD_ERR_INTERNAL;
    struct conv_problem p = conv_layer_problem(&conv_layers[index], dtype, false);
    p.x = x;
    p.w = w;
    p.y = y;
    const int count = conv_own_list(dtype, own);
    for (int i = 0; i < count; i++) {
        uint64_t bytes = 0;
        if (strcmp(own[i].name, kernel) == 0 && own[i].kernel->takes(&p) &&
            own[i].kernel->workspace_bytes(&p, &bytes) && bytes <= WORKSPACE_BYTES)
            return conv_own_run(&own[i], library->context, &p, library->workspace);
    }
    return GEMMD_ERR_UNSUPPORTED;
}
