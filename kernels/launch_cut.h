/*
 * launch_cut.h - cuts a long computation into several launches.
 *
 * A device looks between launches whether the result is still wanted. A long product is therefore
 * cut into launches of about launch_flops floating-point operations: by problems of the batch, or
 * by rows of C in all problems of a batch. A problem of another operation is cut by the kernel's
 * tiles. The bits of the result are those of one launch, because neither the batch nor the rows of
 * a product, nor the number of tiles, decide the order of a sum.
 *
 * Pure functions, any thread. The kernels of the CPU are not cut: they ask
 * kernels/cpu/cpu_context.h whether to stop.
 */
#ifndef KERNELS_LAUNCH_CUT_H
#define KERNELS_LAUNCH_CUT_H

#include <stdint.h>

#include "kernels/operations.h"

/* Cuts a problem, which the task's kernel takes. */
void launch_cut_make(const struct task *task, struct gemm_context *context, struct launch_cut *cut);
/* Enqueues launch number `index`. Errors are those of operation_kernel.run. */
enum gemmd_error launch_cut_run(const struct launch_cut *cut, const struct task *task,
                                struct gemm_context *context, uint64_t index, void *workspace);

#endif
