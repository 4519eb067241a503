/*
 * conv.h - the layers of convolutional networks, and our kernels for them, for `gemmd-bench conv`
 * and for conv_cudnn.py.
 */
#ifndef TESTS_BENCH_CONV_H
#define TESTS_BENCH_CONV_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/cuda/context.h"
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/sm90/conv/sm90_conv.h"
#include "kernels/operations.h"
#include "tests/bench/conv_options.h"

/* A layer. Its channels are last in memory, in W too. */
struct conv_layer {
    const char *name;
    /* Convolutions of the goal's mean; 1 x 1 ones and depthwise ones have rows of their own. */
    enum conv_row { CONV_ROW_FULL, CONV_ROW_POINTWISE, CONV_ROW_DEPTHWISE } row;
    uint64_t batch, channels, side, filters, taps, groups, stride, padding;
};
extern const struct conv_layer conv_layers[];
extern const unsigned conv_layer_count;

/* The layer as a problem without pointers. */
struct conv_problem conv_layer_problem(const struct conv_layer *layer, enum gemmd_dtype dtype,
                                       bool nchw);

/* Our kernels, and each tile configuration of `implicit` as one of them. */
struct conv_own {
    const char *name;
    const struct operation_kernel *kernel;
    const struct sm90_kernel *tile; /* or NULL */
};
enum { CONV_OWN_MAX = 24 };
int conv_own_list(enum gemmd_dtype dtype, struct conv_own own[CONV_OWN_MAX]);
/* Whether the kernel takes the problem, and is not known to be too slow to wait for. */
bool conv_own_takes(const struct conv_own *own, const struct conv_problem *problem);
enum gemmd_error conv_own_run(const struct conv_own *own, struct gemm_context *context,
                              const struct conv_problem *problem, void *workspace);

#endif
