#include "server/device/cuda/link.h"

#include <cuda_runtime_api.h>

/* The length of a timed copy, and the shortest that tells a speed. */
static const uint64_t COPY_BYTES = 64 << 20, COPY_BYTES_MIN = 1 << 20;
enum { COPIES = 4 }; /* the first may set up the way */

/* Bytes a second of one copy; 0: not known. */
static double time_copy(cudaStream_t stream, cudaEvent_t begun, cudaEvent_t ended, void *to,
                        const void *from, uint64_t bytes)
{
    float ms = 0;
    if (cudaEventRecord(begun, stream) != cudaSuccess ||
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream) != cudaSuccess ||
        cudaEventRecord(ended, stream) != cudaSuccess ||
        cudaEventSynchronize(ended) != cudaSuccess ||
        cudaEventElapsedTime(&ms, begun, ended) != cudaSuccess || !(ms > 0))
        return 0;
    return (double)bytes / (1e-3 * (double)ms);
}

void cuda_link_measure(struct cuda_device *device, const struct cuda_device *other)
{
    const uint64_t to_bytes = arena_capacity_bytes(device->base.arena);
    const uint64_t from_bytes = arena_capacity_bytes(other->base.arena);
    const uint64_t room = to_bytes < from_bytes ? to_bytes : from_bytes;
    const uint64_t bytes = room < COPY_BYTES ? room : COPY_BYTES;
    cudaEvent_t begun = NULL, ended = NULL;
    double fastest = 0;
    if (bytes >= COPY_BYTES_MIN &&
        cudaEventCreateWithFlags(&begun, cudaEventDefault) == cudaSuccess &&
        cudaEventCreateWithFlags(&ended, cudaEventDefault) == cudaSuccess)
        for (int i = 0; i < COPIES; i++) {
            const double speed = time_copy(device->slots[0].stream, begun, ended, device->memory,
                                           other->memory, bytes);
            fastest = speed > fastest ? speed : fastest;
        }
    if (ended != NULL)
        (void)cudaEventDestroy(ended);
    if (begun != NULL)
        (void)cudaEventDestroy(begun);
    (void)cudaGetLastError(); /* otherwise the next launch would seem to have failed */
    double *known = &device->base.info.link_bytes;
    if (fastest > 0 && (*known == 0 || fastest < *known))
        *known = fastest;
}
