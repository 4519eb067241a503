/*
 * dtype.h - the properties of the element types that <gemmd/dtypes.h> lists.
 *
 * The strings that these functions return are static. Pure functions, any thread.
 */
#ifndef PROTO_DTYPE_H
#define PROTO_DTYPE_H

#include <gemmd/dtypes.h>
#include <stdbool.h>
#include <stdint.h>

/* A type in a bit set of types: DTYPE_BIT(F32). */
#define DTYPE_BIT(NAME) (1u << GEMMD_##NAME)

uint32_t dtype_size(enum gemmd_dtype dtype);    /* bytes of one element */
const char *dtype_name(enum gemmd_dtype dtype); /* "bf16" */
/* Returns the type's name in a safetensors header ("BF16"). */
const char *dtype_safetensors(enum gemmd_dtype dtype);
/* Returns the type's `descr` in the header of an .npy file ("<f4"). */
const char *dtype_npy(enum gemmd_dtype dtype);
/* Find the type that has the name `name`, and return false if no type has this name. The names are
 * those of dtype_name and of dtype_safetensors. `*dtype` is unchanged if the result is false. */
bool dtype_from_name(const char *name, enum gemmd_dtype *dtype);
bool dtype_from_safetensors(const char *name, enum gemmd_dtype *dtype);

/* Returns the type in which a product of operands of type `dtype` is summed: f64, f32 or i32. */
enum gemmd_dtype dtype_accumulator(enum gemmd_dtype dtype);
/* Returns the type of the result of a product if the request has no parameter `out`. */
enum gemmd_dtype dtype_default_out(enum gemmd_dtype dtype);
/* Returns whether a product of operands of type `dtype` can have a result of type `out`. */
bool dtype_offers_out(enum gemmd_dtype dtype, enum gemmd_dtype out);

/* Returns the name of the type that another program means by `name`, such as "f32" for "float32",
 * "torch.float", "<f4" and "FP32", or the name that is nearest to `name`. NULL if no name is near.
 * The returned string is static. */
const char *dtype_suggest(const char *name);

#endif
