/*
 * streams.h - two CUDA streams on device 0, each with a context. The checks run a kernel on both
 * streams, and the results must be the same bytes.
 */
#ifndef TESTS_GPU_STREAMS_H
#define TESTS_GPU_STREAMS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>

#include "kernels/gemm.h"

enum { TEST_STREAMS = 2 };

struct test_stream {
    cudaStream_t stream;
    struct gemm_context *context;
};

/* Creates the streams and their contexts. On failure prints the reason and returns false. The
 * caller calls streams_close in any case. */
bool streams_open(struct test_stream streams[TEST_STREAMS]);
void streams_close(struct test_stream streams[TEST_STREAMS]);

/* Returns device 0 as operation_select takes it: the backend and the compute capability. */
struct gemm_device streams_device(void);

#endif
