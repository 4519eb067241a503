/*
 * dtype.h - the properties of the element types that <gemmd/dtypes.h> lists. Pure functions, any
 * thread.
 */
#ifndef PROTO_DTYPE_H
#define PROTO_DTYPE_H

#include <gemmd/dtypes.h>
#include <stdbool.h>
#include <stdint.h>

uint32_t dtype_size(enum gemmd_dtype dtype);    /* bytes of one element */
const char *dtype_name(enum gemmd_dtype dtype); /* "bf16" */
const char *dtype_safetensors(enum gemmd_dtype dtype);
const char *dtype_npy(enum gemmd_dtype dtype);
bool dtype_from_name(const char *name, enum gemmd_dtype *dtype);
bool dtype_from_safetensors(const char *name, enum gemmd_dtype *dtype);

/* Returns the type in which a product of operands of type `dtype` is summed: f64, f32 or i32. */
enum gemmd_dtype dtype_accumulator(enum gemmd_dtype dtype);
/* Returns the type of a product's result if the parameter `out` is not given. */
enum gemmd_dtype dtype_default_out(enum gemmd_dtype dtype);
/* Returns whether a product of operands of type `dtype` can have a result of type `out`. */
bool dtype_offers_out(enum gemmd_dtype dtype, enum gemmd_dtype out);

#endif
