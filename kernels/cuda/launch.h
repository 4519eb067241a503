/*
 * launch.h - the kernels that are written in CUDA C++, as functions that C can call.
 *
 * Each enqueues on the stream and returns at once: GEMMD_OK, or what cuda_error_code says of the
 * launch. All indices are of 64 bits; sizes beyond a grid's limits are looped over.
 */
#ifndef KERNELS_CUDA_LAUNCH_H
#define KERNELS_CUDA_LAUNCH_H

#include <cuda_runtime_api.h>

#include "kernels/backend.h"
#include "kernels/gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The whole product, epilogue included; f64, f32, f16 and bf16. */
enum gemmd_error naive_launch(cudaStream_t stream, const struct gemm_problem *problem);
enum gemmd_error tiled_launch(cudaStream_t stream, const struct gemm_problem *problem);

/* The same for operands of f32. */
enum gemmd_error tiled_padded_launch(cudaStream_t stream, const struct gemm_problem *problem);
enum gemmd_error double_buffered_launch(cudaStream_t stream, const struct gemm_problem *problem);

/* Sums of type dtype_accumulator(problem->dtype), [m, n] with rows `ld` and problems `stride`
 * elements apart, to C. They may lie in C itself, if C has that type, with C's own ld and stride.
 */
enum gemmd_error epilogue_launch(cudaStream_t stream, const struct gemm_problem *problem,
                                 const void *sums, uint64_t ld, uint64_t stride);

/* One operand as tensor cores take types that have to lie along k: `rows` lines along k, filled up
 * with zeros to `padded_rows` lines of `padded_k` elements (a multiple of 16 bytes), problems one
 * after another. `from` has lines along k (elements of 1 byte only), or across it if !along_k, `ld`
 * elements apart. Elements have 1 or 4 bytes. */
struct pack_job {
    const void *from;
    void *to;
    uint64_t rows, k, ld, stride, batch;
    uint64_t padded_rows, padded_k;
    uint32_t element_bytes;
    bool along_k;
};
enum gemmd_error pack_launch(cudaStream_t stream, const struct pack_job *job);

/* f8_e4m3 to f16, exactly: `lines` of `length`, as stored; `ld_to` elements (a multiple of 8)
 * apart, problems one after another. What fills a line up is zeros. */
struct widen_job {
    const void *from;
    void *to;
    uint64_t lines, length, ld, stride, batch;
    uint64_t ld_to;
};
enum gemmd_error widen_launch(cudaStream_t stream, const struct widen_job *job);

/* A matrix of `rows` by `width`, `batch` times, between places of different leading dimensions and
 * strides (elements). Pointers are aligned to the elements, of 1, 2 or 4 bytes; nothing between the
 * rows is read or written. */
struct realign_job {
    const void *from;
    void *to;
    uint64_t rows, width, batch;
    uint64_t ld_from, stride_from, ld_to, stride_to;
    uint32_t element_bytes;
};
enum gemmd_error realign_launch(cudaStream_t stream, const struct realign_job *job);

/* Blocks of rows between any places that the device reaches. */
enum gemmd_error move_rows_launch(cudaStream_t stream, const struct gemm_moves *moves);

/* Spans of bytes between any places that the device reaches, aligned or not; count > 0. */
enum { SPAN_MOVES = 160 }; /* so many fit in the parameters of a launch */
struct span_move {
    const void *from;
    void *to;
    uint64_t bytes;
};
struct span_moves {
    uint32_t count;
    struct span_move list[SPAN_MOVES];
};
enum gemmd_error move_spans_launch(cudaStream_t stream, const struct span_moves *moves);

/* A matrix of f32 into three of bf16, `stride_to` apart, for each of the batch: together 2^16 times
 * the number, exactly, if it is less than 2^111. `ld_to` and `stride_to` are multiples of 8
 * elements; what fills a row up to the next multiple of 8 is zeros. element_bytes is not looked at.
 */
enum gemmd_error split_launch(cudaStream_t stream, const struct realign_job *job);

#ifdef __cplusplus
}
#endif
#endif
