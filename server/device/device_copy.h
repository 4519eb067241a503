/*
 * device_copy.h - copies to a device that begin before the work that they are for is submitted.
 *
 * Large bodies go to the device while the rest of them is still being received. Each has a lane as
 * long as copies of it may be under way; there are DEVICE_COPY_STREAMS, and a body that gets none
 * is copied when its work runs, like one of which a copy failed. Neither host nor device memory may
 * be given back before device_copied_in says so, or the work has left the device. But for the first
 * two, functions are called by the thread that device_enter named.
 */
#ifndef SERVER_DEVICE_DEVICE_COPY_H
#define SERVER_DEVICE_DEVICE_COPY_H

#include "server/device/copy_in.h"
#include "server/device/device.h"

/* Whether the device copies early at all; one that uses operands where they lie does not. */
bool device_copies_early(const struct device *device);
/* How the operands of a work come in. The problem points already to those that will lie in `body`,
 * and somewhere else for others that there will be; the range of device memory is reserved. False:
 * no copy of this work can begin early. */
bool device_plan_copies(const struct device *device, const struct work *work,
                        struct device_span body, struct copy_in *copies);

/* `landed` bytes of the body are there: starts copying what was not copied yet. Returns how many
 * bytes it started. */
uint64_t device_copy_in(struct device *device, struct copy_in *copies, uint64_t landed);
/* Whether nothing is under way. For copies whose work will not be submitted. */
bool device_copied_in(struct device *device, struct copy_in *copies);
/* Whether nothing is under way for anyone. */
bool device_copies_are_over(struct device *device);
/* Their work has left the device, and its copies with it. */
void device_end_copies(struct device *device, struct copy_in *copies);

#endif
