/*
 * lanes.h - two streams with a context each, on device 0: whatever runs in one must give the same
 * bytes in the other.
 */
#ifndef TESTS_GPU_LANES_H
#define TESTS_GPU_LANES_H

#include <cuda_runtime_api.h>
#include <stdbool.h>

#include "kernels/gemm.h"

enum { LANES = 2 };

struct lane {
    cudaStream_t stream;
    struct gemm_context *context;
};

/* Prints why not, if not. What was opened is closed by lanes_close, also after a failure. */
bool lanes_open(struct lane lanes[LANES]);
void lanes_close(struct lane lanes[LANES]);

/* What kernels are chosen for. */
struct gemm_device lanes_device(void);

#endif
