/*
 * tensor_describe.h - descriptions of tensors and sequences in JSON, for the answers of PUT
 * /tensors/NAME, of `store`, of GET /tensors and of /sequences. Any thread.
 */
#ifndef SERVER_TENSORS_TENSOR_DESCRIBE_H
#define SERVER_TENSORS_TENSOR_DESCRIBE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/tensors/tensor_store.h"

/* The description of a tensor in use: {"name", "dtype", "shape", "bytes", "etag" (null: not known
 * yet), "evictable", "memory_bytes"}. Returns a new string, which the caller frees; NULL: out of
 * memory. */
char *tensor_describe(const struct resident *resident);
/* The descriptions of a page of tensors: {"tensors": [...], "next"}. "next" is the name after which
 * the next page begins, or null if `more` is false. Returns a new string, which the caller frees;
 * NULL: out of memory. */
char *tensor_describe_page(struct resident *const page[], uint32_t count, bool more);
/* The same of sequences: {"name", "dtype", "kv_heads", "d", "dv", "layers", "length", "lengths" (of
 * each layer), "etag", "memory_bytes", "devices"}, and {"sequences": [...], "next"}. */
char *sequence_describe(struct tensor_store *store, const struct resident *resident);
char *sequence_describe_page(struct tensor_store *store, struct resident *const page[],
                             uint32_t count, bool more);

#endif
