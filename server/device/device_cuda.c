/*
 * An NVIDIA GPU as a device: a stream, four events and a kernel context for each slot.
 *
 * A work is copied in, computed and copied back in its slot's stream, but for what was copied while
 * its body arrived, which has a stream of its own (device_cuda_copy.h). Slots run side by side, so
 * that copies in, kernels and copies out of different works overlap. Attentions of one kind go
 * through such a slot together (device_cuda_attention.h). Small
 * works share one launch in a slot for such, without copies: operands are read and results written
 * in pinned host memory. Their stream goes before the others', since they take little of the
 * device and what they mostly do is wait for the bus. Stacks of rows run there too, in a workspace
 * that each such slot has behind the arena. The
 * probe's slot has the highest priority, and its kernel uses host memory where it lies: queues of
 * large copies are no sign of ill health.
 *
 * Errors come in two kinds. After most, the next call works: only the work at hand fails. After
 * a sticky one (an illegal address, an uncorrectable memory error) every call fails for the
 * rest of the process: the device is lost.
 */
#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/cuda_error.h"
#include "proto/dtype.h"
#include "server/clock.h"
#include "server/device/device_cuda_attention.h"
#include "server/device/device_cuda_copy.h"
#include "server/device/device_layout.h"
#include "server/device/device_ops.h"
#include "server/device/device_stack.h"

struct slot {
    cudaStream_t stream;
    cudaEvent_t begun, copied_in, computed, ended;
    uint64_t launched_ns; /* of a shared launch */
    struct gemm_context *context;
    void *stack; /* the workspace of stacks; NULL: runs none */
    bool failed; /* the work at hand failed in submit; nothing of it is left in the stream */
};

struct cuda_device {
    struct device base;
    unsigned char *memory; /* the arena's span, in device memory */
    void *tensors;         /* tensor memory */
    struct slot slots[DEVICE_SLOTS_MAX];
    struct cuda_early early;
    const struct gemm_problem *group[DEVICE_GROUP_MAX]; /* used during a submit, like the next */
    struct cuda_attention_group attentions;
};

/* --- errors --- */

/* Whether the context is gone. Asks about a stream: any call would do, this one does not wait. */
static bool is_sticky(struct cuda_device *cuda)
{
    (void)cudaGetLastError();
    cudaError_t error = cudaStreamQuery(cuda->slots[cuda->base.slots].stream);
    (void)cudaGetLastError();
    return error != cudaSuccess && error != cudaErrorNotReady;
}

/* Records a failure in the works, and the device's loss if that is what it means. `code` is what a
 * kernel says of it; GEMMD_OK if `error` is all that is known. */
static void fail(struct cuda_device *cuda, struct work *works, const char *call,
                 enum gemmd_error code, cudaError_t error)
{
    if (code == GEMMD_OK)
        code = cuda_error_code((int)error);
    const char *text = error != cudaSuccess ? cudaGetErrorString(error) : error_title(code);
    if (code == GEMMD_ERR_DEVICE_LOST || is_sticky(cuda))
        device_set_lost(&cuda->base, "%s: %s", call, text);
    for (struct work *work = works; work != NULL; work = work->next)
        work->status = fault_set(&work->fault, code, NULL, "%s failed on the GPU: %s", call, text);
}

static enum gemmd_error open_failed(struct fault *fault, const char *call, cudaError_t error)
{
    (void)cudaGetLastError();
    return fault_set(fault, GEMMD_ERR_DEVICE_LOST, "devices", "%s: %s (%s)", call,
                     cudaGetErrorString(error), cudaGetErrorName(error));
}

/* --- running --- */

static void cuda_enter(struct device *device)
{
    /* A failure shows with the first work. */
    (void)cudaSetDevice(device->info.index);
}

static bool cuda_shares(const struct gemm_problem *problem, const struct gemm_kernel *kernel)
{
    return kernel->run_group != NULL && gemm_is_small(problem);
}

