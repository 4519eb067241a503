/*
 * copy.h - copies to and from an NVIDIA GPU, as calls on streams.
 *
 * All early copies (device_copy.h) go one after another through one CUDA stream of their own, and
 * an event marks the end of each copy stream. Bodies arrive more slowly than the bus can move them,
 * so that the stream is nearly always empty, and a body waits only for pieces that were received
 * before its own. Copies that are left when a work is submitted, and copies of results, go through
 * the work's stream.
 *
 * Called by the thread that called device_enter, with the device set.
 */
#ifndef SERVER_DEVICE_CUDA_COPY_H
#define SERVER_DEVICE_CUDA_COPY_H

#include <cuda_runtime_api.h>

#include "server/device/device_ops.h"

/* The CUDA stream of early copies. An event for each copy stream follows its last copy. */
struct cuda_early {
    cudaStream_t stream;
    cudaEvent_t ended[DEVICE_COPY_STREAMS]; /* [copy stream] */
};

/* After a failure too, cuda_early_close closes what was opened. */
cudaError_t cuda_early_open(struct cuda_early *early, int priority);
void cuda_early_close(struct cuda_early *early);

/* Copies rows of bytes, to or from the device as their addresses say. */
cudaError_t cuda_copy_rows(cudaStream_t stream, const struct work_copy *copy);

/* Copies a piece of an operand to device memory. Rows that have to be further apart are copied as
 * they are, in one copy at the full speed of the bus, and are then moved apart by a kernel, at the
 * speed of the device's memory. tests/gpu/rows_in.c measures this against copying row by row and
 * against a kernel that reads host memory. */
enum gemmd_error cuda_copy_piece(cudaStream_t stream, const struct copy_in_piece *piece);

/* Copies the operands of a work, or the parts of them, that were not copied early, and makes
 * `stream` wait for the early copies. `all` is the plan of the complete work (copy_in_plan). */
enum gemmd_error cuda_copy_in_rest(const struct cuda_early *early, cudaStream_t stream,
                                   const struct work *work, struct copy_in *all);
/* Copies operands in tensor memory to the work's range without gaps between their rows, where the
 * kernel wants none. `layout` and `range` are the work's. */
enum gemmd_error cuda_pack(cudaStream_t stream, const struct task *task,
                           const struct device_layout *layout, unsigned char *range);
/* Copies the results to their final locations, unless they were computed there, and then makes the
 * copies that the work asks for. */
cudaError_t cuda_copy_out(cudaStream_t stream, const struct work *work,
                          const struct device_layout *layout, unsigned char *range);

#endif
