/* Prepares a device for the GEMM kernels of sm_90a. */
#include "kernels/cuda/sm90/gemm/few_rows.h"
#include "kernels/cuda/sm90/sm90.h"

/* An H100 SXM's device memory and L2, as its attributes have them. */
static const double H100_MEMORY_KHZ = 2619e3, H100_MEMORY_BITS = 5120;
static const double H100_L2_BYTES = 50 << 20;

static cudaError_t card_of(int ordinal, struct sm90_card *card)
{
    int multiprocessors, l2_bytes, memory_khz = 0, memory_bits = 0;
    cudaError_t error =
        cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, ordinal);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, ordinal);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&memory_khz, cudaDevAttrMemoryClockRate, ordinal);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&memory_bits, cudaDevAttrGlobalMemoryBusWidth, ordinal);
    if (error != cudaSuccess)
        return error;
    *card = sm90_h100_sxm;
    card->multiprocessors = (uint32_t)multiprocessors;
    /* A part of a card (a MIG instance) may name no clock or no L2. */
    if (memory_khz > 0 && memory_bits > 0)
        card->memory_rate = memory_khz / H100_MEMORY_KHZ * (memory_bits / H100_MEMORY_BITS);
    if (l2_bytes > 0)
        card->l2_size = l2_bytes / H100_L2_BYTES;
    return cudaSuccess;
}

cudaError_t sm90_device_open(struct sm90_device *device)
{
    int ordinal, major, minor;
    cudaError_t error = cudaGetDevice(&ordinal);
    if (error == cudaSuccess) {
        error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal);
    }
    if (error == cudaSuccess) {
        error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, ordinal);
    }
    if (error != cudaSuccess) {
        return error;
    }
    if (major != 9 || minor != 0) {
        return cudaErrorInvalidDevice;
    }
    error = card_of(ordinal, &device->card);
    if (error != cudaSuccess) {
        return error;
    }
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