/* Of a work that has a stream to itself. */
static bool layout_of(const struct device *device, const struct gemm_problem *problem,
                      const struct gemm_kernel *kernel, struct device_layout *layout)
{
    const struct gemm_device gpu = device_gemm(device);
    const struct gemm_problem *p = problem;
    const struct device_leading wanted = {
        gemm_leading(&gpu, p->dtype, p->transa ? p->m : p->k, false),
        gemm_leading(&gpu, p->dtype, p->transb ? p->k : p->n, false),
    };
    return device_layout_padded(problem, kernel, wanted, device->tensors, layout);
}

static bool cuda_work_bytes(const struct device *device, const struct gemm_problem *problem,
                            const struct gemm_kernel *kernel, uint64_t *out)
{
    struct device_layout layout;
    *out = 0;
    if (cuda_shares(problem, kernel))
        return true;
    if (!layout_of(device, problem, kernel, &layout))
        return false;
    *out = layout.total_bytes;
    return true;
}

static bool cuda_attention_bytes(const struct device *device,
                                 const struct attention_problem *problem,
                                 const struct attention_kernel *kernel, uint64_t *out)
{
    struct attention_parts parts;
    if (!attention_parts_place(problem, kernel, device->tensors, &parts))
        return false;
    *out = parts.total_bytes;
    return true;
}

/* The problem as the device sees it: its parts in the work's range of device memory. */
static struct gemm_problem on_device(unsigned char *range, const struct device_layout *layout)
{
    struct gemm_problem moved = layout->problem;
    if (layout->a.bytes > 0)
        moved.a = range + layout->a.offset;
    if (layout->b.bytes > 0)
        moved.b = range + layout->b.offset;
    if (layout->bias.bytes > 0)
        moved.bias = range + layout->bias.offset;
    if (layout->c0.bytes > 0)
        moved.c0 = range + layout->c0.offset;
    if (layout->c.bytes > 0)
        moved.c = range + layout->c.offset;
    return moved;
}

/* Of the copies of a complete work. */
static const struct device_span not_on_its_way = {.start = NULL};

/* Enqueues the whole work; stops at the first failure. */
static void enqueue(struct cuda_device *cuda, struct slot *slot, struct work *work, bool is_probe)
{
    struct device_layout layout;
    cudaError_t error;
    const bool known =
        is_probe ? device_layout(&work->problem, work->kernel, cuda->base.tensors, &layout)
                 : layout_of(&cuda->base, &work->problem, work->kernel, &layout);
    if (!known ||
        (layout.total_bytes > work->device_bytes && (!is_probe || layout.workspace.bytes > 0))) {
        work->status = fault_set(&work->fault, GEMMD_ERR_INTERNAL, NULL,
                                 "the work's range of device memory is too small");
        return;
    }
    unsigned char *range = cuda->memory + work->device_offset;
    unsigned char *workspace = layout.workspace.bytes > 0 ? range + layout.workspace.offset : NULL;
    /* Pinned memory has the same address on host and device (unified addressing). */
    struct gemm_problem problem = is_probe ? work->problem : on_device(range, &layout);

    /* What was copied while the body arrived is behind: h2d is what the request waits for yet. */
    error = cudaEventRecord(slot->begun, slot->stream);
    enum gemmd_error code = GEMMD_OK;
    if (error == cudaSuccess && !is_probe) {
        struct copy_in all;
        copy_in_plan(&all, &work->problem, &layout, cuda->base.tensors, range, not_on_its_way);
        code = cuda_copy_in_rest(&cuda->early, slot->stream, work, &all);
        if (code == GEMMD_OK)
            code = cuda_close_up(slot->stream, &work->problem, &layout, cuda->base.tensors, range);
    }
    if (error == cudaSuccess && code == GEMMD_OK)
        error = cudaEventRecord(slot->copied_in, slot->stream);
    if (error != cudaSuccess || code != GEMMD_OK) {
        fail(cuda, work, "the copy to the device", code,
             error != cudaSuccess ? error : cudaGetLastError());
        return;
    }
    code = work->kernel->run(slot->context, &problem, workspace);
    if (code != GEMMD_OK) {
        fail(cuda, work, work->kernel->name, code, cudaGetLastError());
        return;
    }
    error = cudaEventRecord(slot->computed, slot->stream);
    if (error == cudaSuccess && !is_probe)
        error = cuda_copy_out(slot->stream, work, &layout, cuda->base.tensors, problem.c);
    if (error == cudaSuccess)
        error = cudaEventRecord(slot->ended, slot->stream);
    if (error != cudaSuccess)
        fail(cuda, work, "the copy from the device", GEMMD_OK, error);
}

