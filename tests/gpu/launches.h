/*
 * launches.h - a problem on the device that is computed in several launches, as the daemon computes
 * a long one (kernels/launch_cut.h).
 */
#ifndef TESTS_GPU_LAUNCHES_H
#define TESTS_GPU_LAUNCHES_H

#include "kernels/operations.h"

/* Runs the task in about `launches` launches, if its kernel can cut the problem into so many, and
 * otherwise in as many as the kernel asks for. Errors are those of operation_kernel.run. */
enum gemmd_error launches_run(const struct task *task, struct gemm_context *context,
                              uint32_t launches, void *workspace);

#endif
