/*
 * devices_open.h - opens several devices at the same time, because opening a GPU takes seconds,
 * most of them in the driver.
 */
#ifndef SERVER_DEVICE_DEVICES_OPEN_H
#define SERVER_DEVICE_DEVICES_OPEN_H

#include <stdint.h>

#include "server/device/device.h"

struct device_opening {
    struct device_options options;
    /* The results of device_open for these options. */
    struct device *device; /* NULL unless `code` is GEMMD_OK */
    enum gemmd_error code;
    struct fault fault;
};

/* Calls device_open for each of the openings: for the first on the calling thread, for each other
 * on a thread of its own. Returns when all have ended. */
void devices_open(struct device_opening openings[], uint32_t count);

#endif