static struct cuda_steps steps_of(const struct slot *slot)
{
    return (struct cuda_steps){slot->stream,    slot->context,  slot->begun,
                               slot->copied_in, slot->computed, slot->ended};
}

/* Whose parts are the first of cuda->attentions. */
static struct cuda_failure enqueue_one_attention(struct cuda_device *cuda,
                                                 const struct cuda_steps *steps,
                                                 const struct work *work)
{
    const struct attention_parts *parts = cuda->attentions.parts;
    unsigned char *range = cuda->memory + work->device_offset;
    struct copy_in all;
    copy_in_plan_attention(&all, &work->attention, parts, cuda->base.tensors, range,
                           not_on_its_way);
    return cuda_attention_enqueue(steps, &cuda->early, parts, &all, work, range);
}

/* A chain: of one, or of several that share a launch. */
static void enqueue_attentions(struct cuda_device *cuda, const struct slot *slot,
                               struct work *works)
{
    const struct cuda_steps steps = steps_of(slot);
    struct attention_parts *parts = cuda->attentions.parts;
    for (struct work *work = works; work != NULL; work = work->next, parts++)
        if (!attention_parts_place(&work->attention, work->attends, cuda->base.tensors, parts) ||
            parts->total_bytes > work->device_bytes) {
            for (struct work *each = works; each != NULL; each = each->next)
                each->status = fault_set(&each->fault, GEMMD_ERR_INTERNAL, NULL,
                                         "a work's range of device memory is too small");
            return;
        }
    const struct cuda_failure failure =
        works->next == NULL
            ? enqueue_one_attention(cuda, &steps, works)
            : cuda_attention_enqueue_group(&steps, &cuda->attentions, works, cuda->memory);
    if (failure.call != NULL)
        fail(cuda, works, failure.call, failure.code, failure.error);
}

static void enqueue_copies(struct cuda_device *cuda, struct slot *slot, struct work *work)
{
    cudaEvent_t before[] = {slot->begun, slot->copied_in, slot->computed};
    cudaError_t error = cudaSuccess;
    for (uint32_t i = 0; i < 3 && error == cudaSuccess; i++)
        error = cudaEventRecord(before[i], slot->stream);
    for (uint32_t i = 0; i < work->copy_count && error == cudaSuccess; i++)
        error = cuda_copy_rows(slot->stream, &work->copies[i]);
    if (error == cudaSuccess)
        error = cudaEventRecord(slot->ended, slot->stream);
    if (error != cudaSuccess)
        fail(cuda, work, "the copy of a tensor", GEMMD_OK, error);
}

/* All kernels that take many at once are one: there is no other. */
static enum gemmd_error run_group(struct cuda_device *cuda, struct slot *slot,
                                  const struct work *works)
{
    uint32_t count = 0;
    for (const struct work *work = works; work != NULL; work = work->next)
        cuda->group[count++] = &work->problem;
    return works->kernel->run_group(slot->context, cuda->group, count);
}

/* One launch for the whole chain. Its time is taken by the host's clock: an event more and clocks
 * read by the device would cost small requests microseconds. */
