/* Prepares a device for the GEMM kernels of sm_90a. */
#include "kernels/cuda/sm90/gemm/few_rows.h"
#include "kernels/cuda/sm90/sm90.h"

cudaError_t sm90_device_open(struct sm90_device *device)
{
    int ordinal, major, minor, multiprocessors;
    cudaError_t error = cudaGetDevice(&ordinal);
    if (error == cudaSuccess) {
        error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal);
    }
    if (error == cudaSuccess) {
        error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, ordinal);
    }
    if (error == cudaSuccess) {
        error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, ordinal);
    }
    if (error != cudaSuccess) {
        return error;
    }
    if (major != 9 || minor != 0) {
        return cudaErrorInvalidDevice;
    }
    device->multiprocessors = (uint32_t)multiprocessors;
    enum cudaDriverEntryPointQueryResult found;
    error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &device->encode, 12000,
                                             cudaEnableDefault, &found);
    if (error == cudaSuccess && found != cudaDriverEntryPointSuccess) {
        return cudaErrorNotSupported;
    }
    const struct sm90_kernel *const tables[] = {sm90_kernels_bf16,      sm90_kernels_f16,
                                                sm90_kernels_i8,        sm90_kernels_tf32,
                                                sm90_kernels_f32,       sm90_kernels_f8,
                                                sm90_kernels_f8_rowcol, sm90_kernels_f8_block,
                                                sm90_kernels_f16_block, sm90_kernels_i8_rowcol};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        for (const struct sm90_kernel *kernel = tables[t]; kernel->name; kernel++) {
            for (int i = 0; i < 8 && error == cudaSuccess; i++) {
                const void *function = kernel->functions[i / 4][i / 2 % 2][i % 2];
                if (function) {
                    error =
                        cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                             (int)kernel->shared_bytes);
                }
            }
        }
    }
    return error == cudaSuccess ? few_rows_open() : error;
}
