/*
 * device_shm.h - memory of other processes that a device works on.
 *
 * Host memory has to be pinned before a GPU can read and write it where it lies; a CPU takes it as
 * it is. Memory of the GPU's own comes as a handle that the process which allocated it made
 * (cudaIpcGetMemHandle). All may take long and are called from one thread, other than the one that
 * submits.
 */
#ifndef SERVER_DEVICE_DEVICE_SHM_H
#define SERVER_DEVICE_DEVICE_SHM_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"

struct device;

enum { DEVICE_SHM_HANDLE_BYTES = 64 }; /* of a cudaIpcMemHandle_t */
struct device_shm_handle {
    unsigned char bytes[DEVICE_SHM_HANDLE_BYTES];
};

/* The calling thread is the one that calls the others. */
void device_shm_enter(struct device *device);

/* Makes mapped host memory usable in works. `*pinned` says whether it has to be undone by
 * device_shm_unpin. GEMMD_ERR_OUT_OF_MEMORY. */
enum gemmd_error device_shm_pin(struct device *device, void *memory, uint64_t bytes, bool *pinned,
                                struct fault *fault);
void device_shm_unpin(struct device *device, void *memory);

/* Opens memory of the device's. GEMMD_ERR_UNSUPPORTED: this device has none to share.
 * GEMMD_ERR_MALFORMED: the handle opens nothing here, or less than `bytes`. */
enum gemmd_error device_shm_open(struct device *device, const struct device_shm_handle *handle,
                                 int32_t index, uint64_t bytes, void **memory, struct fault *fault);
void device_shm_close(struct device *device, void *memory);

/* The CUDA backend's; of a build without it they are never called. */
enum gemmd_error device_cuda_pin(void *memory, uint64_t bytes, struct fault *fault);
void device_cuda_unpin(void *memory);
enum gemmd_error device_cuda_shm_open(const struct device_shm_handle *handle, uint64_t bytes,
                                      void **memory, struct fault *fault);
void device_cuda_shm_close(void *memory);

#endif