static void enqueue_shared(struct cuda_device *cuda, struct slot *slot, struct work *works)
{
    cudaError_t error = cudaSuccess;
    slot->launched_ns = clock_now_ns();
    const enum gemmd_error code = works->stack_key != 0
                                      ? device_stack_run(slot->context, works, slot->stack)
                                      : run_group(cuda, slot, works);
    if (code != GEMMD_OK) {
        fail(cuda, works, works->kernel->name, code, cudaGetLastError());
        return;
    }
    for (const struct work *work = works; work != NULL; work = work->next)
        for (uint32_t i = 0; i < work->copy_count && error == cudaSuccess; i++)
            error = cuda_copy_rows(slot->stream, &work->copies[i]);
    if (error == cudaSuccess)
        error = cudaEventRecord(slot->ended, slot->stream);
    if (error != cudaSuccess)
        fail(cuda, works, "the end of a launch", GEMMD_OK, error);
}

/* What was enqueued before a failure still uses the work's memory: it has to end first. */
static void wait_for(struct cuda_device *cuda, cudaStream_t stream)
{
    cudaError_t error = cudaStreamSynchronize(stream);
    if (error != cudaSuccess)
        device_set_lost(&cuda->base, "waiting for a stream: %s (%s)", cudaGetErrorString(error),
                        cudaGetErrorName(error));
    (void)cudaGetLastError();
}

static void clear(struct cuda_device *cuda, struct slot *slot)
{
    wait_for(cuda, slot->stream);
    wait_for(cuda, cuda->early.stream);
    slot->failed = true;
}

static void cuda_submit(struct device *device, uint32_t number, struct work *works)
{
    struct cuda_device *cuda = (struct cuda_device *)device;
    struct slot *slot = &cuda->slots[number];
    slot->failed = false;
    if (works->shares)
        enqueue_shared(cuda, slot, works);
    else if (works->attends != NULL)
        enqueue_attentions(cuda, slot, works);
    else if (work_is_copy(works))
        enqueue_copies(cuda, slot, works);
    else
        enqueue(cuda, slot, works, number == device->slots);
    if (works->status != GEMMD_OK)
        clear(cuda, slot);
}

static uint64_t elapsed_ns(cudaEvent_t from, cudaEvent_t to)
{
    float milliseconds = 0;
    if (cudaEventElapsedTime(&milliseconds, from, to) != cudaSuccess)
        (void)cudaGetLastError();
    return milliseconds > 0 ? (uint64_t)((double)milliseconds * 1e6) : 0;
}

static bool cuda_poll(struct device *device, uint32_t number, struct work *works)
{
    struct cuda_device *cuda = (struct cuda_device *)device;
    struct slot *slot = &cuda->slots[number];
    if (slot->failed)
        return true;
    cudaError_t error = cudaEventQuery(slot->ended);
    if (error == cudaErrorNotReady) {
        (void)cudaGetLastError(); /* or the next launch would be taken for failed */
        return false;
    }
    if (error != cudaSuccess) {
        fail(cuda, works, work_is_copy(works) ? "the copy of a tensor" : work_kernel_name(works),
             GEMMD_OK, error);
        if (!device_lost(device))
            clear(cuda, slot);
        return true;
    }
    if (works->shares) {
        const uint64_t kernel_ns = clock_now_ns() - slot->launched_ns;
        for (struct work *work = works; work != NULL; work = work->next)
            work->kernel_ns = kernel_ns;
    } else {
        const uint64_t h2d_ns = elapsed_ns(slot->begun, slot->copied_in);
        const uint64_t kernel_ns = elapsed_ns(slot->copied_in, slot->computed);
        const uint64_t d2h_ns = elapsed_ns(slot->computed, slot->ended);
        for (struct work *work = works; work != NULL; work = work->next) {
            work->h2d_ns = h2d_ns;
            work->kernel_ns = kernel_ns;
            work->d2h_ns = d2h_ns;
        }
    }
    return true;
}

