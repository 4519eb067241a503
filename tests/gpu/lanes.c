#include "tests/gpu/lanes.h"

#include <stdio.h>

bool lanes_open(struct lane lanes[LANES])
{
    for (unsigned i = 0; i < LANES; i++) {
        struct lane *lane = &lanes[i];
        struct fault fault = {.detail = "no CUDA stream"};
        if (cudaStreamCreateWithFlags(&lane->stream, cudaStreamNonBlocking) != cudaSuccess ||
            gemm_context_create(GEMM_BACKEND_CUDA, lane->stream, 0, &lane->context, &fault) !=
                GEMMD_OK) {
            printf("%s\n", fault.detail);
            return false;
        }
    }
    return true;
}

void lanes_close(struct lane lanes[LANES])
{
    for (unsigned i = 0; i < LANES; i++) {
        gemm_context_destroy(lanes[i].context);
        if (lanes[i].stream != NULL)
            (void)cudaStreamDestroy(lanes[i].stream);
    }
}

struct gemm_device lanes_device(void)
{
    int major = 0, minor = 0;
    (void)cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
    (void)cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0);
    return (struct gemm_device){.backend = GEMM_BACKEND_CUDA,
                                .compute_capability = (uint32_t)(10 * major + minor)};
}
