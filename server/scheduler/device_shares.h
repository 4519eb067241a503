/*
 * device_shares.h - divides one computation over several devices, so that all devices are done at
 * the same time. Pure function, any thread.
 */
#ifndef SERVER_SCHEDULER_DEVICE_SHARES_H
#define SERVER_SCHEDULER_DEVICE_SHARES_H

#include <stdint.h>

/* A computation of equal units. A device computes one unit after another. */
struct device_shares {
    uint32_t count;           /* of devices */
    const uint64_t *ready_ns; /* when each can begin; UINT64_MAX: the device takes no part */
    uint64_t units;
    double unit_ns; /* how long a device takes for a unit; more than 0 */
};

/* Divides the units: shares[i] is the number of units of device i; 0 if the other devices are done
 * before device i can begin. The shares add up to all units. Returns the time at which the last
 * device is done; UINT64_MAX: no device takes part, and every share is 0. */
uint64_t device_shares_divide(const struct device_shares *all, uint64_t shares[]);
/* The time at which the computation is done if the device that is ready first takes all of it;
 * UINT64_MAX: no device takes part. */
uint64_t device_shares_alone(const struct device_shares *all);

#endif
