#include "server/device/cuda/cuda_device.h"

#include "kernels/cuda/move/move.h"
#include "kernels/cuda_error.h"
#include "proto/size.h"

/* From this size on, a copy by the copy engine takes less time than the kernel needs for the same
 * bytes, the cost of issuing the copy included. */
static const uint64_t LARGE_BYTES = 256 << 10;

/* Moves between host and device, gathered until one kernel launch is full of them. */
struct gathering {
    cudaStream_t stream;
    enum gemmd_error code; /* of the first launch that failed */
    cudaError_t error;     /* of the first copy that failed */
    struct span_moves moves;
};

static bool goes_well(const struct gathering *gathering)
{
    return gathering->code == GEMMD_OK && gathering->error == cudaSuccess;
}

static void gathering_flush(struct gathering *gathering)
{
    if (goes_well(gathering) && gathering->moves.count > 0)
        gathering->code = move_spans_launch(gathering->stream, &gathering->moves);
    gathering->moves.count = 0;
}

static void gathering_move(struct gathering *gathering, void *to, const void *from, uint64_t bytes)
{
    struct span_moves *moves = &gathering->moves;
    if (bytes == 0 || !goes_well(gathering))
        return;
    if (bytes >= LARGE_BYTES) {
        gathering->error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, gathering->stream);
        return;
    }
    moves->list[moves->count++] = (struct span_move){from, to, bytes};
    if (moves->count == SPAN_MOVES)
        gathering_flush(gathering);
}

/* Moves the operands of a task to its range, or (`results`) the results from there. */
static void move_parts(struct gathering *gathering, const struct device_layout *layout,
                       const struct task *task, unsigned char *range, bool results)
{
    const uint32_t operands = task->operation->operands;
    const uint32_t begin = results ? operands : 0, end = results ? layout->count : operands;
    for (uint32_t i = begin; i < end; i++) {
        unsigned char *there = range + layout->locations[i].offset;
        void *host = operation_pointer(task->operation, &task->problem, i);
        gathering_move(gathering, results ? host : there, results ? there : host,
                       layout->locations[i].bytes);
    }
}

/* Fills in the members of the group and enqueues the copies of their operands. Returns how many
 * members there are. */
static uint32_t gather_in(struct gathering *gathering, struct cuda_task_group *group,
                          const struct work *works, unsigned char *memory)
{
    uint32_t count = 0;
    for (const struct work *work = works; work != NULL; work = work->next, count++) {
        unsigned char *range = memory + work->device_offset;
        const struct device_layout *layout = &group->layouts[count];
        device_layout_problem(layout, range, &group->problems[count]);
        group->members[count] = (struct operation_member){&group->problems[count],
                                                          device_layout_workspace(layout, range)};
        for (uint32_t i = 0; i < work->sequence_copy_count && goes_well(gathering); i++)
            gathering->error = cuda_copy_rows(gathering->stream, &work->sequence_copies[i]);
        move_parts(gathering, layout, &work->task, range, false);
    }
    gathering_flush(gathering);
    return count;
}

static void gather_out(struct gathering *gathering, const struct cuda_task_group *group,
                       const struct work *works, unsigned char *memory)
{
    const struct device_layout *layout = group->layouts;
    for (const struct work *work = works; work != NULL; work = work->next)
        move_parts(gathering, layout++, &work->task, memory + work->device_offset, true);
    gathering_flush(gathering);
}

static struct cuda_failure gathering_failed(const struct gathering *gathering, const char *call)
{
    return (struct cuda_failure){
        call, gathering->code, gathering->code != GEMMD_OK ? cudaGetLastError() : gathering->error};
}

