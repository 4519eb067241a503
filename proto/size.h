/*
 * size.h - multiplies and adds sizes with checks for overflow.
 *
 * Every size from a request or a file, and every size that is computed from such a size
 * (dimensions, strides, totals, workspaces, grid dimensions), is computed with these functions.
 * Each function that returns a bool returns false, and leaves `*out` unchanged, if the result does
 * not fit. Pure functions, any thread.
 */
#ifndef PROTO_SIZE_H
#define PROTO_SIZE_H

#include <gemmd/dtypes.h>
#include <stdbool.h>
#include <stdint.h>

/* Computes a * b. */
bool size_mul(uint64_t a, uint64_t b, uint64_t *out);
/* Computes a + b. */
bool size_add(uint64_t a, uint64_t b, uint64_t *out);
/* Rounds `value` up to a multiple of `alignment`, which is a power of two. */
bool size_align(uint64_t value, uint64_t alignment, uint64_t *out);
/* Returns the number of blocks of size `block` that cover `value`; `block` is not 0. */
static inline uint64_t size_blocks(uint64_t value, uint64_t block)
{
    return value / block + (value % block != 0);
}
/* Computes the product of the `count` dimensions in `dims`. The product is 1 if `count` is 0. */
bool size_product(const uint64_t *dims, uint32_t count, uint64_t *out);
/* Computes the size, in bytes, of a contiguous tensor with the shape `dims`, `rank` dimensions. The
 * size also has to fit in an int64_t, because offsets are signed in BLAS interfaces. */
bool size_tensor_bytes(enum gemmd_dtype dtype, const uint64_t *dims, uint32_t rank, uint64_t *out);
/* Converts `value` to an int32_t, for a CUDA grid or a BLAS dimension. Returns false if `value`
 * exceeds INT32_MAX. */
bool size_to_i32(uint64_t value, int32_t *out);

#endif
