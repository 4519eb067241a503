/*
 * An NVIDIA GPU as a device: opening and closing it, the memory that a work needs, early copies,
 * and warming up. run.c is how a work runs.
 */
#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <stdlib.h>

#include "kernels/cuda_error.h"
#include "server/device/cuda/cuda_device.h"
#include "server/device/cuda/host.h"
#include "server/device/cuda/own_launch.h"
#include "server/device/device_stack.h"

/* --- the memory that a work needs --- */

static void cuda_enter(struct device *device)
{
    /* If this fails, the first work fails too. */
    (void)cudaSetDevice(device->info.index);
}

static bool cuda_layout(const struct device *device, const struct task *task,
                        struct device_layout *layout)
{
    const struct gemm_device gpu = device_gemm(device);
    return device_layout_make(task, &gpu, device->tensors, layout);
}

static bool cuda_task_bytes(const struct device *device, const struct task *task, uint64_t *out)
{
    struct device_layout layout;
    if (!cuda_layout(device, task, &layout))
        return false;
    *out = layout.total_bytes;
    return true;
}

static void cuda_tile(const struct device *device, const struct task *task,
                      struct operation_tile *out)
{
    const struct cuda_device *cuda = (const struct cuda_device *)device;
    struct device_layout layout; /* whose problem has the leading dimensions of the launch */
    if (cuda_layout(device, task, &layout))
        task->kernel->tile(cuda->slots[0].context, &layout.problem, out);
}

/* --- early copies --- */

static bool cuda_plan_copies(const struct device *device, const struct work *work,
                             struct device_span body, struct copy_in *copies)
{
    const struct cuda_device *cuda = (const struct cuda_device *)device;
    unsigned char *range = cuda->memory + work->device_offset;
    struct device_layout layout;
    if (work->task.kernel == NULL || !cuda_layout(device, &work->task, &layout) ||
        layout.total_bytes > work->device_bytes)
        return false;
    copy_in_plan(copies, &work->task, &layout, range, body);
    return copies->count > 0;
}

static enum gemmd_error cuda_copy_in(struct device *device, uint32_t copy_stream,
                                     const struct copy_in_piece *piece)
{
    struct cuda_device *cuda = (struct cuda_device *)device;
    enum gemmd_error code = cuda_copy_piece(cuda->early.stream, piece);
    if (code == GEMMD_OK)
        code = cuda_error_code(
            (int)cudaEventRecord(cuda->early.ended[copy_stream], cuda->early.stream));
    if (code != GEMMD_OK)
        cuda_wait_for(cuda, cuda->early.stream);
    return code;
}

static bool cuda_copied_in(struct device *device, uint32_t copy_stream)
{
    struct cuda_device *cuda = (struct cuda_device *)device;
    const cudaError_t error = cudaEventQuery(cuda->early.ended[copy_stream]);
    (void)cudaGetLastError(); /* otherwise the next launch would seem to have failed */
    if (error != cudaSuccess && error != cudaErrorNotReady)
        device_set_lost(device, "copying a body: %s (%s)", cudaGetErrorString(error),
                        cudaGetErrorName(error));
    return error != cudaErrorNotReady;
}

/* --- warming up --- */

/* Runs a stack of one row, to load the code that moves the rows of stacks. The kernels that compute
 * the product of a stack have been loaded by now. */
static enum gemmd_error warm_stack(struct cuda_device *cuda, struct fault *fault)
{
    enum { SIDE = 64, ROW_BYTES = SIDE * 4 };
    const struct gemm_device device = device_gemm(&cuda->base);
    const struct cuda_slot *slot = &cuda->slots[cuda->base.slots - 1];
    struct work work = {.task = {.operation = &operation_gemm,
                                 .problem.gemm = {.dtype = GEMMD_F32,
                                                  .out = GEMMD_F32,
                                                  .m = 1,
                                                  .n = SIDE,
                                                  .k = SIDE,
                                                  .batch = 1,
                                                  .alpha = 1,
                                                  .a = cuda->memory,
                                                  .b = cuda->memory,
                                                  .c = cuda->memory + SIDE * ROW_BYTES}}};
    struct task *task = &work.task;
    gemm_problem_contiguous(&task->problem.gemm);
    if (operation_select(task->operation, &device, "naive", &task->problem, &task->kernel, NULL) !=
            GEMMD_OK ||
        arena_capacity_bytes(cuda->base.arena) < (SIDE + 1) * ROW_BYTES)
        return GEMMD_OK;
    work.join_rows = task->operation->stack->rows_max(task->kernel, &task->problem, cuda->memory,
                                                      SIDE * ROW_BYTES, cuda->base.stack_bytes);
    if (work.join_rows == 0)
        return GEMMD_OK;
    const enum gemmd_error code =
        device_stack_run(slot->context, &work, slot->residuals, slot->stack);
    if (code == GEMMD_OK && cudaStreamSynchronize(slot->stream) == cudaSuccess)
        return GEMMD_OK;
    return fault_set(fault, code != GEMMD_OK ? code : GEMMD_ERR_DEVICE_LOST, NULL,
                     "rows cannot be stacked: %s", cudaGetErrorString(cudaGetLastError()));
}

