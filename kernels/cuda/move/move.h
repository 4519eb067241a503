/*
 * move.h - device kernels that copy and convert matrices, as functions that C can call.
 *
 * Each function enqueues on the stream and returns at once. The result is GEMMD_OK, or the error of
 * the launch (cuda_error_code). Indices have 64 bits, and a kernel loops over sizes beyond a grid's
 * limits.
 */
#ifndef KERNELS_CUDA_MOVE_MOVE_H
#define KERNELS_CUDA_MOVE_MOVE_H

#include <cuda_runtime_api.h>

#include "kernels/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An operand packed along k, the layout that tensor cores require of some types. The destination
 * has `padded_rows` lines of `padded_k` elements, a multiple of 16 bytes; the problems of a batch
 * follow one another. Elements outside the operand's `rows` by `k` are zeros. The source's lines
 * are `ld` elements apart and lie along k, or across k if along_k is false. Elements have 1 or 4
 * bytes; lines along k only 1. */
struct pack_job {
    const void *from;
    void *to;
    uint64_t rows, k, ld, stride, batch;
    uint64_t padded_rows, padded_k;
    uint32_t element_bytes;
    bool along_k;
};
enum gemmd_error pack_launch(cudaStream_t stream, const struct pack_job *job);

/* f8_e4m3 converted to f16, exactly: `lines` lines of `length` elements, as stored. In the
 * destination lines are `ld_to` elements apart, a multiple of 8, and end in zeros; the problems of
 * a batch follow one another. */
struct widen_job {
    const void *from;
    void *to;
    uint64_t lines, length, ld, stride, batch;
    uint64_t ld_to;
};
enum gemmd_error widen_launch(cudaStream_t stream, const struct widen_job *job);

/* `batch` matrices of `rows` by `width` elements, copied to another leading dimension and stride
 * (elements). Elements have 1, 2 or 4 bytes, and pointers are aligned to them. Memory between the
 * rows is neither read nor written. */
struct realign_job {
    const void *from;
    void *to;
    uint64_t rows, width, batch;
    uint64_t ld_from, stride_from, ld_to, stride_to;
    uint32_t element_bytes;
};
enum gemmd_error realign_launch(cudaStream_t stream, const struct realign_job *job);

/* Copies blocks of rows between any memory that the device can access. */
enum gemmd_error move_rows_launch(cudaStream_t stream, const struct gemm_moves *moves);

/* Copies spans of bytes, of any alignment, between any memory that the device can access; count >
 * 0. */
enum { SPAN_MOVES = 160 }; /* the most that fit in a launch's parameters */
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

/* Decomposes each f32 matrix of the batch into three matrices of bf16, `stride_to` elements apart
 * (parts.cuh). The sum of an element's three parts is 2^16 times the element, exactly, if its
 * magnitude is less than 2^111. `ld_to` and `stride_to` are multiples of 8 elements; a row's
 * elements up to the next multiple of 8 are zeros. element_bytes is ignored. */
enum gemmd_error parts_launch(cudaStream_t stream, const struct realign_job *job);

#ifdef __cplusplus
}
#endif
#endif
