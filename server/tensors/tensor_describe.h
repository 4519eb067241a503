/*
 * tensor_describe.h - tensors as JSON, as PUT, store= and GET /tensors answer. Any thread.
 */
#ifndef SERVER_TENSORS_TENSOR_DESCRIBE_H
#define SERVER_TENSORS_TENSOR_DESCRIBE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/tensors/tensor_store.h"

/* {"name", "dtype", "shape", "bytes", "etag" (null while not known), "evictable", "memory_bytes"},
 * of a tensor in use. A new string, for the caller to free; NULL: out of memory. */
char *tensor_describe(const struct resident *resident);
/* {"tensors": [...], "next"}: the name to go on after, or null. Likewise. */
char *tensor_describe_page(struct resident *const page[], uint32_t count, bool more);

#endif
