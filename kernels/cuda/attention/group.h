/*
 * group.h - the limits of a group of attentions on CUDA.
 */
#ifndef KERNELS_CUDA_ATTENTION_GROUP_H
#define KERNELS_CUDA_ATTENTION_GROUP_H

#include <cuda_runtime_api.h>

#include "kernels/attention_grouped.h"

/* Of a launch: 4 KiB in all before CUDA 12.1. */
#if CUDART_VERSION >= 12010
enum { ATTENTION_GROUP_PARAMETER_BYTES = 32764 };
#else
enum { ATTENTION_GROUP_PARAMETER_BYTES = 4096 };
#endif

/* What a group may be together, in units of attention_group_units: about half a millisecond of an
 * H100, at the rate of tensor cores, of reading keys once, and of plain f32. */
enum {
    ATTENTION_GROUP_UNITS_TENSOR = 150000,
    ATTENTION_GROUP_UNITS_DECODE = 3000,
    ATTENTION_GROUP_UNITS_PLAIN = 15000,
};

#endif
