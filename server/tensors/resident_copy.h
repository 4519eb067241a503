/*
 * resident_copy.h - a tensor's bytes on their way into the device's memory and out of it, for a
 * work to carry. Pure.
 */
#ifndef SERVER_TENSORS_RESIDENT_COPY_H
#define SERVER_TENSORS_RESIDENT_COPY_H

#include "server/device/work.h"
#include "server/tensors/tensor_store.h"

/* `host` is in pinned memory: the bytes one after another, as they travel. */
struct work_copy resident_copy_in(const struct resident *resident, const void *host);
struct work_copy resident_copy_out(const struct resident *resident, void *host);
/* `host` has the device's layout: resident_rows rows, resident_leading elements apart. */
struct work_copy resident_copy_as_is(const struct resident *resident, void *host);

#endif
