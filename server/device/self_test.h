/* self_test.h - runs every kernel of a device once before it serves. */
#ifndef SERVER_DEVICE_SELF_TEST_H
#define SERVER_DEVICE_SELF_TEST_H

#include "proto/error.h"
#include "server/device/device.h"

/* Products and attentions with known answers through every kernel, pair of types, transposition
 * and mask that the device's backend takes. That loads all code that the first requests would
 * otherwise wait for. A kernel that is wrong or fails is left out (device_left_out), and so are
 * those of the list `without` ("a,b", or NULL). GEMMD_ERR_DEVICE_LOST if nothing is left for what
 * was offered, or the device is lost, as it is if an answer does not come within some seconds;
 * GEMMD_ERR_UNSUPPORTED if `without` names what is not there. Called by device_open, with nothing
 * in flight. */
enum gemmd_error self_test(struct device *device, const char *without, struct fault *fault);

#endif