/* --- copies that begin before their work --- */

static bool cuda_plan_copies(const struct device *device, const struct work *work,
                             struct device_span body, struct copy_in *copies)
{
    const struct cuda_device *cuda = (const struct cuda_device *)device;
    unsigned char *range = cuda->memory + work->device_offset;
    struct device_layout layout;
    struct attention_parts parts;
    if (work->attends != NULL &&
        attention_parts_place(&work->attention, work->attends, device->tensors, &parts) &&
        parts.total_bytes <= work->device_bytes) {
        copy_in_plan_attention(copies, &work->attention, &parts, device->tensors, range, body);
        return copies->count > 0;
    }
    if (work->kernel == NULL || !layout_of(device, &work->problem, work->kernel, &layout) ||
        layout.total_bytes > work->device_bytes)
        return false;
    copy_in_plan(copies, &work->problem, &layout, device->tensors, range, body);
    return copies->count > 0;
}

static enum gemmd_error cuda_copy_in(struct device *device, uint32_t lane,
                                     const struct copy_in_piece *piece)
{
    struct cuda_device *cuda = (struct cuda_device *)device;
    enum gemmd_error code = cuda_copy_piece(cuda->early.stream, piece);
    if (code == GEMMD_OK)
        code = cuda_error_code((int)cudaEventRecord(cuda->early.ended[lane], cuda->early.stream));
    if (code != GEMMD_OK)
        wait_for(cuda, cuda->early.stream);
    return code;
}

static bool cuda_copied_in(struct device *device, uint32_t lane)
{
    struct cuda_device *cuda = (struct cuda_device *)device;
    const cudaError_t error = cudaEventQuery(cuda->early.ended[lane]);
    (void)cudaGetLastError(); /* or the next launch would be taken for failed */
    if (error != cudaSuccess && error != cudaErrorNotReady)
        device_set_lost(device, "copying a body: %s (%s)", cudaGetErrorString(error),
                        cudaGetErrorName(error));
    return error != cudaErrorNotReady;
}

/* --- warming up --- */

/* Enqueues what "auto" chooses for a shape, on whatever lies in device memory. */
static enum gemmd_error warm_one(struct cuda_device *cuda, struct gemm_problem problem,
                                 struct fault *fault)
{
    struct slot *slot = &cuda->slots[0];
    const struct gemm_kernel *kernel;
    struct device_layout layout;
    const struct gemm_device device = device_gemm(&cuda->base);
    gemm_problem_contiguous(&problem);
    if (gemm_select(&device, "auto", &problem, &kernel, NULL) != GEMMD_OK ||
        !device_layout(&problem, kernel, cuda->base.tensors, &layout) ||
        layout.total_bytes > arena_capacity_bytes(cuda->base.arena))
        return GEMMD_OK;
    struct gemm_problem there = on_device(cuda->memory, &layout);
    enum gemmd_error code =
        kernel->run(slot->context, &there, cuda->memory + layout.workspace.offset);
    if (code != GEMMD_OK)
        return fault_set(fault, code, NULL, "the kernel %s (%s to %s) does not start: %s",
                         kernel->name, dtype_name(problem.dtype), dtype_name(problem.out),
                         cudaGetErrorString(cudaGetLastError()));
    return GEMMD_OK;
}

static enum gemmd_error warm_types(struct cuda_device *cuda, enum gemmd_dtype dtype,
                                   enum gemmd_dtype out, struct fault *fault)
{
    /* Small, middling and large; even and odd, for which libraries have code of their own. */
    static const uint64_t sides[] = {31, 64, 255, 512, 1023, 2048};
    static const char present;
    enum gemmd_error code = GEMMD_OK;
    for (uint32_t i = 0; i < sizeof sides / sizeof sides[0]; i++)
        for (uint32_t variant = 0; variant < 16 && code == GEMMD_OK; variant++) {
            struct gemm_problem problem = {.dtype = dtype,
                                           .out = out,
                                           .transa = variant & 1,
                                           .transb = variant & 2,
                                           .m = variant & 4 ? 1 : sides[i],
                                           .n = sides[i],
                                           .k = sides[i],
                                           .batch = 1,
                                           .alpha = 1};
            if (variant & 8) {
                problem.beta = 1;
                problem.bias = problem.c0 = &present;
                problem.act = GEMM_ACT_RELU;
            }
            code = warm_one(cuda, problem, fault);
        }
    return code;
}