/* Checks a small product, whose numbers do not matter, to load the code of the check. */
static enum gemmd_error warm_small_check(struct cuda_device *cuda, struct fault *fault)
{
    const struct cuda_slot *slot = &cuda->slots[cuda->base.slots - 1];
    struct gemm_problem *problem = &slot->checks->problem.gemm;
    *slot->checks = (struct operation_small_check){.seed = 0};
    *problem = (struct gemm_problem){.dtype = GEMMD_F32,
                                     .out = GEMMD_F32,
                                     .m = 1,
                                     .n = 1,
                                     .k = 1,
                                     .batch = 1,
                                     .alpha = 1,
                                     .a = slot->residuals,
                                     .b = slot->residuals,
                                     .c = slot->residuals};
    gemm_problem_contiguous(problem);
    const enum gemmd_error code = operation_gemm.check_small(slot->context, slot->checks, 1);
    if (code == GEMMD_OK && cudaStreamSynchronize(slot->stream) == cudaSuccess)
        return GEMMD_OK;
    return fault_set(fault, code != GEMMD_OK ? code : GEMMD_ERR_DEVICE_LOST, NULL,
                     "small products cannot be verified: %s",
                     cudaGetErrorString(cudaGetLastError()));
}

static enum gemmd_error warm_tasks(struct cuda_device *cuda, struct fault *fault)
{
    const struct gemm_device device = device_gemm(&cuda->base);
    const struct cuda_failure failure = cuda_task_group_warm(
        &cuda->slots[0], &device, cuda->memory, arena_capacity_bytes(cuda->base.arena));
    if (failure.call == NULL)
        return GEMMD_OK;
    return fault_set(fault, failure.code, NULL, "the kernel %s does not start: %s", failure.call,
                     cudaGetErrorString(failure.error));
}

/* CUDA loads a kernel's code when the kernel is first launched, and libraries have many kernels.
 * The first request of a shape should not wait for that. Code that one stream has loaded is loaded
 * for all. */
static enum gemmd_error cuda_warm(struct device *device, struct fault *fault)
{
    struct cuda_device *cuda = (struct cuda_device *)device;
    enum gemmd_error code = warm_tasks(cuda, fault);
    if (code == GEMMD_OK)
        code = warm_stack(cuda, fault);
    if (code == GEMMD_OK)
        code = warm_small_check(cuda, fault);
    cudaError_t error = cudaStreamSynchronize(cuda->slots[0].stream);
    if (code == GEMMD_OK && error != cudaSuccess)
        code = cuda_open_failed(fault, "running every kernel once", error);
    return code;
}

/* --- opening and closing --- */

static void cuda_close(struct device *device)
{
    struct cuda_device *cuda = (struct cuda_device *)device;
    cuda_enter(device);
    for (uint32_t i = 0; i <= cuda->base.slots; i++)
        cuda_slot_close(&cuda->slots[i]);
    cuda_early_close(&cuda->early);
    arena_destroy(cuda->base.arena);
    if (cuda->memory != NULL)
        (void)cudaFree(cuda->memory);
    if (cuda->tensors != NULL)
        (void)cudaFree(cuda->tensors);
    (void)cudaGetLastError();
    free(cuda);
}

/* --- how fast a GPU copies from the memory of another one --- */

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

/* Times copies of up to 64 MiB from the memory of `other`, and lowers base.info.link_bytes to the
 * speed of the fastest of them, or sets it if it is not known. Takes a millisecond or less over
 * NVLink, and a few through the host. Without a time, because a call failed or one of the devices
 * has too little memory, the figure stays as it is. The current device is `device`, and no work is
 * in flight on either. */
static void measure_link(struct cuda_device *device, const struct cuda_device *other)
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

static bool cuda_connect(struct device *device, const struct device *other)
{
    int possible = 0;
    cuda_enter(device);
    cudaError_t error = cudaDeviceCanAccessPeer(&possible, device->info.index, other->info.index);
    if (error == cudaSuccess && possible)
        error = cudaDeviceEnablePeerAccess(other->info.index, 0);
    (void)cudaGetLastError();
    measure_link((struct cuda_device *)device, (const struct cuda_device *)other);
    return possible && (error == cudaSuccess || error == cudaErrorPeerAccessAlreadyEnabled);
}

static const struct device_ops cuda_ops = {
    .enter = cuda_enter,
    .connect = cuda_connect,
    .submit = cuda_submit,
    .poll = cuda_poll,
    .close = cuda_close,
    .task_bytes = cuda_task_bytes,
    .tile = cuda_tile,
    .groups = true,
    .shares_launches = true,
    .plan_copies = cuda_plan_copies,
    .copy_in = cuda_copy_in,
    .copied_in = cuda_copied_in,
    .warm = cuda_warm,
};

/* Opens the slots, with the priorities that run.h gives the reasons for, and the early copies. The
 * events of slots for shared launches record no times. */
