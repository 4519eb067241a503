/*
 * copy.h - copies to and from an NVIDIA GPU, as calls on streams.
 *
 * Copies that begin early (device_copy.h) go one after another through a stream of their own:
 * bodies arrive more slowly than the bus takes them, so that the stream is nearly always empty, and
 * a body never waits for more than the pieces that have landed before its own. Copies that are left
 * when a work is submitted, and those of results, go through the work's stream.
 *
 * By the thread that device_enter named, with the device set.
 */
#ifndef SERVER_DEVICE_CUDA_COPY_H
#define SERVER_DEVICE_CUDA_COPY_H

#include <cuda_runtime_api.h>

#include "server/device/device_ops.h"

/* The stream of early copies; an event a lane ends what was started on it. */
struct cuda_early {
    cudaStream_t stream;
    cudaEvent_t ended[DEVICE_COPY_STREAMS];
};

/* What was opened is closed by cuda_early_close, also after a failure. */
cudaError_t cuda_early_open(struct cuda_early *early, int priority);
void cuda_early_close(struct cuda_early *early);

/* Rows of bytes, whichever way the addresses say. */
cudaError_t cuda_copy_rows(cudaStream_t stream, const struct work_copy *copy);

/* A piece of an operand into device memory. Rows that have to be further apart come as they are, in
 * one copy at the bus's full speed, and are moved apart by a kernel, at the speed of the device's
 * memory: tests/gpu/rows_in.c measures this against copying them row by row and against a kernel
 * that reads the host's memory. This function alone knows how. */
enum gemmd_error cuda_copy_piece(cudaStream_t stream, const struct copy_in_piece *piece);

/* What of a work's operands is not on the device yet, after what is there or on its way. `all` is
 * the plan of the complete work (copy_in_plan). */
enum gemmd_error cuda_copy_in_rest(const struct cuda_early *early, cudaStream_t stream,
                                   const struct work *work, struct copy_in *all);
/* Matrices of a product in tensor memory whose kernel wants no gaps between their rows. `layout`
 * and `range` are the work's. */
enum gemmd_error cuda_close_up(cudaStream_t stream, const struct gemm_problem *problem,
                               const struct device_layout *layout, struct device_span tensors,
                               unsigned char *range);
/* The result `c` to where it belongs, unless it was computed there, and then the copies that the
 * work asks for. */
cudaError_t cuda_copy_out(cudaStream_t stream, const struct work *work,
                          const struct device_layout *layout, struct device_span tensors,
                          const void *c);

#endif
