#include "server/device/cuda/cuda_device.h"

#include <math.h>

#include "kernels/cuda_error.h"
#include "server/base/clock.h"
#include "server/device/cuda/own_launch.h"
#include "server/device/device_stack.h"

/* Whether the last error was sticky: then every call fails. cudaStreamQuery is called because it
 * does not wait. */
static bool is_sticky(struct cuda_device *cuda)
{
    (void)cudaGetLastError();
    cudaError_t error = cudaStreamQuery(cuda->slots[cuda->base.slots].stream);
    (void)cudaGetLastError();
    return error != cudaSuccess && error != cudaErrorNotReady;
}

/* Records a failure in all works of a launch list, and sets the device lost if the error is sticky.
 * `code` is a kernel's error, GEMMD_OK if only `error` is known. */
static void cuda_fail(struct cuda_device *cuda, struct work *works, const char *call,
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

static void enqueue_own(struct cuda_device *cuda, struct cuda_slot *slot, struct work *work)
{
    const struct cuda_failure failure = cuda_own_begin(cuda, slot, work);
    if (failure.call != NULL)
        cuda_fail(cuda, work, failure.call, failure.code, failure.error);
}

/* Enqueues a launch list of several works of one group. */
static void enqueue_group(struct cuda_device *cuda, const struct cuda_slot *slot,
                          struct work *works)
{
    struct device_layout *layout = cuda->group.layouts;
    for (struct work *work = works; work != NULL; work = work->next, layout++)
        if (!device_layout_make(&work->task, NULL, cuda->base.tensors, layout) ||
            layout->total_bytes > work->device_bytes) {
            for (struct work *each = works; each != NULL; each = each->next)
                each->status = fault_set(&each->fault, GEMMD_ERR_INTERNAL, NULL,
                                         "a work's range of device memory is too small");
            return;
        }
    const struct cuda_failure failure =
        cuda_task_group_enqueue(slot, &cuda->group, works, cuda->memory);
    if (failure.call != NULL)
        cuda_fail(cuda, works, failure.call, failure.code, failure.error);
}

static void enqueue_copies(struct cuda_device *cuda, struct cuda_slot *slot, struct work *work)
{
    cudaEvent_t before[] = {slot->begun, slot->copied_in, slot->computed};
    cudaError_t error = cudaSuccess;
    for (uint32_t i = 0; i < 3 && error == cudaSuccess; i++)
        error = cudaEventRecord(before[i], slot->stream);
    for (uint32_t i = 0; i < work->sequence_copy_count && error == cudaSuccess; i++)
        error = cuda_copy_rows(slot->stream, &work->sequence_copies[i]);
    for (uint32_t i = 0; i < work->copy_count && error == cudaSuccess; i++)
        error = cuda_copy_rows(slot->stream, &work->copies[i]);
    if (error == cudaSuccess)
        error = cudaEventRecord(slot->ended, slot->stream);
    if (error != cudaSuccess)
        cuda_fail(cuda, work, "the copy of a tensor", GEMMD_OK, error);
}

/* Enqueues a launch for all works of a list that the kernel of `like` computes, unless a work
 * before `like` has had them enqueued. */
static enum gemmd_error run_small_like(struct cuda_device *cuda, const struct cuda_slot *slot,
                                       const struct work *works, const struct work *like)
{
    const struct operation_kernel *kernel = like->task.kernel;
    struct operation_member *members = cuda->group.members;
    uint32_t count = 0;
    for (const struct work *work = works; work != like; work = work->next)
        if (work->task.kernel == kernel)
            return GEMMD_OK;
    for (const struct work *work = like; work != NULL; work = work->next)
        if (work->task.kernel == kernel)
            members[count++] = (struct operation_member){&work->task.problem, NULL};
    return kernel->run_group(slot->context, members, count);
}

/* Enqueues a launch list of small works, in one launch for each kernel. Sets `*kernel` to the name
 * of the kernel that was enqueued last, for the text of an error. */
static enum gemmd_error run_small(struct cuda_device *cuda, const struct cuda_slot *slot,
                                  const struct work *works, const char **kernel)
{
    enum gemmd_error code = GEMMD_OK;
    const struct operation_kernel *last = NULL;
    for (const struct work *work = works; work != NULL && code == GEMMD_OK; work = work->next) {
        if (work->task.kernel == last)
            continue;
        last = work->task.kernel;
        *kernel = last->name;
        code = run_small_like(cuda, slot, works, work);
    }
    return code;
}

/* Enqueues the checks of those works of a launch list of small works that are to be verified, in
 * one launch for works of one operation that follow each other. */
static enum gemmd_error check_small(const struct cuda_slot *slot, const struct work *works)
{
    const struct operation *operation = NULL;
    uint32_t first = 0, count = 0;
    enum gemmd_error code = GEMMD_OK;
    for (const struct work *work = works; work != NULL && code == GEMMD_OK; work = work->next) {
        if (work->verify == WORK_UNVERIFIED)
            continue;
        if (count > first && work->task.operation != operation) {
            code = operation->check_small(slot->context, slot->checks + first, count - first);
            first = count;
        }
        operation = work->task.operation;
        slot->checks[count++] = (struct operation_small_check){
            .problem = work->task.problem, .seed = work->verify_seed, .residual = INFINITY};
    }
    return code == GEMMD_OK && count > first
               ? operation->check_small(slot->context, slot->checks + first, count - first)
               : code;
}

static void judge_small(const struct cuda_slot *slot, struct work *works)
{
    uint32_t count = 0;
    for (struct work *work = works; work != NULL; work = work->next)
        if (work->verify != WORK_UNVERIFIED)
            work->residual = slot->checks[count++].residual;
}

/* Enqueues a shared launch. The host's clock measures its time: another event,
 * with times taken by the device, would cost small requests microseconds. */
static void enqueue_shared(struct cuda_device *cuda, struct cuda_slot *slot, struct work *works)
{
    cudaError_t error = cudaSuccess;
    slot->launched_ns = clock_now_ns();
    const char *kernel = work_kernel_name(works);
    enum gemmd_error code =
        works->join_key != 0 ? device_stack_run(slot->context, works, slot->residuals, slot->stack)
                             : run_small(cuda, slot, works, &kernel);
    if (code == GEMMD_OK && works->join_key == 0)
        code = check_small(slot, works);
    if (code != GEMMD_OK) {
        cuda_fail(cuda, works, kernel, code, cudaGetLastError());
        return;
    }
    for (const struct work *work = works; work != NULL; work = work->next)
        for (uint32_t i = 0; i < work->copy_count && error == cudaSuccess; i++)
            error = cuda_copy_rows(slot->stream, &work->copies[i]);
    if (error == cudaSuccess)
        error = cudaEventRecord(slot->ended, slot->stream);
    if (error != cudaSuccess)
        cuda_fail(cuda, works, "the end of a launch", GEMMD_OK, error);
}

void cuda_wait_for(struct cuda_device *cuda, cudaStream_t stream)
{
    cudaError_t error = cudaStreamSynchronize(stream);
    if (error != cudaSuccess)
        device_set_lost(&cuda->base, "waiting for a stream: %s (%s)", cudaGetErrorString(error),
                        cudaGetErrorName(error));
    (void)cudaGetLastError();
}

/* Waits for the commands that were enqueued before a failure, which still use the memory of the
 * works. */
static void drain_slot(struct cuda_device *cuda, struct cuda_slot *slot)
{
    cuda_wait_for(cuda, slot->stream);
    cuda_wait_for(cuda, cuda->early.stream);
    slot->failed = true;
}

void cuda_submit(struct device *device, uint32_t number, struct work *works)
{
    struct cuda_device *cuda = (struct cuda_device *)device;
    struct cuda_slot *slot = &cuda->slots[number];
    slot->failed = false;
    slot->own.enqueued = slot->own.cut.launches = 0;
    if (works->shared_launch)
        enqueue_shared(cuda, slot, works);
    else if (works->next != NULL)
        enqueue_group(cuda, slot, works);
    else if (work_is_copy(works))
        enqueue_copies(cuda, slot, works);
    else
        enqueue_own(cuda, slot, works);
    if (works->status != GEMMD_OK)
        drain_slot(cuda, slot);
}

static uint64_t elapsed_ns(cudaEvent_t from, cudaEvent_t to)
{
    float milliseconds = 0;
    if (cudaEventElapsedTime(&milliseconds, from, to) != cudaSuccess)
        (void)cudaGetLastError();
    return milliseconds > 0 ? (uint64_t)((double)milliseconds * 1e6) : 0;
}

/* Records a failure of works that have begun, and waits until their memory is not used any more. */
static void cuda_fail_running(struct cuda_device *cuda, struct cuda_slot *slot, struct work *works,
                              struct cuda_failure failure)
{
    cuda_fail(cuda, works, failure.call, failure.code, failure.error);
    if (!device_lost(&cuda->base))
        drain_slot(cuda, slot);
}

/* Enqueues the launches of a work that are left. Returns true if the work has ended before its last
 * launch. */
static bool ends_early(struct cuda_device *cuda, struct cuda_slot *slot, struct work *work)
{
    struct cuda_failure failure;
    if (cuda_own_continue(cuda, slot, work, &failure) != CUDA_OWN_STOPPED)
        return false;
    if (failure.call != NULL)
        cuda_fail_running(cuda, slot, work, failure);
    else
        work_set_stopped(work);
    work->kernel_ns = clock_now_ns() - work->started_ns;
    return true;
}

/* Sets the times of works that have ended. A shared launch was measured by the host's clock. */
static void set_times(const struct cuda_slot *slot, struct work *works)
{
    uint64_t h2d_ns = 0, kernel_ns, d2h_ns = 0;
    if (works->shared_launch) {
        kernel_ns = clock_now_ns() - slot->launched_ns;
    } else {
        h2d_ns = elapsed_ns(slot->begun, slot->copied_in);
        kernel_ns = elapsed_ns(slot->copied_in, slot->computed);
        d2h_ns = elapsed_ns(slot->computed, slot->ended);
    }
    for (struct work *work = works; work != NULL; work = work->next) {
        work->h2d_ns = h2d_ns;
        work->kernel_ns = kernel_ns;
        work->d2h_ns = d2h_ns;
    }
}

bool cuda_poll(struct device *device, uint32_t number, struct work *works)
{
    struct cuda_device *cuda = (struct cuda_device *)device;
    struct cuda_slot *slot = &cuda->slots[number];
    if (slot->failed)
        return true;
    if (slot->own.enqueued < slot->own.cut.launches) {
        if (ends_early(cuda, slot, works))
            return true;
        if (slot->own.enqueued < slot->own.cut.launches)
            return false;
    }
    cudaError_t error = cudaEventQuery(slot->ended);
    if (error == cudaErrorNotReady) {
        (void)cudaGetLastError(); /* otherwise the next launch would seem to have failed */
        return false;
    }
    if (error != cudaSuccess) {
        const char *what = work_is_copy(works) ? "the copy of a tensor" : work_kernel_name(works);
        cuda_fail_running(cuda, slot, works, (struct cuda_failure){what, GEMMD_OK, error});
        return true;
    }
    set_times(slot, works);
    if (work_is_stacked(works))
        device_stack_judge(works, slot->residuals);
    else if (works->shared_launch)
        judge_small(slot, works);
    else if (works->verify != WORK_UNVERIFIED)
        works->residual = slot->residuals[0];
    return true;
}
