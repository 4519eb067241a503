#include "server/device/cuda/peak.h"

#include <cuda_runtime_api.h>

/* Fused multiply-adds that a multiprocessor does in a clock with its fastest units on dense
 * operands: NVIDIA's white papers on the A100 (GA100) and the H100 (GH100). f32 is computed by CUDA
 * cores, all other types by tensor cores. An architecture that is not listed has no known peak. */
static const struct {
    uint32_t compute_capability, fma[GEMMD_DTYPE_COUNT];
} rates[] = {
    {80,
     {[GEMMD_F64] = 64,
      [GEMMD_F32] = 64,
      [GEMMD_F16] = 1024,
      [GEMMD_BF16] = 1024,
      [GEMMD_I8] = 2048}},
    {90,
     {[GEMMD_F64] = 128,
      [GEMMD_F32] = 128,
      [GEMMD_F16] = 2048,
      [GEMMD_BF16] = 2048,
      [GEMMD_F8_E4M3] = 4096,
      [GEMMD_I8] = 4096}},
};

/* An attribute of a device; 0: not known. */
static double attribute(enum cudaDeviceAttr which, int32_t index)
{
    int value = 0;
    if (cudaDeviceGetAttribute(&value, which, index) == cudaSuccess && value > 0)
        return value;
    (void)cudaGetLastError();
    return 0;
}

void cuda_peak_read(struct device_info *info)
{
    const double clock_hz = attribute(cudaDevAttrClockRate, info->index) * 1e3;
    const double processors = attribute(cudaDevAttrMultiProcessorCount, info->index);
    const double memory_hz = attribute(cudaDevAttrMemoryClockRate, info->index) * 1e3;
    const double bus_bytes = attribute(cudaDevAttrGlobalMemoryBusWidth, info->index) / 8;
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++)
        for (int dtype = 0; dtype < GEMMD_DTYPE_COUNT; dtype++)
            if (rates[i].compute_capability == info->compute_capability)
                info->peak_flops[dtype] = 2.0 * rates[i].fma[dtype] * processors * clock_hz;
    /* Memory moves data on both edges of its clock. */
    info->peak_memory_bytes = 2 * memory_hz * bus_bytes;
}
