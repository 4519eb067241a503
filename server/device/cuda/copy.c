#include "server/device/cuda/copy.h"

#include "kernels/cuda/move/move.h"
#include "kernels/cuda_error.h"

cudaError_t cuda_early_open(struct cuda_early *early, int priority)
{
    cudaError_t error =
        cudaStreamCreateWithPriority(&early->stream, cudaStreamNonBlocking, priority);
    for (uint32_t i = 0; i < DEVICE_COPY_STREAMS && error == cudaSuccess; i++)
        error = cudaEventCreateWithFlags(&early->ended[i], cudaEventDisableTiming);
    return error;
}

void cuda_early_close(struct cuda_early *early)
{
    for (uint32_t i = 0; i < DEVICE_COPY_STREAMS; i++)
        if (early->ended[i] != NULL)
            (void)cudaEventDestroy(early->ended[i]);
    if (early->stream != NULL)
        (void)cudaStreamDestroy(early->stream);
}

cudaError_t cuda_copy_rows(cudaStream_t stream, const struct work_copy *copy)
{
    if (copy->from_pitch == copy->row_bytes && copy->to_pitch == copy->row_bytes)
        return cudaMemcpyAsync(copy->to, copy->from, copy->rows * copy->row_bytes,
                               cudaMemcpyDefault, stream);
    return cudaMemcpy2DAsync(copy->to, copy->to_pitch, copy->from, copy->from_pitch,
                             copy->row_bytes, copy->rows, cudaMemcpyDefault, stream);
}

enum gemmd_error cuda_copy_piece(cudaStream_t stream, const struct copy_in_piece *piece)
{
    const struct copy_in_operand *o = piece->operand;
    const bool apart = o->row_bytes > 0;
    unsigned char *to = (apart ? o->staging : o->to) + piece->first;
    const cudaError_t error =
        cudaMemcpyAsync(to, o->from + piece->first, piece->bytes, cudaMemcpyDefault, stream);
    if (error != cudaSuccess)
        return cuda_error_code((int)error);
    if (!apart)
        return GEMMD_OK;
    const struct realign_job job = {
        .from = to,
        .to = o->to + piece->first / o->row_bytes * o->to_pitch,
        .rows = piece->bytes / o->row_bytes,
        .width = o->row_bytes / o->element_bytes,
        .batch = 1,
        .ld_from = o->row_bytes / o->element_bytes,
        .ld_to = o->to_pitch / o->element_bytes,
        .element_bytes = o->element_bytes,
    };
    return realign_launch(stream, &job);
}

/* The copy of part number `i` between tensor memory, where its rows may have gaps, and the work's
 * range, where they have none. */
static struct work_copy packed_rows(const struct device_layout *layout, uint32_t i)
{
    const struct operation_part *part = &layout->list[i];
    return (struct work_copy){.rows = part->rows,
                              .row_bytes = part->row_bytes,
                              .from_pitch = part->row_bytes,
                              .to_pitch = part->row_bytes};
}

/* Whether part number `i` is in tensor memory and is copied to or from the work's range. */
static bool is_packed(const struct device_layout *layout, uint32_t i)
{
    return layout->locations[i].bytes > 0 && (layout->resident & 1u << i) != 0;
}

enum gemmd_error cuda_pack(cudaStream_t stream, const struct task *task,
                           const struct device_layout *layout, unsigned char *range)
{
    cudaError_t error = cudaSuccess;
    for (uint32_t i = 0; i < task->operation->operands && error == cudaSuccess; i++) {
        if (!is_packed(layout, i))
            continue;
        struct work_copy copy = packed_rows(layout, i);
        copy.from = operation_pointer(task->operation, &task->problem, i);
        copy.to = range + layout->locations[i].offset;
        copy.from_pitch = layout->pitches[i];
        error = cuda_copy_rows(stream, &copy);
    }
    return error == cudaSuccess ? GEMMD_OK : cuda_error_code((int)error);
}

enum gemmd_error cuda_copy_in_rest(const struct cuda_early *early, cudaStream_t stream,
                                   const struct work *work, struct copy_in *all)
{
    struct copy_in *copies = work->copy_in != NULL ? work->copy_in : all;
    struct copy_in_piece piece;
    cudaError_t error = cudaSuccess;
    if (copies != all)
        copy_in_settle(copies, all);
    if (copies->copy_stream != COPY_IN_NO_STREAM)
        error = cudaStreamWaitEvent(stream, early->ended[copies->copy_stream], 0);
    enum gemmd_error code = error == cudaSuccess ? GEMMD_OK : cuda_error_code((int)error);
    while (code == GEMMD_OK && copy_in_next(copies, UINT64_MAX, &piece))
        code = cuda_copy_piece(stream, &piece);
    return code;
}

static cudaError_t copy_result_out(cudaStream_t stream, const struct task *task,
                                   const struct device_layout *layout, uint32_t i,
                                   unsigned char *range)
{
    void *to = operation_pointer(task->operation, &task->problem, i);
    const unsigned char *from = range + layout->locations[i].offset;
    if (!is_packed(layout, i))
        return cudaMemcpyAsync(to, from, layout->locations[i].bytes, cudaMemcpyDefault, stream);
    struct work_copy copy = packed_rows(layout, i);
    copy.from = from;
    copy.to = to;
    copy.to_pitch = layout->pitches[i];
    return cuda_copy_rows(stream, &copy);
}

cudaError_t cuda_copy_out(cudaStream_t stream, const struct work *work,
                          const struct device_layout *layout, unsigned char *range)
{
    cudaError_t error = cudaSuccess;
    for (uint32_t i = layout->operation->operands; i < layout->count && error == cudaSuccess; i++)
        if (layout->locations[i].bytes > 0)
            error = copy_result_out(stream, &work->task, layout, i, range);
    for (uint32_t i = 0; i < work->copy_count && error == cudaSuccess; i++)
        error = cuda_copy_rows(stream, &work->copies[i]);
    return error;
}
