/*
 * conv_options.h - `gemmd-bench conv`: the layers of convolutional networks with every kernel.
 */
#ifndef TESTS_BENCH_CONV_OPTIONS_H
#define TESTS_BENCH_CONV_OPTIONS_H

#include <stdbool.h>

struct conv_options {
    double seconds;
    const char *dtypes;  /* "bf16,f16" */
    const char *kernels; /* only those with this in their name, or NULL */
    const char *layers;  /* likewise */
    const char *out;
    bool nchw;
};
int bench_conv(const struct conv_options *options);

#endif
