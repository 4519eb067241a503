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

#include <stdbool.h>
#include <stdint.h>

#include "proto/dtype.h"

/* Computes a * b. */
static inline bool size_mul(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return false;
    *out = product;
    return true;
}
/* Computes a + b. */
static inline bool size_add(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return false;
    *out = sum;
    return true;
}
/* Rounds `value` up to a multiple of `alignment`, which is a power of two. */
static inline bool size_align(uint64_t value, uint64_t alignment, uint64_t *out)
{
    uint64_t raised;
    if (!size_add(value, alignment - 1, &raised))
        return false;
    *out = raised & ~(alignment - 1);
    return true;
}
/* Returns the number of blocks of size `block` that cover `value`; `block` is not 0. */
static inline uint64_t size_blocks(uint64_t value, uint64_t block)
{
    return value / block + (value % block != 0);
}
/* Computes the product of the `count` dimensions in `dims`. The product is 1 if `count` is 0. */
static inline bool size_product(const uint64_t *dims, uint32_t count, uint64_t *out)
{
    uint64_t product = 1;
    for (uint32_t i = 0; i < count; i++)
        if (__builtin_mul_overflow(product, dims[i], &product))
            return false;
    *out = product;
    return true;
}
/* Computes the size, in bytes, of a contiguous tensor with the shape `dims`, `rank` dimensions. The
 * size also has to fit in an int64_t, because offsets are signed in BLAS interfaces. */
static inline bool size_tensor_bytes(enum gemmd_dtype dtype, const uint64_t *dims, uint32_t rank,
                                     uint64_t *out)
{
    uint64_t elements, bytes;
    if (!size_product(dims, rank, &elements) ||
        __builtin_mul_overflow(elements, dtype_size(dtype), &bytes) || bytes > INT64_MAX)
        return false;
    *out = bytes;
    return true;
}
/* Converts `value` to an int32_t, for a CUDA grid or a BLAS dimension. Returns false if `value`
 * exceeds INT32_MAX. */
static inline bool size_to_i32(uint64_t value, int32_t *out)
{
    if (value > INT32_MAX)
        return false;
    *out = (int32_t)value;
    return true;
}

#endif
