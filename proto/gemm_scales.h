/*
 * gemm_scales.h - the scales of a product's operands: positive factors of f32, by which quantised
 * numbers are multiplied.
 *
 * All functions are pure, and any thread may call them.
 */
#ifndef PROTO_GEMM_SCALES_H
#define PROTO_GEMM_SCALES_H

#include <gemmd/dtypes.h>
#include <stdbool.h>

#include "proto/error.h"
#include "proto/tensor.h"

/* None; a factor for each row of op(A) and each column of op(B); or a factor for each row of op(A)
 * and GEMM_SCALE_BLOCK steps of k, and for each GEMM_SCALE_BLOCK x GEMM_SCALE_BLOCK elements of
 * op(B). */
enum gemm_scales { GEMM_SCALES_NONE, GEMM_SCALES_ROWCOL, GEMM_SCALES_BLOCK };
enum { GEMM_SCALE_BLOCK = 128 };

/* The values of the parameter `scales`, in the order of the enum, ended by NULL. */
extern const char *const gemm_scales_names[];
/* Returns the value for the scales, such as "rowcol"; a static string. */
const char *gemm_scales_name(enum gemm_scales scales);
/* Returns whether operands of `dtype` and results of `out` are offered with the scales. */
bool gemm_scales_offer(enum gemm_scales scales, enum gemmd_dtype dtype, enum gemmd_dtype out);
/* Returns the type of results for operands of `dtype` with the scales, unless `out` is given. */
enum gemmd_dtype gemm_scales_default_out(enum gemm_scales scales, enum gemmd_dtype dtype);

/* Returns how many blocks cover `extent` elements. */
uint64_t gemm_scale_blocks(uint64_t extent);
/* Returns whether two shapes are the same but for sizes of 1. */
bool gemm_scales_same_shape(const struct tensor *one, const struct tensor *other);
/* Checks the scales that belong to a tensor: their type, and that they have a shape with which some
 * product can use the tensor as A or as B. GEMMD_ERR_UNSUPPORTED if there are no scales for the
 * tensor's type; GEMMD_ERR_MALFORMED for another type or shape. The field of the fault is "scale".
 */
enum gemmd_error gemm_scales_fit(const struct tensor *tensor, const struct tensor *scale,
                                 struct fault *fault);
/* Checks that all scales are positive and finite. `name` is the name of the scales in the message
 * and the field of the fault. GEMMD_ERR_MALFORMED, with the index of the first that is not. */
enum gemmd_error gemm_scales_check(const char *name, const struct tensor *scales,
                                   struct fault *fault);

#endif
