#include "tests/gpu/streams.h"

#include <stdio.h>

bool streams_open(struct test_stream streams[TEST_STREAMS])
{
    for (unsigned i = 0; i < TEST_STREAMS; i++) {
        struct test_stream *stream = &streams[i];
        struct fault fault = {.detail = "no CUDA stream"};
        if (cudaStreamCreateWithFlags(&stream->stream, cudaStreamNonBlocking) != cudaSuccess ||
            gemm_context_create(GEMM_BACKEND_CUDA, stream->stream, 0, &stream->context, &fault) !=
                GEMMD_OK) {
            printf("%s\n", fault.detail);
            return false;
        }
    }
    return true;
}

void streams_close(struct test_stream streams[TEST_STREAMS])
{
    for (unsigned i = 0; i < TEST_STREAMS; i++) {
        gemm_context_destroy(streams[i].context);
        if (streams[i].stream != NULL)
            (void)cudaStreamDestroy(streams[i].stream);
    }
}

struct gemm_device streams_device(void)
{
    int major = 0, minor = 0;
    (void)cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
    (void)cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0);
    return (struct gemm_device){.backend = GEMM_BACKEND_CUDA,
                                .compute_capability = (uint32_t)(10 * major + minor)};
}
