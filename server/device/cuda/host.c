#include "server/device/cuda/host.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/device/device_open.h"
#include "server/device/device_ops.h"

enum gemmd_error cuda_open_failed(struct fault *fault, const char *call, cudaError_t error)
{
    (void)cudaGetLastError();
    return fault_set(fault, GEMMD_ERR_DEVICE_LOST, "devices", "%s: %s (%s)", call,
                     cudaGetErrorString(error), cudaGetErrorName(error));
}

/* Writes the version of the kernel driver ("580.82.07"), or, where the driver does not tell it, the
 * version of CUDA that the driver supports. */
static void read_driver_version(char *out, size_t capacity)
{
    int version = 0;
    FILE *file = fopen("/sys/module/nvidia/version", "re");
    bool known = file != NULL && fgets(out, (int)capacity, file) != NULL;
    if (file != NULL)
        fclose(file);
    if (known)
        out[strcspn(out, "\n")] = '\0';
    else if (cudaDriverGetVersion(&version) == cudaSuccess)
        snprintf(out, capacity, "CUDA %d.%d", version / 1000, version % 1000 / 10);
}

static void write_uuid(const struct cudaDeviceProp *properties, char uuid[DEVICE_UUID_SIZE])
{
    int used = snprintf(uuid, DEVICE_UUID_SIZE, "GPU");
    for (uint32_t i = 0; i < 16; i++) {
        const char *dash = i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
        used += snprintf(uuid + used, DEVICE_UUID_SIZE - (size_t)used, "%s%02x", dash,
                         (unsigned char)properties->uuid.bytes[i]);
    }
}

bool device_cuda_uuid(int32_t index, char uuid[DEVICE_UUID_SIZE])
{
    struct cudaDeviceProp properties;
    const cudaError_t error = cudaGetDeviceProperties(&properties, index);
    (void)cudaGetLastError();
    if (error == cudaSuccess)
        write_uuid(&properties, uuid);
    return error == cudaSuccess;
}

int32_t device_cuda_host_node(int32_t index)
{
    int node = -1;
    const cudaError_t error = cudaDeviceGetAttribute(&node, cudaDevAttrHostNumaId, index);
    (void)cudaGetLastError();
    return error == cudaSuccess ? node : -1;
}

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

/* Sets peak_flops and peak_memory_bytes of an info whose index and compute_capability are set. A
 * value that is not known stays 0. */
static void cuda_peak_read(struct device_info *info)
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

enum gemmd_error cuda_describe(struct device_info *info, int32_t index, struct fault *fault)
{
    struct cudaDeviceProp properties;
    cudaError_t error = cudaGetDeviceProperties(&properties, index);
    if (error != cudaSuccess)
        return cuda_open_failed(fault, "asking for the device's properties", error);
    *info = (struct device_info){.backend = GEMM_BACKEND_CUDA,
                                 .index = index,
                                 .memory_total_bytes = properties.totalGlobalMem};
    snprintf(info->name, sizeof info->name, "%.127s", properties.name);
    snprintf(info->arch, sizeof info->arch, "sm_%d%d", properties.major, properties.minor);
    info->compute_capability = (uint32_t)(properties.major * 10 + properties.minor);
    write_uuid(&properties, info->uuid);
    read_driver_version(info->driver, sizeof info->driver);
    cuda_peak_read(info);
    return GEMMD_OK;
}

/* Whether the host has no NVIDIA driver, or its devices are hidden on purpose. */
static bool is_meant_to_have_none(cudaError_t error)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (error != cudaErrorNoDevice && error != cudaErrorInsufficientDriver)
        return false;
    return access("/proc/driver/nvidia", F_OK) != 0 ||
           (visible != NULL && (visible[0] == '\0' || strcmp(visible, "-1") == 0));
}

const char *device_cuda_absence(void)
{
    return "there is no CUDA device; --backend cpu computes without one";
}

enum gemmd_error device_cuda_count(uint32_t *count, struct fault *fault)
{
    int devices = 0;
    *count = 0;
    cudaError_t error = cudaGetDeviceCount(&devices);
    (void)cudaGetLastError();
    if (error == cudaSuccess)
        *count = (uint32_t)devices;
    if (error == cudaSuccess || is_meant_to_have_none(error))
        return GEMMD_OK;
    return fault_set(fault, GEMMD_ERR_DEVICE_LOST, "backend",
                     "there is an NVIDIA driver, but CUDA does not start: %s (%s); "
                     "--backend cpu computes without a GPU",
                     cudaGetErrorString(error), cudaGetErrorName(error));
}

void *device_cuda_host_alloc(uint64_t bytes, struct fault *fault)
{
    void *memory = NULL;
    cudaError_t error = cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
    if (error == cudaSuccess)
        return memory;
    (void)cudaGetLastError();
    fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, "pinned-bytes",
              "%" PRIu64 " bytes of host memory could not be pinned: %s", bytes,
              cudaGetErrorString(error));
    return NULL;
}

void device_cuda_host_free(void *memory)
{
    (void)cudaFreeHost(memory);
}
