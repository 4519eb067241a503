/*
 * group.h - the limits of a group of attentions on CUDA.
 */
#ifndef KERNELS_CUDA_ATTENTION_GROUP_H
#define KERNELS_CUDA_ATTENTION_GROUP_H

#include <cuda_runtime_api.h>

#include "kernels/attention_grouped.h"

/* The most parameters that a launch can have. Before CUDA 12.1 the limit was 4 KiB. */
#if CUDART_VERSION >= 12010
enum { ATTENTION_GROUP_PARAMETER_BYTES = 32764 };
#else
enum { ATTENTION_GROUP_PARAMETER_BYTES = 4096 };
#endif

/* The most work of a group, in units of attention_group_units: about half a millisecond of an H100,
 * for kernels bound by tensor cores, by reading keys, and by f32 arithmetic. */
enum {
    ATTENTION_GROUP_UNITS_TENSOR = 150000,
    ATTENTION_GROUP_UNITS_DECODE = 3000,
    ATTENTION_GROUP_UNITS_PLAIN = 15000,
};

#endif
