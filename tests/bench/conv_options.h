/*
 * conv_options.h - `gemmd-bench conv`: the layers of convolutional networks with every kernel.
 */
#ifndef TESTS_BENCH_CONV_OPTIONS_H
#define TESTS_BENCH_CONV_OPTIONS_H

#include <stdbool.h>

struct conv_options {
    double seconds;
    const char *dtypes;  /* of bf16, f16, i8, f32 (computed in tf32), with commas */
    const char *list;    /* a file of layers, instead of those of networks; or NULL */
    const char *kernels; /* only those with this in their name, or NULL */
    const char *layers;  /* likewise */
    const char *out;
    bool nchw;
};
int bench_conv(const struct conv_options *options);

#endif
