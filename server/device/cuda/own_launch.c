#include "server/device/cuda/own_launch.h"

#include "kernels/freivalds.h"
#include "server/base/clock.h"

bool cuda_layout_of(const struct device *device, const struct gemm_problem *problem,
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

static enum gemmd_error own_place_product(struct cuda_device *cuda, struct cuda_own *own,
                                          struct work *work, bool is_probe)
{
    struct device_layout *layout = &own->layout;
    const bool known = is_probe
                           ? device_layout(&work->problem, work->kernel, cuda->base.tensors, layout)
                           : cuda_layout_of(&cuda->base, &work->problem, work->kernel, layout);
    if (!known ||
        (layout->total_bytes > work->device_bytes && (!is_probe || layout->workspace.bytes > 0)))
        return own_too_small(work);
    /* Pinned memory has the same address on host and device (unified addressing). */
    own->product = is_probe ? work->problem : device_layout_problem(layout, own->range);
    own->workspace = layout->workspace.bytes > 0 ? own->range + layout->workspace.offset : NULL;
    own->cut =
        (struct launch_cut){.launches = 1, .rows = own->product.m, .problems = own->product.batch};
    if (!is_probe)
        launch_cut_gemm(work->kernel, &own->product, &own->cut);
    return GEMMD_OK;
}

static enum gemmd_error own_place_task(struct cuda_device *cuda, struct cuda_slot *slot,
                                       struct work *work)
{
    struct cuda_own *own = &slot->own;
    if (!task_parts_place(&work->task, cuda->base.tensors, &own->parts) ||
        own->parts.total_bytes > work->device_bytes)
        return own_too_small(work);
    own->task = work->task;
    task_parts_problem(&own->parts, &work->task, own->range, &own->task.problem);
    own->workspace = task_parts_workspace(&own->parts, own->range);
    launch_cut_task(&own->task, slot->context, &own->cut);
    return GEMMD_OK;
}

static enum gemmd_error own_copy_in(struct cuda_device *cuda, const struct cuda_slot *slot,
                                    const struct work *work)
{
    const struct cuda_own *own = &slot->own;
    const struct device_span tensors = cuda->base.tensors;
    struct copy_in all;
    if (work_is_task(work)) {
        copy_in_plan_task(&all, &work->task, &own->parts, own->range, received);
        return cuda_copy_in_rest(&cuda->early, slot->stream, work, &all);
    }
    copy_in_plan(&all, &work->problem, &own->layout, tensors, own->range, received);
    const enum gemmd_error code = cuda_copy_in_rest(&cuda->early, slot->stream, work, &all);
    return code != GEMMD_OK ? code
                            : cuda_pack_matrices(slot->stream, &work->problem, &own->layout,
                                                 tensors, own->range);
}

/* ---- the launches ---- */

static enum gemmd_error own_launch(const struct cuda_slot *slot, const struct work *work)
{
    const struct cuda_own *own = &slot->own;
    if (work->kernel != NULL) {
        const struct gemm_problem part =
            launch_cut_gemm_part(&own->cut, &own->product, own->enqueued);
        return work->kernel->run(slot->context, &part, own->workspace);
    }
    const struct operation_kernel *kernel = own->task.kernel;
    return own->cut.launches == 1
               ? kernel->run(slot->context, &own->task.problem, own->workspace)
               : kernel->run_parts(slot->context, &own->task.problem,
                                   launch_cut_task_parts(&own->cut, own->enqueued));
}

static cudaError_t own_copy_part_out(const struct cuda_slot *slot, struct device_part part,
                                     void *to)
{
    return part.bytes == 0 ? cudaSuccess
                           : cudaMemcpyAsync(to, slot->own.range + part.offset, part.bytes,
                                             cudaMemcpyDefault, slot->stream);
}

static cudaError_t own_copy_out(struct cuda_device *cuda, const struct cuda_slot *slot,
                                const struct work *work)
{
    const struct cuda_own *own = &slot->own;
    cudaError_t error = cudaSuccess;
    if (!work_is_task(work))
        return cuda_copy_out(slot->stream, work, &own->layout, cuda->base.tensors, own->product.c);
    for (uint32_t i = 0; i < own->parts.count && error == cudaSuccess; i++)
        if (own->parts.list[i].is_result)
            error =
                own_copy_part_out(slot, own->parts.places[i],
                                  operation_part_pointer(&work->task.problem, &own->parts.list[i]));
    return error;
}

/* Enqueues the check of the product where it lies, and the copy of the residual. */
static struct cuda_failure own_check(const struct cuda_slot *slot, const struct work *work)
{
    void *workspace = slot->own.range + work->check_offset;
    const enum gemmd_error code =
        freivalds_check(slot->context, &slot->own.product, work->verify_seed, NULL, workspace);
    if (code != GEMMD_OK)
        return failed("the check of the result", code, cudaSuccess);
    const cudaError_t error = cudaMemcpyAsync(slot->residuals, workspace, sizeof *slot->residuals,
                                              cudaMemcpyDefault, slot->stream);
    return error == cudaSuccess ? nothing_failed
                                : failed("the copy of the residual", GEMMD_OK, error);
}

/* Enqueues the next launch, and the check and the copies out behind the last one. */
static struct cuda_failure own_advance(struct cuda_device *cuda, struct cuda_slot *slot,
                                       struct work *work)
{
    struct cuda_own *own = &slot->own;
    const enum gemmd_error code = own_launch(slot, work);
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
    if (error == cudaSuccess && !own->is_probe)
        error = own_copy_out(cuda, slot, work);
    if (error == cudaSuccess)
        error = cudaEventRecord(slot->ended, slot->stream);
    return error == cudaSuccess ? nothing_failed
                                : failed("the copy from the device", GEMMD_OK, error);
}

struct cuda_failure cuda_own_begin(struct cuda_device *cuda, struct cuda_slot *slot,
                                   struct work *work, bool is_probe)
{
    struct cuda_own *own = &slot->own;
    own->range = cuda->memory + work->device_offset;
    own->is_probe = is_probe;
    own->enqueued = own->ended = 0;
    own->stops = false;
    const enum gemmd_error placed = work_is_task(work)
                                        ? own_place_task(cuda, slot, work)
                                        : own_place_product(cuda, own, work, is_probe);
    if (placed != GEMMD_OK)
        return nothing_failed;

    /* Early copies are not part of h2d_ns, which is only the time that the request still waits. */
    enum gemmd_error code = GEMMD_OK;
    cudaError_t error = cudaEventRecord(slot->begun, slot->stream);
    for (uint32_t i = 0; i < work->first_copy_count && error == cudaSuccess; i++)
        error = cuda_copy_rows(slot->stream, &work->first_copies[i]);
    if (error == cudaSuccess && !is_probe)
        code = own_copy_in(cuda, slot, work);
    if (error == cudaSuccess && code == GEMMD_OK)
        error = cudaEventRecord(slot->copied_in, slot->stream);
    if (error != cudaSuccess || code != GEMMD_OK)
        return failed("the copy to the device", code, error);
    struct cuda_failure failure = own_advance(cuda, slot, work);
    if (failure.call == NULL && own->enqueued < own->cut.launches)
        failure = own_advance(cuda, slot, work);
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
            *failure = own_advance(cuda, slot, work);
        if (failure->call != NULL)
            return CUDA_OWN_STOPPED;
    }
    return CUDA_OWN_ENDING;
}
