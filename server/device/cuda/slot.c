#include "server/device/cuda/slot.h"

#include "server/device/cuda/host.h"
#include "server/device/device_stack.h"

enum gemmd_error cuda_slot_open(struct cuda_slot *slot, int priority, bool timed, bool shared,
                                struct fault *fault)
{
    cudaEvent_t *events[] = {&slot->begun, &slot->copied_in, &slot->computed, &slot->ended};
    cudaError_t error =
        cudaStreamCreateWithPriority(&slot->stream, cudaStreamNonBlocking, priority);
    for (uint32_t i = 0; i < 4 && error == cudaSuccess; i++)
        error =
            cudaEventCreateWithFlags(events[i], timed ? cudaEventDefault : cudaEventDisableTiming);
    for (uint32_t i = 0; i < 2 && error == cudaSuccess; i++)
        error = cudaEventCreateWithFlags(&slot->launch_ended[i], cudaEventDisableTiming);
    if (error != cudaSuccess)
        return cuda_open_failed(fault, "creating a stream", error);
    error =
        cudaMallocHost((void **)&slot->residuals, OPERATION_STACK_ROWS * sizeof *slot->residuals);
    if (error == cudaSuccess && shared)
        error =
            cudaMallocHost((void **)&slot->checks, DEVICE_LAUNCH_WORKS_MAX * sizeof *slot->checks);
    if (error != cudaSuccess)
        return cuda_open_failed(fault, "allocating pinned memory", error);
    return gemm_context_create(GEMM_BACKEND_CUDA, slot->stream, 0, &slot->context, fault);
}

void cuda_slot_close(struct cuda_slot *slot)
{
    if (slot->context != NULL)
        gemm_context_destroy(slot->context);
    cudaEvent_t events[] = {slot->begun, slot->copied_in,       slot->computed,
                            slot->ended, slot->launch_ended[0], slot->launch_ended[1]};
    for (uint32_t i = 0; i < 6; i++)
        if (events[i] != NULL)
            (void)cudaEventDestroy(events[i]);
    if (slot->stream != NULL)
        (void)cudaStreamDestroy(slot->stream);
    (void)cudaFreeHost(slot->residuals); /* NULL is allowed */
    if (slot->checks != NULL)
        (void)cudaFreeHost(slot->checks);
}
