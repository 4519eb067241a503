/*
 * host.h - what this host's GPUs are, and what CUDA says when one does not open.
 *
 * device_cuda_host.c also counts them and pins host memory (device_ops.h). Any thread; none of it
 * needs a device that is open.
 */
#ifndef SERVER_DEVICE_CUDA_HOST_H
#define SERVER_DEVICE_CUDA_HOST_H

#include <cuda_runtime_api.h>

#include "proto/error.h"
#include "server/device/device.h"

/* Fills in `info` of the device with this number: name, UUID, memory, architecture, driver. */
enum gemmd_error cuda_describe(struct device_info *info, int32_t index, struct fault *fault);

/* Records that `call` failed while a device was being opened; clears CUDA's last error. */
enum gemmd_error cuda_open_failed(struct fault *fault, const char *call, cudaError_t error);

#endif
