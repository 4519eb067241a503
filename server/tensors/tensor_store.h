/*
 * tensor_store.h - the store of resident tensors: their names, their memory, and their users.
 *
 * A name belongs to the tenant whose tensor has the name. No other tenant can use, replace or
 * remove that tensor. Storing a tensor takes three steps: its memory is reserved, the caller fills
 * in the memory, and the tensor is published under its name. A tensor that is replaced, removed or
 * evicted loses its name at once. Its memory is freed after its last user has released it.
 *
 * The memory is the tensor memory of the devices, each divided up by an arena: a tensor lies on one
 * device, takes a multiple of ARENA_ALIGNMENT bytes, and limits count those bytes. If there is no
 * room on a device, tensors of the same tenant on that device that are marked evictable are
 * evicted, least recently used first. Tensors in use are not evicted, since their memory would not
 * become free.
 *
 * The rows of tensors with two or more dimensions have the leading dimension that the device's fast
 * kernels want (gemm_leading), unless the caller that stores a tensor asks for contiguous rows.
 * Thread-safe: one mutex, held for one search or for the names of one page, so that other threads
 * wait for a time that grows only with the logarithm of the number of tensors. The properties of a
 * tensor in the store are in resident.h.
 */
#ifndef SERVER_TENSORS_TENSOR_STORE_H
#define SERVER_TENSORS_TENSOR_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/gemm.h"
#include "proto/packed.h"
#include "proto/tensor.h"
#include "server/device/device_layout.h"
#include "server/tensors/resident.h"
#include "server/tensors/tensor_condition.h"

struct tensor_store;

enum {
    TENSOR_STORE_DEVICES_MAX = 16,
    TENSOR_ANY_DEVICE = -1, /* the device with the most free memory, or another that has room */
};

/* Creates a store over the memories of `count` devices, 1 ... TENSOR_STORE_DEVICES_MAX, which are
 * borrowed (0 bytes: no tensor fits). A tenant's tensors take `tenant_bytes` at most; 0: tenants
 * have no limit of their own. NULL: out of memory. */
struct tensor_store *tensor_store_create(const struct device_span memories[], uint32_t count,
                                         const struct gemm_device *device, uint64_t tenant_bytes);
/* Changes the bytes that a tenant's tensors may take; 0: tenants have no limit of their own.
 * Tensors beyond a lowered limit stay, and further ones are refused until evicting idle tensors is
 * enough to be within the limit. */
void tensor_store_set_tenant_bytes(struct tensor_store *store, uint64_t tenant_bytes);
/* No tensor may be in use. NULL is allowed. */
void tensor_store_destroy(struct tensor_store *store);

/* A tensor to be stored; borrowed for the call. The name has 1 ... GEMM_TENSOR_NAME_MAX bytes. */
struct tensor_offer {
    const char *name, *tenant;
    bool evictable;
    const struct tensor *tensor; /* type and shape, with at least one dimension */
    const struct tensor *scale;  /* of its scales; NULL or of rank 0: it has none */
    /* The file of packed weights whose arrangement the tensor is: bytes, as a tensor of i8 of one
     * dimension. NULL: the tensor is no packed weights. */
    const struct packed_file *packed;
    bool contiguous; /* no gaps between the rows, even if fast kernels want gaps */
    int32_t device;  /* the number of a memory, or TENSOR_ANY_DEVICE */
};

/* Reserves memory for a tensor, which has no name yet and is in use by the caller.
 * GEMMD_ERR_FORBIDDEN: the name belongs to another tenant. GEMMD_ERR_NO_ROOM: there is no room; the
 * fault says how many bytes are needed and free. GEMMD_ERR_OUT_OF_MEMORY. */
enum gemmd_error tensor_store_reserve(struct tensor_store *store, const struct tensor_offer *offer,
                                      struct resident **resident, struct fault *fault);
/* Publishes a tensor, whose bytes are in its memory, under its name, if the condition holds. A
 * tensor that had the name loses it; `*replaced` says whether there was one. The tensor stays in
 * use by the caller. GEMMD_ERR_PRECONDITION: the condition is false. GEMMD_ERR_FORBIDDEN: the name
 * belongs to another tenant by now. GEMMD_ERR_DEVICE_LOST: tensor_store_lose_device has given up
 * the tensor's device. */
