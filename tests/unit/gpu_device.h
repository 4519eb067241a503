/*
 * gpu_device.h - a device on the first GPU, for the tests of device_cuda*.c, which have one thread.
 * What goes wrong fails the test.
 */
#ifndef GPU_DEVICE_H
#define GPU_DEVICE_H

#include "server/device/device.h"

enum {
    STREAMS = 3,   /* of the device */
    SLOT = 1 << 20 /* of tensor memory, for one operand */
};

/* The caller's, for device_close. */
struct device *open_gpu(void);
/* Pinned memory, the caller's, for device_host_free. */
unsigned char *take_host(uint64_t bytes);

/* Waits until some work is done. */
struct work *wait_for_one(struct device *device);
/* Hands one in and waits for it; there is no other. */
void run(struct device *device, struct work *work);
/* Moves a matrix without gaps to tensor memory, where its rows are `leading` elements apart, or
 * from there to `host`. */
void move(struct device *device, enum gemmd_dtype dtype, unsigned char *host, unsigned char *there,
          uint64_t rows, uint64_t columns, uint64_t leading, bool in);

#endif
