#include "server/device/cuda/own_launch.h"

#include "server/base/clock.h"

/* The `body` of copy_in_plan for a complete work: all operands have been received. */
static const struct device_span received = {.start = NULL};
static const struct cuda_failure nothing_failed = {.call = NULL};

static struct cuda_failure failed(const char *call, enum gemmd_error code, cudaError_t error)
{
    return (struct cuda_failure){call, code, error != cudaSuccess ? error : cudaGetLastError()};
}

/* ---- before the first launch ---- */

static enum gemmd_error own_too_small(struct work *work)
{
    return work->status = fault_set(&work->fault, GEMMD_ERR_INTERNAL, NULL,
                                    "the work's range of device memory is too small");
}

static enum gemmd_error own_place(struct cuda_device *cuda, struct cuda_slot *slot,
                                  struct work *work)
{
    struct cuda_own *own = &slot->own;
    const struct gemm_device gpu = device_gemm(&cuda->base);
    if (!device_layout_make(&work->task, &gpu, cuda->base.tensors, &own->layout) ||
        own->layout.total_bytes > work->device_bytes)
        return own_too_small(work);
    own->task = work->task;
    device_layout_problem(&own->layout, own->range, &own->task.problem);
    own->workspace = device_layout_workspace(&own->layout, own->range);
    launch_cut_make(&own->task, slot->context, &own->cut);
    return GEMMD_OK;
}

static enum gemmd_error own_copy_in(struct cuda_device *cuda, const struct cuda_slot *slot,
                                    const struct work *work)
{
    const struct cuda_own *own = &slot->own;
    struct copy_in all;
    copy_in_plan(&all, &work->task, &own->layout, own->range, received);
    const enum gemmd_error code = cuda_copy_in_rest(&cuda->early, slot->stream, work, &all);
    return code != GEMMD_OK ? code : cuda_pack(slot->stream, &work->task, &own->layout, own->range);
}

/* ---- the launches ---- */

/* Enqueues the check of the result where it lies, and the copy of the residual. */
static struct cuda_failure own_check(const struct cuda_slot *slot, const struct work *work)
{
    void *workspace = slot->own.range + work->check_offset;
    const struct task *task = &slot->own.task;
    const enum gemmd_error code =
        task->operation->check(slot->context, &task->problem, work->verify_seed, workspace);
    if (code != GEMMD_OK)
        return failed("the check of the result", code, cudaSuccess);
    const cudaError_t error = cudaMemcpyAsync(slot->residuals, workspace, sizeof *slot->residuals,
                                              cudaMemcpyDefault, slot->stream);
    return error == cudaSuccess ? nothing_failed
                                : failed("the copy of the residual", GEMMD_OK, error);
}

/* Enqueues the next launch, and the check and the copies out behind the last one. */
static struct cuda_failure own_advance(struct cuda_slot *slot, const struct work *work)
{
    struct cuda_own *own = &slot->own;
    const enum gemmd_error code =
        launch_cut_run(&own->cut, &own->task, slot->context, own->enqueued, own->workspace);
    if (code != GEMMD_OK)
        return failed(work_kernel_name(work), code, cudaSuccess);
    const uint64_t number = own->enqueued++;
    if (own->enqueued < own->cut.launches) {
        const cudaError_t error = cudaEventRecord(slot->launch_ended[number % 2], slot->stream);
        return error == cudaSuccess ? nothing_failed : failed("a launch", GEMMD_OK, error);
    }
    cudaError_t error = cudaEventRecord(slot->computed, slot->stream);
    if (error == cudaSuccess && work->verify != WORK_UNVERIFIED) {
        const struct cuda_failure failure = own_check(slot, work);
        if (failure.call != NULL)
            return failure;
    }
    if (error == cudaSuccess)
        error = cuda_copy_out(slot->stream, work, &own->layout, own->range);
    if (error == cudaSuccess)
        error = cudaEventRecord(slot->ended, slot->stream);
    return error == cudaSuccess ? nothing_failed
                                : failed("the copy from the device", GEMMD_OK, error);
}

struct cuda_failure cuda_own_begin(struct cuda_device *cuda, struct cuda_slot *slot,
                                   struct work *work)
{
    struct cuda_own *own = &slot->own;
    own->range = cuda->memory + work->device_offset;
    own->enqueued = own->ended = 0;
    own->stops = false;
    if (own_place(cuda, slot, work) != GEMMD_OK)
        return nothing_failed;

    /* Early copies are not part of h2d_ns, which is only the time that the request still waits. */
    enum gemmd_error code = GEMMD_OK;
    cudaError_t error = cudaEventRecord(slot->begun, slot->stream);
    for (uint32_t i = 0; i < work->first_copy_count && error == cudaSuccess; i++)
        error = cuda_copy_rows(slot->stream, &work->first_copies[i]);
    for (uint32_t i = 0; i < work->sequence_copy_count && error == cudaSuccess; i++)
        error = cuda_copy_rows(slot->stream, &work->sequence_copies[i]);
    if (error == cudaSuccess)
        code = own_copy_in(cuda, slot, work);
    if (error == cudaSuccess && code == GEMMD_OK)
        error = cudaEventRecord(slot->copied_in, slot->stream);
    if (error != cudaSuccess || code != GEMMD_OK)
        return failed("the copy to the device", code, error);
    struct cuda_failure failure = own_advance(slot, work);
    if (failure.call == NULL && own->enqueued < own->cut.launches)
        failure = own_advance(slot, work);
    return failure;
}

enum cuda_own_state cuda_own_continue(struct cuda_device *cuda, struct cuda_slot *slot,
                                      struct work *work, struct cuda_failure *failure)
{
    struct cuda_own *own = &slot->own;
    *failure = nothing_failed;
    while (own->enqueued < own->cut.launches) {
        const cudaError_t error = cudaEventQuery(slot->launch_ended[own->ended % 2]);
        if (error == cudaErrorNotReady) {
            (void)cudaGetLastError(); /* otherwise the next launch would seem to have failed */
            return CUDA_OWN_LAUNCHING;
        }
        if (error != cudaSuccess) {
            *failure = failed(work_kernel_name(work), GEMMD_OK, error);
            return CUDA_OWN_STOPPED;
        }
        own->ended++;
        device_note_progress(&cuda->base);
        own->stops = own->stops || work_is_useless(work, clock_now_ns());
        if (own->stops && own->ended == own->enqueued)
            return CUDA_OWN_STOPPED;
        if (!own->stops)
            *failure = own_advance(slot, work);
        if (failure->call != NULL)
            return CUDA_OWN_STOPPED;
    }
    return CUDA_OWN_ENDING;
}
