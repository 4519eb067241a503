/*
 * device_stack.h - rows of many works stacked on one resident B (kernels/stacked.h): which works,
 * how many rows, in what memory.
 *
 * A stack needs a workspace on the device that grows with its rows. Every stream that runs stacks
 * has one of fixed size, taken when the device is opened, so that a work that can be stacked
 * reserves no memory of its own and a stack never lacks any. A work that can be stacked always runs
 * as one, be it alone: what its bytes are is then settled by one path. Pure functions, any thread,
 * unless they say otherwise.
 */
#ifndef SERVER_DEVICE_DEVICE_STACK_H
#define SERVER_DEVICE_DEVICE_STACK_H

#include <stdint.h>

#include "kernels/stacked.h"
#include "server/device/device_layout.h"
#include "server/device/work.h"

/* Of a stack. On an H100, 256 rows of bf16 on 4096 x 4096 take 116 us, so that nobody waits long
 * for company. */
enum { DEVICE_STACK_ROWS = 512 };

/* The workspace of each stream that runs stacks: 0 without tensor memory, since no B lasts then. */
uint64_t device_stack_bytes(uint64_t memory_bytes, uint64_t tensor_bytes);

/* How many rows at most the stacks of such a problem may have in a workspace of `stack_bytes`; 0:
 * it cannot be stacked. The same for all that can share a stack. The problem's B is looked at for
 * lying in `tensors`, and bias for being NULL: one that came with a request is no other's. */
uint32_t device_stack_rows(const struct gemm_problem *problem, const struct gemm_kernel *kernel,
                           struct device_span tensors, uint64_t stack_bytes);

/* Computes a chain of works of one stack, DEVICE_STACK_ROWS rows at most, in `workspace`; CUDA:
 * enqueues it. By the thread that uses the context. Errors are gemm_stacked's. */
enum gemmd_error device_stack_run(struct gemm_context *context, const struct work *works,
                                  void *workspace);

#endif