struct cuda_failure cuda_task_group_enqueue(const struct cuda_slot *slot,
                                            struct cuda_task_group *group, const struct work *works,
                                            unsigned char *memory)
{
    struct gathering gathering;
    gathering.stream = slot->stream;
    gathering.code = GEMMD_OK;
    gathering.moves.count = 0;
    gathering.error = cudaEventRecord(slot->begun, slot->stream);
    const uint32_t count = gather_in(&gathering, group, works, memory);
    if (goes_well(&gathering))
        gathering.error = cudaEventRecord(slot->copied_in, slot->stream);
    if (!goes_well(&gathering))
        return gathering_failed(&gathering, "the copy to the device");

    const enum gemmd_error code =
        works->task.kernel->run_group(slot->context, group->members, count);
    if (code != GEMMD_OK)
        return (struct cuda_failure){works->task.kernel->name, code, cudaGetLastError()};

    gathering.error = cudaEventRecord(slot->computed, slot->stream);
    gather_out(&gathering, group, works, memory);
    if (goes_well(&gathering))
        gathering.error = cudaEventRecord(slot->ended, slot->stream);
    if (!goes_well(&gathering))
        return gathering_failed(&gathering, "the copy from the device");
    return (struct cuda_failure){.call = NULL};
}

/* Enqueues the check of a result that was warmed up, behind the result in the range. */
static enum gemmd_error warm_check(const struct cuda_slot *slot, const struct task *task,
                                   const void *there, uint64_t offset, unsigned char *range,
                                   uint64_t bytes)
{
    const struct operation *operation = task->operation;
    uint64_t check_bytes;
    if (operation->check == NULL || !operation->can_check(&task->problem) ||
        !operation->is_small(&task->problem) ||
        !operation->check_bytes(&task->problem, &check_bytes) ||
        !size_align(offset, DEVICE_LAYOUT_ALIGNMENT, &offset) ||
        !size_add(check_bytes, offset, &check_bytes) || check_bytes > bytes)
        return GEMMD_OK;
    return operation->check(slot->context, there, 0, range + offset);
}

static struct cuda_failure warm_one(const struct cuda_slot *slot, const struct gemm_device *device,
                                    struct task *task, unsigned char *range, uint64_t bytes)
{
    static const struct device_span nowhere;
    struct device_layout layout;
    union operation_problem there;
    if (operation_select(task->operation, device, "auto", &task->problem, &task->kernel, NULL) !=
            GEMMD_OK ||
        !device_layout_make(task, NULL, nowhere, &layout) || layout.total_bytes > bytes)
        return (struct cuda_failure){.call = NULL};
    device_layout_problem(&layout, range, &there);
    /* Memory that is not cleared holds NaN and infinities, with which kernels take a slow path:
     * products of f32 on tensor cores compute such elements again, one by one, and 2048x2048x2048
     * then takes 50 ms instead of 0.2. */
    const cudaError_t error = cudaMemsetAsync(range, 0, layout.total_bytes, slot->stream);
    if (error != cudaSuccess)
        return (struct cuda_failure){"cudaMemsetAsync", cuda_error_code((int)error), error};
    const struct operation_member member = {&there, device_layout_workspace(&layout, range)};
    enum gemmd_error code = operation_run(task->kernel, slot->context, &there, member.workspace);
    if (code == GEMMD_OK && (operation_can_group(task->operation, task->kernel, &task->problem) ||
                             operation_is_small(task->operation, task->kernel, &task->problem)))
        code = task->kernel->run_group(slot->context, &member, 1);
    if (code == GEMMD_OK)
        code = warm_check(slot, task, &there, layout.total_bytes, range, bytes);
    if (code == GEMMD_OK)
        return (struct cuda_failure){.call = NULL};
    return (struct cuda_failure){task->kernel->name, code, cudaGetLastError()};
}

struct cuda_failure cuda_task_group_warm(const struct cuda_slot *slot,
                                         const struct gemm_device *device, unsigned char *range,
                                         uint64_t bytes)
{
    struct cuda_failure failure = {.call = NULL};
    for (uint32_t i = 0; i < OPERATION_COUNT; i++) {
        struct task task = {.operation = operation_table[i]};
        for (uint32_t number = 0;
             failure.call == NULL && operation_table[i]->warm(number, &task.problem); number++)
            failure = warm_one(slot, device, &task, range, bytes);
    }
    return failure;
}