/* What moves the rows of stacks, by one row of zeros: the products that it brings them to have run
 * by now. */
static enum gemmd_error warm_stack(struct cuda_device *cuda, struct fault *fault)
{
    enum { SIDE = 64, ROW_BYTES = SIDE * 4 };
    const struct gemm_device device = device_gemm(&cuda->base);
    const struct slot *slot = &cuda->slots[cuda->base.slots - 1];
    struct work work = {.problem = {.dtype = GEMMD_F32,
                                    .out = GEMMD_F32,
                                    .m = 1,
                                    .n = SIDE,
                                    .k = SIDE,
                                    .batch = 1,
                                    .alpha = 1,
                                    .a = cuda->memory,
                                    .b = cuda->memory,
                                    .c = cuda->memory + SIDE * ROW_BYTES}};
    gemm_problem_contiguous(&work.problem);
    if (gemm_select(&device, "naive", &work.problem, &work.kernel, NULL) != GEMMD_OK ||
        arena_capacity_bytes(cuda->base.arena) < (SIDE + 1) * ROW_BYTES)
        return GEMMD_OK;
    work.stack_rows = device_stack_rows(&work.problem, work.kernel,
                                        (struct device_span){cuda->memory, SIDE * ROW_BYTES},
                                        cuda->base.stack_bytes);
    if (work.stack_rows == 0)
        return GEMMD_OK;
    const enum gemmd_error code = device_stack_run(slot->context, &work, slot->stack);
    if (code == GEMMD_OK && cudaStreamSynchronize(slot->stream) == cudaSuccess)
        return GEMMD_OK;
    return fault_set(fault, code != GEMMD_OK ? code : GEMMD_ERR_DEVICE_LOST, NULL,
                     "rows cannot be stacked: %s", cudaGetErrorString(cudaGetLastError()));
}

static enum gemmd_error warm_attention(struct cuda_device *cuda, struct fault *fault)
{
    const struct gemm_device device = device_gemm(&cuda->base);
    const struct cuda_steps steps = steps_of(&cuda->slots[0]);
    const struct cuda_failure failure =
        cuda_attention_warm(&steps, &device, cuda->memory, arena_capacity_bytes(cuda->base.arena));
    if (failure.call == NULL)
        return GEMMD_OK;
    return fault_set(fault, failure.code, NULL, "the attention kernel %s does not start: %s",
                     failure.call, cudaGetErrorString(failure.error));
}

/* A kernel's code is loaded when it is first launched, and libraries have many: the first request
 * of a shape should not be the one that waits for it. The slots' streams share what is loaded. */
static enum gemmd_error cuda_warm(struct device *device, struct fault *fault)
{
    struct cuda_device *cuda = (struct cuda_device *)device;
    enum gemmd_error code = GEMMD_OK;
    for (int dtype = 0; dtype < GEMMD_DTYPE_COUNT; dtype++)
        for (int out = 0; out < GEMMD_DTYPE_COUNT && code == GEMMD_OK; out++)
            if (dtype_offers_out((enum gemmd_dtype)dtype, (enum gemmd_dtype)out))
                code = warm_types(cuda, (enum gemmd_dtype)dtype, (enum gemmd_dtype)out, fault);
    if (code == GEMMD_OK)
        code = warm_stack(cuda, fault);
    if (code == GEMMD_OK)
        code = warm_attention(cuda, fault);
    cudaError_t error = cudaStreamSynchronize(cuda->slots[0].stream);
    if (code == GEMMD_OK && error != cudaSuccess)
        code = open_failed(fault, "running every kernel once", error);
    return code;
}

