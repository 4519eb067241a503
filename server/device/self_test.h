/* self_test.h - runs every kernel of a device once before it serves. */
#ifndef SERVER_DEVICE_SELF_TEST_H
#define SERVER_DEVICE_SELF_TEST_H

#include "proto/error.h"
#include "server/device/device.h"

/* Products and attentions with known answers through every kernel, pair of types, transposition
 * and mask that the device's backend takes. That loads all code that the first requests would
 * otherwise wait for. GEMMD_ERR_DEVICE_LOST if an answer is wrong or does not come within some
 * seconds. Called by device_open, with nothing in flight. */
enum gemmd_error self_test(struct device *device, struct fault *fault);

#endif
