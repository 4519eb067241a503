/*
 * call_device.h - which device computes a call, and the time with which the device is charged for
 * the call until it is done (executor.h).
 *
 * The functions are called by the thread that uses the call (compute_call.h).
 */
#ifndef SERVER_API_COMPUTE_CALL_DEVICE_H
#define SERVER_API_COMPUTE_CALL_DEVICE_H

#include <stdint.h>

struct compute_call;
struct executor;
struct services;

/* Chooses the device that computes the call. If the client shares memory of a device, that device
 * is chosen. Otherwise the device is chosen that will be done first with its work and with copying
 * the resident operands that it lacks. Bit i of `full`: device i had no memory for the call, and
 * must not be chosen. */
struct executor *call_device_choose(const struct compute_call *call, struct services *services,
                                    uint32_t full);
/* Charges the call's executor with the estimated time of `flops` operations and `bytes` copied
 * bytes, in place of an earlier estimate. With a single device there is nothing to choose, and
 * nothing is charged. */
void call_device_charge(struct compute_call *call, const struct services *services, double flops,
                        uint64_t bytes);
/* Takes the call's time off its executor's charge. */
void call_device_discharge(struct compute_call *call);

#endif
