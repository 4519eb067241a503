/*
 * device_ops.h - what a backend (or a test's simulated device) is to device.c.
 *
 * device.c keeps the books: which slot has which work, in what order, and the latch that says that
 * the device is lost. A slot is a stream; works of a slot never overlap. The last slot is the
 * probe's. Functions are called from the thread that device_enter named, unless they say otherwise.
 */
#ifndef SERVER_DEVICE_DEVICE_OPS_H
#define SERVER_DEVICE_DEVICE_OPS_H

#include <stdatomic.h>

#include "server/device/device.h"

struct device_ops {
    /* Makes this thread able to use the device. NULL: nothing to do. */
    void (*enter)(struct device *device);
    /* Starts `work` on `slot`, which is free. A failure is recorded in the work's status and
     * fault; the slot is polled all the same. */
    void (*submit)(struct device *device, uint32_t slot, struct work *work);
    /* Whether `work` has left `slot` (its memory is not used any more); fills in status and
     * times. */
    bool (*poll)(struct device *device, uint32_t slot, struct work *work);
    /* Releases all that the backend owns, the struct itself included. */
    void (*close)(struct device *device);
    bool computes_in_submit;
    /* Device memory of a problem; see device_work_bytes. */
    bool (*work_bytes)(const struct gemm_problem *problem, const struct gemm_kernel *kernel,
                       uint64_t *out);
};

/* A backend's struct begins with this one. */
struct device {
    const struct device_ops *ops;
    struct device_info info;
    struct arena *arena; /* owned by the backend */

    uint32_t slots; /* for requests; slot number `slots` is the probe's */
    struct work *running[DEVICE_STREAMS_MAX + 1]; /* [slot], NULL where free */
    uint8_t order[DEVICE_STREAMS_MAX + 1];        /* busy slots, oldest first */
    uint32_t busy;
    atomic_uint in_flight; /* without the probe */

    char reason[256]; /* written once, before `lost` is set */
    atomic_bool lost;
};

/* Clears the books; `streams` is cut to 1 ... DEVICE_STREAMS_MAX. */
void device_init(struct device *device, const struct device_ops *ops, uint32_t streams);
/* Latches that nothing can run any more; the first reason stays. */
void device_set_lost(struct device *device, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The backends. device_cuda_... of a build without CUDA find no device. */
enum gemmd_error device_cpu_open(const struct device_options *options, struct device **device,
                                 struct fault *fault);
void *device_cpu_host_alloc(uint64_t bytes, struct fault *fault);
void device_cpu_host_free(void *memory, uint64_t bytes);

enum gemmd_error device_cuda_count(uint32_t *count, struct fault *fault);
enum gemmd_error device_cuda_open(const struct device_options *options, struct device **device,
                                  struct fault *fault);
void *device_cuda_host_alloc(uint64_t bytes, struct fault *fault);
void device_cuda_host_free(void *memory);

#endif
