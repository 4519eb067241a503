/*
 * device_stack.h - stacks: the rows of several works that share a resident operand, run as one
 * problem (operation->stack; kernels/stacked.h).
 *
 * A stack needs a workspace on the device that grows with its rows. Every stream that runs stacks
 * has a workspace of fixed size, allocated when the device is opened. A work that can be stacked
 * therefore reserves no device memory, and a stack never lacks memory. A work that can be stacked
 * always runs as a stack, even alone, so that its result has the same bytes however many works are
 * in the stack. Pure functions, any thread, unless their comment says otherwise.
 */
#ifndef SERVER_DEVICE_DEVICE_STACK_H
#define SERVER_DEVICE_DEVICE_STACK_H

#include <stdint.h>

#include "kernels/stacked.h"
#include "server/device/device_layout.h"
#include "server/device/work.h"

/* Bytes of the workspace of each stream that runs stacks. 0 without tensor memory: no B is resident
 * then. */
uint64_t device_stack_bytes(uint64_t memory_bytes, uint64_t tensor_bytes);

/* Computes a launch list of works of one stack, of OPERATION_STACK_ROWS rows at most, in
 * `workspace`. If one of the works is to be verified, all rows are checked together, with one
 * random vector, and `residuals` gets the residual of each row [OPERATION_STACK_ROWS]; on CUDA
 * `residuals` is pinned. CUDA: enqueues the computation. Called by the thread that uses the
 * context. Errors are those of operation->stack->run. */
enum gemmd_error device_stack_run(struct gemm_context *context, const struct work *works,
                                  double *residuals, void *workspace);

/* Sets the residual of each work that is to be verified, of a stack that has ended, to the largest
 * residual of the work's rows. */
void device_stack_judge(struct work *works, const double *residuals);

#endif
