/*
 * host.h - describes the GPUs of this host, and reports errors of opening one.
 *
 * host.c also has device_cuda_count and the allocation of pinned host memory (device_ops.h). Any
 * thread. No device has to be open.
 */
#ifndef SERVER_DEVICE_CUDA_HOST_H
#define SERVER_DEVICE_CUDA_HOST_H

#include <cuda_runtime_api.h>

#include "proto/error.h"
#include "server/device/device.h"

/* Sets `info` for the device with this number: name, UUID, memory, architecture and driver. */
enum gemmd_error cuda_describe(struct device_info *info, int32_t index, struct fault *fault);

/* Records that `call` failed while a device was being opened; clears CUDA's last error. */
enum gemmd_error cuda_open_failed(struct fault *fault, const char *call, cudaError_t error);

#endif
