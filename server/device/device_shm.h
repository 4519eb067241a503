/*
 * device_shm.h - lets a device use the memory that clients share with the daemon.
 *
 * Host memory has to be pinned before a GPU can read and write it; a CPU uses host memory as it is.
 * Memory of the GPU comes as a handle, which the process that allocated the memory made
 * (cudaIpcGetMemHandle). All functions may take long, and are called from one thread, which is not
 * the dispatch thread.
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

/* Makes the calling thread the one that calls the functions below. */
void device_shm_enter(struct device *device);

/* Makes mapped host memory usable in works. `*pinned`: device_shm_unpin has to be called before the
 * memory is unmapped. GEMMD_ERR_OUT_OF_MEMORY: the memory cannot be pinned. */
enum gemmd_error device_shm_pin(struct device *device, void *memory, uint64_t bytes, bool *pinned,
                                struct fault *fault);
void device_shm_unpin(struct device *device, void *memory);

/* Opens memory of device number `index` by its handle. GEMMD_ERR_UNSUPPORTED: this device has no
 * memory that can be shared. GEMMD_ERR_MALFORMED: the handle opens no memory of this device, or
 * less than `bytes`. */
enum gemmd_error device_shm_open(struct device *device, const struct device_shm_handle *handle,
                                 int32_t index, uint64_t bytes, void **memory, struct fault *fault);
void device_shm_close(struct device *device, void *memory);

/* The CUDA backend's part, which a build without CUDA never calls. */
enum gemmd_error device_cuda_pin(void *memory, uint64_t bytes, struct fault *fault);
void device_cuda_unpin(void *memory);
enum gemmd_error device_cuda_shm_open(const struct device_shm_handle *handle, uint64_t bytes,
                                      void **memory, struct fault *fault);
void device_cuda_shm_close(void *memory);

#endif
