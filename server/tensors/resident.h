/*
 * resident.h - the properties of a resident tensor, for whoever has reserved or acquired it from
 * the store (tensor_store.h).
 *
 * The tensor is in use until it is released, so that its properties and its memory stay. Pointers
 * that the functions return are borrowed until then. Any thread, without a lock.
 */
#ifndef SERVER_TENSORS_RESIDENT_H
#define SERVER_TENSORS_RESIDENT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/packed.h"
#include "proto/tensor.h"
#include "server/tensors/tensor_hash.h"

struct model_stats;
struct resident; /* a tensor in the store */

const char *resident_name(const struct resident *resident);
bool resident_evictable(const struct resident *resident);
/* Type, shape and number of bytes; `data` is NULL. */
const struct tensor *resident_tensor(const struct resident *resident);
/* Type, shape and number of bytes of the tensor's scales, which lie contiguous in the tensor's
 * memory; rank 0: the tensor has no scales. */
const struct tensor *resident_scale(const struct resident *resident);
/* The file that packed weights came from, without data. NULL: the tensor is no packed weights. If
 * it is, resident_tensor is the arrangement of the weights, as bytes of i8. */
const struct packed_file *resident_packed(const struct resident *resident);
/* The address of the first scale. */
void *resident_scale_memory(const struct resident *resident);
/* The number of the device's memory in which the tensor lies. */
uint32_t resident_device(const struct resident *resident);
/* The address of the tensor's first row. */
void *resident_memory(const struct resident *resident);
uint64_t resident_rows(const struct resident *resident);    /* of all the tensor's matrices */
uint64_t resident_leading(const struct resident *resident); /* leading dimension, in elements */
uint64_t resident_memory_bytes(const struct resident *resident); /* bytes of memory it takes */
/* Statistics of the requests to the tensor as a model. */
struct model_stats *resident_stats(struct resident *resident);
/* The tensor's entity tag. NULL: the tag is not known, since the host has not seen the bytes of a
 * result that stayed on the device. */
const char *resident_etag(const struct resident *resident);

/* Whether a device has the tensor, or a complete copy of the tensor. */
bool resident_is_on(const struct resident *resident, uint32_t device);
/* Whether a request is copying the tensor to a device, so that another request should not copy the
 * tensor to that device too. */
bool resident_is_arriving(const struct resident *resident, uint32_t device);

#endif