/* --- opening and closing --- */

static void close_slot(struct slot *slot)
{
    if (slot->context != NULL)
        gemm_context_destroy(slot->context);
    cudaEvent_t events[] = {slot->begun, slot->copied_in, slot->computed, slot->ended};
    for (uint32_t i = 0; i < 4; i++)
        if (events[i] != NULL)
            (void)cudaEventDestroy(events[i]);
    if (slot->stream != NULL)
        (void)cudaStreamDestroy(slot->stream);
}

static void cuda_close(struct device *device)
{
    struct cuda_device *cuda = (struct cuda_device *)device;
    for (uint32_t i = 0; i <= cuda->base.slots; i++)
        close_slot(&cuda->slots[i]);
    cuda_early_close(&cuda->early);
    arena_destroy(cuda->base.arena);
    if (cuda->memory != NULL)
        (void)cudaFree(cuda->memory);
    if (cuda->tensors != NULL)
        (void)cudaFree(cuda->tensors);
    (void)cudaGetLastError();
    free(cuda);
}

static const struct device_ops cuda_ops = {
    .enter = cuda_enter,
    .submit = cuda_submit,
    .poll = cuda_poll,
    .close = cuda_close,
    .work_bytes = cuda_work_bytes,
    .attention_bytes = cuda_attention_bytes,
    .groups_attention = true,
    .shares = cuda_shares,
    .plan_copies = cuda_plan_copies,
    .copy_in = cuda_copy_in,
    .copied_in = cuda_copied_in,
    .warm = cuda_warm,
};

/* `timed`: whether its events tell when they were reached, or only that. */
static enum gemmd_error open_slot(struct slot *slot, int priority, bool timed, struct fault *fault)
{
    cudaEvent_t *events[] = {&slot->begun, &slot->copied_in, &slot->computed, &slot->ended};
    cudaError_t error =
        cudaStreamCreateWithPriority(&slot->stream, cudaStreamNonBlocking, priority);
    for (uint32_t i = 0; i < 4 && error == cudaSuccess; i++)
        error =
            cudaEventCreateWithFlags(events[i], timed ? cudaEventDefault : cudaEventDisableTiming);
    if (error != cudaSuccess)
        return open_failed(fault, "creating a stream", error);
    return gemm_context_create(GEMM_BACKEND_CUDA, slot->stream, 0, &slot->context, fault);
}

static enum gemmd_error open_slots(struct cuda_device *cuda, struct fault *fault)
{
    int lowest, highest;
    cudaError_t error = cudaDeviceGetStreamPriorityRange(&lowest, &highest);
    if (error != cudaSuccess)
        return open_failed(fault, "reading stream priorities", error);
    /* Smaller is more urgent. */
    const int middle = highest < lowest ? highest + 1 : highest;
    const uint32_t alone = cuda->base.slots - cuda->base.groups;
    enum gemmd_error code = GEMMD_OK;
    for (uint32_t i = 0; i <= cuda->base.slots && code == GEMMD_OK; i++)
        code = open_slot(&cuda->slots[i],
                         i == cuda->base.slots ? highest
                         : i >= alone          ? middle
                                               : lowest,
                         i < alone || i == cuda->base.slots, fault);
    if (code != GEMMD_OK)
        return code;
    error = cuda_early_open(&cuda->early, lowest);
    return error == cudaSuccess ? GEMMD_OK : open_failed(fault, "creating a stream", error);
}