enum gemmd_error tensor_store_publish(struct tensor_store *store, struct resident *resident,
                                      const struct tensor_condition *condition, bool *replaced,
                                      struct fault *fault);
/* Acquires the tensor of a name, which is then in use by the caller. GEMMD_ERR_NOT_FOUND: no tensor
 * has that name. GEMMD_ERR_FORBIDDEN: the tensor belongs to another tenant. */
enum gemmd_error tensor_store_acquire(struct tensor_store *store, const char *name,
                                      const char *tenant, struct resident **resident,
                                      struct fault *fault);
/* Ends a use of a tensor. NULL is allowed. */
void tensor_store_release(struct tensor_store *store, struct resident *resident);
/* Removes the tensor of a name, if the condition holds. GEMMD_ERR_NOT_FOUND and GEMMD_ERR_FORBIDDEN
 * as for tensor_store_acquire; GEMMD_ERR_PRECONDITION: the condition is false. */
enum gemmd_error tensor_store_remove(struct tensor_store *store, const char *name,
                                     const char *tenant, const struct tensor_condition *condition,
                                     struct fault *fault);
/* Evaluates a condition for the tensor that has the name now, with the errors of
 * tensor_store_publish. */
enum gemmd_error tensor_store_require(struct tensor_store *store, const char *name,
                                      const char *tenant, const struct tensor_condition *condition,
                                      struct fault *fault);

/* Gives up the memory of a device that is lost: no further tensor is put there. The device's
 * tensors lose their names. A tensor with a copy on another device keeps its name, and the copy
 * takes the place of the tensor. */
void tensor_store_lose_device(struct tensor_store *store, uint32_t device);

enum { TENSOR_STORE_PAGE_MAX = 1000 };
/* Acquires the tenant's tensors whose names come after `after` ("": all), in the order of their
 * names, `capacity` at most, which is TENSOR_STORE_PAGE_MAX at most. `*more`: there are further
 * tensors. Returns how many were acquired. */
uint32_t tensor_store_page(struct tensor_store *store, const char *tenant, const char *after,
                           struct resident *page[], uint32_t capacity, bool *more);

/* Sets the entity tag of a tensor that has none yet. */
void tensor_store_set_etag(struct tensor_store *store, struct resident *resident,
                           const char etag[TENSOR_ETAG_SIZE]);

/* Sets the factor of packed weights, which is known when all of their file has arrived, before the
 * name is given to the tensor. */
void tensor_store_set_factor(struct resident *resident, float factor);

/* Counts an operand that a request named, and whether the store had the tensor. */
void tensor_store_count_use(struct tensor_store *store, bool found);

/* For metrics. */
struct tensor_store_state {
    uint64_t used_bytes, capacity_bytes;
    uint64_t count;     /* of tensors that have a name */
    uint64_t sequences; /* that have a name (sequence.h) */
    uint64_t hits, misses, evictions;
};
/* Returns the bytes of memory that a tenant's tensors take. */
uint64_t tensor_store_used_by(struct tensor_store *store, const char *tenant);
struct tensor_store_state tensor_store_state(struct tensor_store *store);
/* The used bytes and the capacity of one device's memory; the other fields are 0. */
struct tensor_store_state tensor_store_state_on(struct tensor_store *store, uint32_t device);

/* --- Copies of tensors on further devices (tensor_copies.c). A copy has no name, does not count
 * towards limits of tenants, and is evicted before any tensor is evicted. A copy is used and
 * released like a tensor. */

/* Acquires the copy of a tensor in use on a device. NULL: the device has no complete copy. */
struct resident *tensor_store_acquire_copy(struct tensor_store *store, struct resident *resident,
                                           uint32_t device);
/* Reserves memory on a device for a copy of a tensor in use; the caller makes the copy. Until
 * tensor_store_end_copy nobody else can use the copy. GEMMD_ERR_OUT_OF_MEMORY: there is no room on
 * that device. */
enum gemmd_error tensor_store_reserve_copy(struct tensor_store *store, struct resident *resident,
                                           uint32_t device, struct resident **copy,
                                           struct fault *fault);
/* Releases a copy that was reserved. A complete copy is kept for further requests, unless the
 * tensor has lost its name or the device has another copy of the tensor. NULL is allowed. */
void tensor_store_end_copy(struct tensor_store *store, struct resident *resident,
                           struct resident *copy, bool complete);

#endif
