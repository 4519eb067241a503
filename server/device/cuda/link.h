/*
 * link.h - how fast a GPU copies from the memory of another one.
 */
#ifndef SERVER_DEVICE_CUDA_LINK_H
#define SERVER_DEVICE_CUDA_LINK_H

#include "server/device/cuda/cuda_device.h"

/* Times copies of up to 64 MiB from the memory of `other`, and lowers base.info.link_bytes to the
 * speed of the fastest of them, or sets it if it is not known. Takes a millisecond or less over
 * NVLink, and a few through the host. Without a time, because a call failed or one of the devices
 * has too little memory, the figure stays as it is. The current device is `device`, and no work is
 * in flight on either. */
void cuda_link_measure(struct cuda_device *device, const struct cuda_device *other);

#endif