static enum gemmd_error open_slots(struct cuda_device *cuda, struct fault *fault)
{
    int lowest, highest;
    cudaError_t error = cudaDeviceGetStreamPriorityRange(&lowest, &highest);
    if (error != cudaSuccess)
        return cuda_open_failed(fault, "reading stream priorities", error);
    /* A smaller number is a higher priority. */
    const int middle = highest < lowest ? highest + 1 : highest;
    const uint32_t probe = cuda->base.slots, first_shared = probe - cuda->base.shared_slots;
    enum gemmd_error code = GEMMD_OK;
    for (uint32_t i = 0; i < first_shared && code == GEMMD_OK; i++)
        code = cuda_slot_open(&cuda->slots[i], lowest, true, false, fault);
    for (uint32_t i = first_shared; i < probe && code == GEMMD_OK; i++)
        code = cuda_slot_open(&cuda->slots[i], middle, false, true, fault);
    if (code == GEMMD_OK)
        code = cuda_slot_open(&cuda->slots[probe], highest, true, false, fault);
    if (code != GEMMD_OK)
        return code;
    error = cuda_early_open(&cuda->early, lowest);
    return error == cudaSuccess ? GEMMD_OK : cuda_open_failed(fault, "creating a stream", error);
}

static enum gemmd_error alloc_memory(uint64_t bytes, const char *option, void **memory,
                                     struct fault *fault)
{
    size_t free_bytes = 0, total_bytes;
    cudaError_t error = cudaMalloc(memory, bytes);
    if (error == cudaSuccess)
        return GEMMD_OK;
    (void)cudaGetLastError();
    if (error != cudaErrorMemoryAllocation)
        return cuda_open_failed(fault, "allocating device memory", error);
    (void)cudaMemGetInfo(&free_bytes, &total_bytes);
    return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, option,
                     "%" PRIu64 " bytes of device memory were asked for; %zu are free", bytes,
                     free_bytes);
}

static enum gemmd_error open_tensor_memory(struct cuda_device *cuda, uint64_t bytes,
                                           struct fault *fault)
{
    if (bytes == 0)
        return GEMMD_OK;
    enum gemmd_error code = alloc_memory(bytes, "tensor-bytes", &cuda->tensors, fault);
    if (code == GEMMD_OK)
        cuda->base.tensors = (struct device_span){cuda->tensors, bytes};
    return code;
}

/* Called last, so that the default, half of the free memory, is half of what everything else has
 * left. The memory holds the arena, then the workspaces of stacks. */
static enum gemmd_error open_memory(struct cuda_device *cuda, uint64_t wanted_bytes,
                                    struct fault *fault)
{
    size_t free_bytes, total_bytes;
    cudaError_t error = cudaMemGetInfo(&free_bytes, &total_bytes);
    if (error != cudaSuccess)
        return cuda_open_failed(fault, "asking for free device memory", error);
    uint64_t bytes = wanted_bytes != 0 ? wanted_bytes : free_bytes / 2;
    void *memory = NULL;
    enum gemmd_error code = alloc_memory(bytes, "device-bytes", &memory, fault);
    if (code != GEMMD_OK)
        return code;
    struct device *base = &cuda->base;
    cuda->memory = memory;
    base->stack_bytes = device_stack_bytes(bytes, base->tensors.bytes);
    bytes = (bytes - base->shared_slots * base->stack_bytes) / DEVICE_LAYOUT_ALIGNMENT *
            DEVICE_LAYOUT_ALIGNMENT;
    for (uint32_t i = 0; i < base->shared_slots && base->stack_bytes > 0; i++)
        cuda->slots[base->slots - base->shared_slots + i].stack =
            cuda->memory + bytes + i * base->stack_bytes;
    base->arena = arena_create(bytes);
    if (base->arena == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                         "no memory for the records of %" PRIu64 " bytes", bytes);
    return GEMMD_OK;
}

enum gemmd_error device_cuda_open(const struct device_options *options, struct device **device,
                                  struct fault *fault)
{
    uint32_t count;
    enum gemmd_error code = device_cuda_count(&count, fault);
    if (code != GEMMD_OK)
        return code;
    if (options->index < 0 || (uint32_t)options->index >= count)
        return fault_set(fault, GEMMD_ERR_DEVICE_LOST, "devices",
                         "device %" PRId32 " was asked for; this host has %" PRIu32, options->index,
                         count);
    struct cuda_device *cuda = calloc(1, sizeof *cuda);
    if (cuda == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the device");
    device_init(&cuda->base, &cuda_ops, options->streams);

    cudaError_t error = cudaSetDevice(options->index);
    if (error == cudaSuccess)
        error = cudaFree(NULL); /* creates the context */
    if (error != cudaSuccess)
        code = cuda_open_failed(fault, "opening the device", error);
    if (code == GEMMD_OK)
        code = cuda_describe(&cuda->base.info, options->index, fault);
    if (code == GEMMD_OK)
        code = open_slots(cuda, fault);
    if (code == GEMMD_OK)
        code = open_tensor_memory(cuda, options->tensor_bytes, fault);
    if (code == GEMMD_OK)
        code = open_memory(cuda, options->memory_bytes, fault);
    if (code != GEMMD_OK) {
        cuda_close(&cuda->base);
        return code;
    }
    *device = &cuda->base;
    return GEMMD_OK;
}