static enum gemmd_error take_memory(uint64_t bytes, const char *option, void **memory,
                                    struct fault *fault)
{
    size_t free_bytes = 0, total_bytes;
    cudaError_t error = cudaMalloc(memory, bytes);
    if (error == cudaSuccess)
        return GEMMD_OK;
    (void)cudaGetLastError();
    if (error != cudaErrorMemoryAllocation)
        return open_failed(fault, "taking device memory", error);
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
    enum gemmd_error code = take_memory(bytes, "tensor-bytes", &cuda->tensors, fault);
    if (code == GEMMD_OK)
        cuda->base.tensors = (struct device_span){cuda->tensors, bytes};
    return code;
}

/* After everything else has taken its own, so that "half of what is free" is that. The arena comes
 * first, then the workspaces of stacks. */
static enum gemmd_error open_memory(struct cuda_device *cuda, uint64_t wanted_bytes,
                                    struct fault *fault)
{
    size_t free_bytes, total_bytes;
    cudaError_t error = cudaMemGetInfo(&free_bytes, &total_bytes);
    if (error != cudaSuccess)
        return open_failed(fault, "asking for free device memory", error);
    uint64_t bytes = wanted_bytes != 0 ? wanted_bytes : free_bytes / 2;
    void *memory = NULL;
    enum gemmd_error code = take_memory(bytes, "device-bytes", &memory, fault);
    if (code != GEMMD_OK)
        return code;
    struct device *base = &cuda->base;
    cuda->memory = memory;
    base->stack_bytes = device_stack_bytes(bytes, base->tensors.bytes);
    bytes = (bytes - base->groups * base->stack_bytes) / DEVICE_LAYOUT_ALIGNMENT *
            DEVICE_LAYOUT_ALIGNMENT;
    for (uint32_t i = 0; i < base->groups && base->stack_bytes > 0; i++)
        cuda->slots[base->slots - base->groups + i].stack =
            cuda->memory + bytes + i * base->stack_bytes;
    base->arena = arena_create(bytes);
    if (base->arena == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                         "no memory for the records of %" PRIu64 " bytes", bytes);
    return GEMMD_OK;
}

/* The kernel driver's version ("580.82.07"), or which CUDA it speaks where that is not told. */
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

static enum gemmd_error describe(struct device_info *info, int32_t index, struct fault *fault)
{
    struct cudaDeviceProp properties;
    cudaError_t error = cudaGetDeviceProperties(&properties, index);
    if (error != cudaSuccess)
        return open_failed(fault, "asking for the device's properties", error);
    *info = (struct device_info){.backend = GEMM_BACKEND_CUDA,
                                 .index = index,
                                 .memory_total_bytes = properties.totalGlobalMem};
    snprintf(info->name, sizeof info->name, "%.127s", properties.name);
    snprintf(info->arch, sizeof info->arch, "sm_%d%d", properties.major, properties.minor);
    info->compute_capability = (uint32_t)(properties.major * 10 + properties.minor);
    uint32_t used = (uint32_t)snprintf(info->uuid, sizeof info->uuid, "GPU");
    for (uint32_t i = 0; i < 16; i++) {
        const char *dash = i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
        used += (uint32_t)snprintf(info->uuid + used, sizeof info->uuid - used, "%s%02x", dash,
                                   (unsigned char)properties.uuid.bytes[i]);
    }
    read_driver_version(info->driver, sizeof info->driver);
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
        error = cudaFree(NULL); /* makes the context, and finds out whether there is one */
    if (error != cudaSuccess)
        code = open_failed(fault, "opening the device", error);
    if (code == GEMMD_OK)
        code = describe(&cuda->base.info, options->index, fault);
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

/* A host without an NVIDIA driver, or with its devices hidden on purpose. */
static bool is_meant_to_have_none(cudaError_t error)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (error != cudaErrorNoDevice && error != cudaErrorInsufficientDriver)
        return false;
    return access("/proc/driver/nvidia", F_OK) != 0 ||
           (visible != NULL && (visible[0] == '\0' || strcmp(visible, "-1") == 0));
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
                     "--backend cpu does without it",
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
