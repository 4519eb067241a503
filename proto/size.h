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

bool size_mul(uint64_t a, uint64_t b, uint64_t *out);
bool size_add(uint64_t a, uint64_t b, uint64_t *out);
/* Rounds up to a multiple of `alignment`, a power of two. */
bool size_align(uint64_t value, uint64_t alignment, uint64_t *out);
/* Returns the number of blocks of size `block` that cover `value`; `block` is not 0. */
uint64_t size_blocks(uint64_t value, uint64_t block);
/* Computes the product of `count` dimensions; 1 if `count` is 0. */
bool size_product(const uint64_t *dims, uint32_t count, uint64_t *out);
/* Bytes of a contiguous tensor. The result also fits in int64_t (offsets are signed in
 * BLAS interfaces). */
bool size_tensor_bytes(enum gemmd_dtype dtype, const uint64_t *dims, uint32_t rank, uint64_t *out);
/* Converts to an int32_t (CUDA grids, BLAS dimensions). False if `value` exceeds INT32_MAX. */
bool size_to_i32(uint64_t value, int32_t *out);

#endif
