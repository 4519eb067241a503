/*
 * shared_launch_check.h - checks that the bytes of a result's row depend on the row of A and on
 * B alone, and not on the rows that share the launch.
 *
 * The kernel that "auto" chooses for a device computes many rows in one launch. The kernel then
 * computes the same rows by themselves, in stacks of other heights, as a batch of two problems, and
 * a hundred times on several streams that run at the same time, each with and without bias and
 * activation. All bytes must be the same. Only kernels that are compiled for the device's
 * architecture are checked: the kernels of cuBLAS do not have this property.
 */
#ifndef TESTS_GPU_SHARED_LAUNCH_CHECK_H
#define TESTS_GPU_SHARED_LAUNCH_CHECK_H

#include "kernels/operations.h"

/* Checks all types, and prints a line for each. Adds the number of checks that passed and failed to
 * `*passed` and `*failed`. */
void shared_launch_check(const struct gemm_device *device, uint64_t *passed, uint64_t *failed);

#endif
