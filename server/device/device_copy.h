/*
 * device_copy.h - early copies to a device: copies that start before the work that they are for is
 * submitted.
 *
 * The operands of large bodies are copied to the device while the rest of the body is still being
 * received. Each body has a copy stream for as long as copies of the body may be in flight. There
 * are DEVICE_COPY_STREAMS copy streams. A body that gets none, or one of whose copies fails, is
 * copied when its work runs. Neither the host memory nor the device memory of a copy may be freed
 * before device_copied_in returns true or the work has left the device. device_copies_early and
 * device_plan_copies may be called from any thread, the other functions from the thread that called
 * device_enter.
 */
#ifndef SERVER_DEVICE_DEVICE_COPY_H
#define SERVER_DEVICE_DEVICE_COPY_H

#include "server/device/copy_in.h"
#include "server/device/device.h"

/* Whether the device makes early copies. A device that uses operands where they are makes none. */
bool device_copies_early(const struct device *device);
/* Plans how the operands of a work are copied in. The work's range of device memory is reserved.
 * The problem points into `body` for operands that will be in the body, and outside of `body` for
 * other operands. False: no operand of the work can be copied early. */
bool device_plan_copies(const struct device *device, const struct work *work,
                        struct device_span body, struct copy_in *copies);

/* Starts copying the bytes that have been received and not been copied yet. `received` bytes of the
 * body have been received. Returns the number of bytes whose copies were started. */
uint64_t device_copy_in(struct device *device, struct copy_in *copies, uint64_t received);
/* Whether no copy of a body is in flight. For copies whose work will not be submitted. */
bool device_copied_in(struct device *device, struct copy_in *copies);
/* Whether no early copy of any body is in flight. */
bool device_copies_are_over(struct device *device);
/* Ends the copies of a work that has left the device. */
void device_end_copies(struct device *device, struct copy_in *copies);

#endif
