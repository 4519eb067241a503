#include "server/device/cuda/copy.h"

#include "kernels/cuda/move/move.h"
#include "kernels/cuda_error.h"
#include "proto/dtype.h"

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

static struct work_copy packed_rows(enum gemmd_dtype dtype, uint64_t rows, uint64_t columns,
                                    uint64_t batch)
{
    const uint64_t bytes = columns * dtype_size(dtype);
    return (struct work_copy){
        .rows = rows * batch, .row_bytes = bytes, .from_pitch = bytes, .to_pitch = bytes};
}

/* Copies a matrix in tensor memory, for all problems of a batch, without the gaps between its rows,
 * if the layout has a part for that. */
static cudaError_t pack_matrix(cudaStream_t stream, struct device_part part,
                               struct device_span tensors, const void *from, uint64_t leading_bytes,
                               struct work_copy copy, unsigned char *range)
{
    if (part.bytes == 0 || !device_span_has(tensors, from))
        return cudaSuccess;
    copy.from = from;
    copy.to = range + part.offset;
    copy.from_pitch = leading_bytes;
    return cuda_copy_rows(stream, &copy);
}

enum gemmd_error cuda_pack_matrices(cudaStream_t stream, const struct gemm_problem *problem,
                                    const struct device_layout *layout, struct device_span tensors,
                                    unsigned char *range)
{
    const struct gemm_problem *p = problem;
    const uint64_t size = dtype_size(p->dtype);
    cudaError_t error = pack_matrix(
        stream, layout->a, tensors, p->a, p->lda * size,
        packed_rows(p->dtype, p->transa ? p->k : p->m, p->transa ? p->m : p->k, p->batch), range);
    if (error == cudaSuccess)
        error = pack_matrix(
            stream, layout->b, tensors, p->b, p->ldb * size,
            packed_rows(p->dtype, p->transb ? p->n : p->k, p->transb ? p->k : p->n, p->batch),
            range);
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

cudaError_t cuda_copy_out(cudaStream_t stream, const struct work *work,
                          const struct device_layout *layout, struct device_span tensors,
                          const void *c)
{
    const struct gemm_problem *p = &work->problem;
    cudaError_t error = cudaSuccess;
    if (layout->c.bytes > 0 && device_span_has(tensors, p->c)) {
        struct work_copy copy = packed_rows(p->out, p->m, p->n, p->batch);
        copy.from = c;
        copy.to = p->c;
        copy.to_pitch = p->ldc * dtype_size(p->out);
        error = cuda_copy_rows(stream, &copy);
    } else if (layout->c.bytes > 0) {
        error = cudaMemcpyAsync(p->c, c, layout->c.bytes, cudaMemcpyDefault, stream);
    }
    for (uint32_t i = 0; i < work->copy_count && error == cudaSuccess; i++)
        error = cuda_copy_rows(stream, &work->copies[i]);
    return error;
}
