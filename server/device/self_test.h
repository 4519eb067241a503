/*
 * self_test.h - runs every kernel of a device once, before the daemon serves.
 */
#ifndef SERVER_DEVICE_SELF_TEST_H
#define SERVER_DEVICE_SELF_TEST_H

#include "proto/error.h"
#include "server/device/device.h"

/* Runs products and attentions with known answers through every kernel, pair of types,
 * transposition and mask that the device's backend takes. The test also loads all code that the
 * first requests would otherwise wait for. A kernel that fails or computes a wrong answer is left
 * out (device_left_out), and so are the kernels that the list `without` names ("a,b", or NULL).
 * GEMMD_ERR_DEVICE_LOST: no kernel is left for a problem that the daemon offers, or the device is
 * lost, as it is when an answer takes longer than 20 seconds. GEMMD_ERR_UNSUPPORTED: `without`
 * names a kernel that the device does not have. Called by device_open, with no work in flight. */
enum gemmd_error self_test(struct device *device, const char *without, struct fault *fault);

#endif
