/*
 * dtype.h - what each entry of <gemmd/dtypes.h> says. Pure functions, any thread.
 */
#ifndef PROTO_DTYPE_H
#define PROTO_DTYPE_H

#include <gemmd/dtypes.h>
#include <stdbool.h>
#include <stdint.h>

uint32_t dtype_size(enum gemmd_dtype dtype);    /* bytes an element */
const char *dtype_name(enum gemmd_dtype dtype); /* "bf16" */
const char *dtype_safetensors(enum gemmd_dtype dtype);
const char *dtype_npy(enum gemmd_dtype dtype);
bool dtype_from_name(const char *name, enum gemmd_dtype *dtype);
bool dtype_from_safetensors(const char *name, enum gemmd_dtype *dtype);

/* The type that a product of `dtype` operands is summed in: f64, f32 or i32. */
enum gemmd_dtype dtype_accumulator(enum gemmd_dtype dtype);
/* The result's type when `out` is not given. */
enum gemmd_dtype dtype_default_out(enum gemmd_dtype dtype);
/* Whether API.md's table offers `out` for operands of `dtype`. */
bool dtype_offers_out(enum gemmd_dtype dtype, enum gemmd_dtype out);

#endif
