/*
 * resident_copy.h - copies of a resident tensor's bytes to or from the device's tensor memory, for
 * a work to make. Pure functions, any thread.
 */
#ifndef SERVER_TENSORS_RESIDENT_COPY_H
#define SERVER_TENSORS_RESIDENT_COPY_H

#include "server/device/work.h"
#include "server/tensors/tensor_store.h"

/* The copy of a tensor to the device, and from the device. `host` is pinned memory, in which the
 * bytes follow one another without gaps, as in requests and answers. */
struct work_copy resident_copy_in(const struct resident *resident, const void *host);
struct work_copy resident_copy_out(const struct resident *resident, void *host);
/* The copy of `count` rows from row number `first` on from the device. A row is an element of the
 * first dimension; both numbers are within it. */
struct work_copy resident_copy_rows_out(const struct resident *resident, uint64_t first,
                                        uint64_t count, void *host);
/* The copy of a tensor with the layout that it has on its device: resident_rows rows,
 * resident_leading elements from the start of one row to the start of the next. `to` is pinned
 * memory, or memory of another device. */
struct work_copy resident_copy_as_is(const struct resident *resident, void *to);

/* The copies of a tensor and its scales, one or two, in `copies`: to the device, from the device
 * (without the scales if `scale` is NULL), and between the memories of two devices. Returns their
 * number. */
enum { RESIDENT_COPIES = 2 };
uint32_t resident_copies_in(const struct resident *resident, const void *tensor, const void *scale,
                            struct work_copy copies[RESIDENT_COPIES]);
uint32_t resident_copies_out(const struct resident *resident, void *tensor, void *scale,
                             struct work_copy copies[RESIDENT_COPIES]);
uint32_t resident_copies_between(const struct resident *resident, const struct resident *copy,
                                 struct work_copy copies[RESIDENT_COPIES]);

#endif
