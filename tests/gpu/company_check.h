/*
 * company_check.h - a row's bytes depend on the row, on B and on nothing else.
 *
 * What "auto" chooses for a device computes many rows at once; then the same rows alone, in stacks
 * of other heights, as one problem of a batch, and a hundred times over on several streams that run
 * at the same time, with and without what can follow a sum. All bytes must be the same. Kernels
 * that keep that promise are those that the device's own architecture has; cuBLAS's do not.
 */
#ifndef TESTS_GPU_COMPANY_CHECK_H
#define TESTS_GPU_COMPANY_CHECK_H

#include "kernels/gemm.h"

/* Prints a line for each type. */
void company_check(const struct gemm_device *device, uint64_t *passed, uint64_t *failed);

#endif
