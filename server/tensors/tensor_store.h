/*
 * tensor_store.h - the tensors that stay: their names, their memory, and who uses them.
 *
 * A name belongs to the tenant whose tensor has it, and nobody else gets at it. A tensor is made in
 * three steps: its memory is reserved, filled in by whoever made it, and then published under its
 * name. What replaces it, removes it or evicts it takes the name away; the memory stays until its
 * last user has released it.
 *
 * The memory is a span of the device's, divided up by an arena: a tensor takes a multiple of
 * ARENA_ALIGNMENT bytes, and that is what counts. Where there is no room, tensors that are marked
 * evictable make it, the same tenant's only, of which those go first that have not been used for
 * the longest time; not those in use, whose memory would not come back.
 *
 * Rows of tensors of two and more dimensions lie as far apart as the device's fast kernels want
 * (gemm_leading). Thread-safe (one mutex, held for a search or a page's names at most: what others
 * wait for does not grow with the number of tensors, but for its logarithm).
 */
#ifndef SERVER_TENSORS_TENSOR_STORE_H
#define SERVER_TENSORS_TENSOR_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/gemm.h"
#include "proto/tensor.h"
#include "server/device/device_layout.h"
#include "server/tensors/tensor_condition.h"
#include "server/tensors/tensor_hash.h"

struct model_stats;
struct tensor_store;
struct resident; /* a tensor in the store; used by whoever reserved or acquired it */

/* Over `memory` (borrowed; may be of no bytes: nothing fits), of which each tenant may have
 * `tenant_bytes` (0: all). NULL: out of memory. */
struct tensor_store *tensor_store_create(struct device_span memory,
                                         const struct gemm_device *device, uint64_t tenant_bytes);
/* Nobody may use a tensor any more. NULL is allowed. */
void tensor_store_destroy(struct tensor_store *store);

/* What is to be stored; borrowed for the call. The name is 1 ... GEMM_TENSOR_NAME_MAX long. */
struct tensor_offer {
    const char *name, *tenant;
    bool evictable;
    const struct tensor *tensor; /* type and shape, of at least one dimension */
};

/* Memory for a tensor that has no name yet. GEMMD_ERR_FORBIDDEN if the name is another tenant's,
 * GEMMD_ERR_NO_ROOM with the bytes needed and free, GEMMD_ERR_OUT_OF_MEMORY. */
enum gemmd_error tensor_store_reserve(struct tensor_store *store, const struct tensor_offer *offer,
                                      struct resident **resident, struct fault *fault);
/* Gives the name to a tensor whose bytes are there, if the condition still holds; whoever had it
 * loses it. `resident` stays in use by the caller. GEMMD_ERR_PRECONDITION, GEMMD_ERR_FORBIDDEN. */
enum gemmd_error tensor_store_publish(struct tensor_store *store, struct resident *resident,
                                      const struct tensor_condition *condition, bool *replaced,
                                      struct fault *fault);
/* The tensor of that name, for use. GEMMD_ERR_NOT_FOUND, GEMMD_ERR_FORBIDDEN. */
enum gemmd_error tensor_store_acquire(struct tensor_store *store, const char *name,
                                      const char *tenant, struct resident **resident,
                                      struct fault *fault);
/* Ends a use; NULL is allowed. */
void tensor_store_release(struct tensor_store *store, struct resident *resident);
/* Takes the name away. GEMMD_ERR_NOT_FOUND, GEMMD_ERR_FORBIDDEN, GEMMD_ERR_PRECONDITION. */
enum gemmd_error tensor_store_remove(struct tensor_store *store, const char *name,
                                     const char *tenant, const struct tensor_condition *condition,
                                     struct fault *fault);
/* Holds a condition against what has the name now, as tensor_store_publish will. */
enum gemmd_error tensor_store_require(struct tensor_store *store, const char *name,
                                      const char *tenant, const struct tensor_condition *condition,
                                      struct fault *fault);

enum { TENSOR_STORE_PAGE_MAX = 1000 };
/* The tenant's tensors whose names come after `after` ("" for all), by name, at most `capacity` of
 * them (which is at most TENSOR_STORE_PAGE_MAX); all for use. `*more`: whether there are others. */
uint32_t tensor_store_page(struct tensor_store *store, const char *tenant, const char *after,
                           struct resident *page[], uint32_t capacity, bool *more);

/* Of a tensor in use. */
const char *resident_name(const struct resident *resident);
bool resident_evictable(const struct resident *resident);
/* Its type, shape and bytes; `data` is NULL. */
const struct tensor *resident_tensor(const struct resident *resident);
/* Where it lies. */
void *resident_memory(const struct resident *resident);
uint64_t resident_rows(const struct resident *resident);         /* of all its matrices */
uint64_t resident_leading(const struct resident *resident);      /* elements from row to row */
uint64_t resident_memory_bytes(const struct resident *resident); /* that it takes */
/* What became of the requests to it as a model; for anyone to count in. */
struct model_stats *resident_stats(struct resident *resident);
/* Its tag, or NULL while nobody has seen its bytes: a result that stayed on the device. */
const char *resident_etag(const struct resident *resident);
void tensor_store_set_etag(struct tensor_store *store, struct resident *resident,
                           const char etag[TENSOR_ETAG_SIZE]);

/* A product found its operand here, or did not. */
void tensor_store_count_use(struct tensor_store *store, bool found);

struct tensor_store_state {
    uint64_t used_bytes, capacity_bytes;
    uint64_t count; /* of names */
    uint64_t hits, misses, evictions;
};
uint64_t tensor_store_used_by(struct tensor_store *store, const char *tenant);
struct tensor_store_state tensor_store_state(struct tensor_store *store);

#endif
