#include <cuda_runtime_api.h>
#include <stdint.h>

#include "tests/bench/load/device_memory.h"

static void base64(const unsigned char *bytes, size_t count, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < count; i += 3) {
        uint32_t word = (uint32_t)bytes[i] << 16;
        word |= i + 1 < count ? (uint32_t)bytes[i + 1] << 8 : 0;
        word |= i + 2 < count ? bytes[i + 2] : 0;
        for (unsigned d = 0; d < 4; d++)
            *out++ = d > count - i ? '=' : digits[word >> (18 - 6 * d) & 63];
    }
    *out = '\0';
}

void *device_memory_open(size_t bytes, const void *from, size_t count,
                         char handle[DEVICE_MEMORY_HANDLE_TEXT])
{
    void *memory = NULL;
    cudaIpcMemHandle_t ipc;
    _Static_assert(4 * ((sizeof ipc + 2) / 3) + 1 == DEVICE_MEMORY_HANDLE_TEXT, "as documented");
    if (cudaMalloc(&memory, bytes) != cudaSuccess)
        return NULL;
    if (cudaMemcpy(memory, from, count, cudaMemcpyHostToDevice) == cudaSuccess &&
        cudaDeviceSynchronize() == cudaSuccess &&
        cudaIpcGetMemHandle(&ipc, memory) == cudaSuccess) {
        base64((const unsigned char *)&ipc, sizeof ipc, handle);
        return memory;
    }
    cudaFree(memory);
    return NULL;
}

void device_memory_close(void *memory)
{
    cudaFree(memory);
}

bool device_memory_read(const void *memory, size_t offset, void *to, size_t count)
{
    return cudaMemcpy(to, (const char *)memory + offset, count, cudaMemcpyDeviceToHost) ==
           cudaSuccess;
}

double device_memory_copies_ms(size_t in, size_t out)
{
    enum { TIMES = 10 };
    float ms = 0;
    char *host = NULL, *device = NULL;
    cudaStream_t inward = NULL, outward = NULL;
    cudaEvent_t began = NULL, ended = NULL, arrived = NULL;
    bool ok = cudaMallocHost((void **)&host, in + out) == cudaSuccess &&
              cudaMalloc((void **)&device, in + out) == cudaSuccess &&
              cudaStreamCreateWithFlags(&inward, cudaStreamNonBlocking) == cudaSuccess &&
              cudaStreamCreateWithFlags(&outward, cudaStreamNonBlocking) == cudaSuccess &&
              cudaEventCreate(&began) == cudaSuccess && cudaEventCreate(&ended) == cudaSuccess &&
              cudaEventCreateWithFlags(&arrived, cudaEventDisableTiming) == cudaSuccess;
    for (int i = -1; ok && i < TIMES; i++) { /* the first is not timed; its result is on its way */
        if (i == 0)
            ok = cudaEventRecord(began, inward) == cudaSuccess;
        ok = ok &&
             cudaMemcpyAsync(device, host, in, cudaMemcpyHostToDevice, inward) == cudaSuccess &&
             cudaEventRecord(arrived, inward) == cudaSuccess &&
             cudaStreamWaitEvent(outward, arrived, 0) == cudaSuccess &&
             cudaMemcpyAsync(host + in, device + in, out, cudaMemcpyDeviceToHost, outward) ==
                 cudaSuccess;
    }
    ok = ok && cudaEventRecord(ended, inward) == cudaSuccess &&
         cudaEventSynchronize(ended) == cudaSuccess &&
         cudaEventElapsedTime(&ms, began, ended) == cudaSuccess &&
         cudaStreamSynchronize(outward) == cudaSuccess;
    cudaEventDestroy(arrived);
    cudaEventDestroy(began);
    cudaEventDestroy(ended);
    cudaStreamDestroy(outward);
    cudaStreamDestroy(inward);
    cudaFree(device);
    cudaFreeHost(host);
    return ok ? (double)ms / TIMES : 0;
}
