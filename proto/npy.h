/*
 * npy.h - NumPy's .npy format (NEP 1), versions 1.0, 2.0 and 3.0.
 *
 * Reading makes a view onto the bytes; nothing is copied, nothing is evaluated. Types that are not
 * offered (pickled objects, structured types, big-endian data ...) are GEMMD_ERR_UNSUPPORTED,
 * what is no .npy array is GEMMD_ERR_MALFORMED.
 */
#ifndef PROTO_NPY_H
#define PROTO_NPY_H

#include <stdint.h>

#include "proto/body_front.h"
#include "proto/error.h"
#include "proto/tensor.h"

enum {
    NPY_HEADER_LIMIT = 64 * 1024, /* longest dict that is read */
    NPY_HEADER_MAX = 256          /* longest header that is written; a multiple of 64 bytes */
};

/* Reads one array from the front of `bytes`. `*consumed` is where the next one starts.
 * `carrier` says what a two-byte or one-byte type without a NumPy name means: "|V2" (or
 * "<u2") is bf16 and "|V1" (or "|u1") is f8_e4m3 when `carrier` says so; pass
 * GEMMD_DTYPE_COUNT to take "V2" as bf16 and "V1" as f8_e4m3 only. */
enum gemmd_error npy_decode(const void *bytes, uint64_t length, enum gemmd_dtype carrier,
                            struct tensor *tensor, uint64_t *consumed, struct fault *fault);
/* As npy_decode, of an array that begins at `*at` in a body that may still be on its way: its data
 * need not be there. `*at` becomes where the next one starts. */
enum gemmd_error npy_decode_front(struct body_front *front, uint64_t *at, enum gemmd_dtype carrier,
                                  struct tensor *tensor, struct fault *fault);
/* As npy_decode, for a reader that has the front of the file only (a pipe): needs the header
 * (up to *header_bytes) but not the data. tensor->data is NULL. GEMMD_ERR_CONFLICT: more bytes are
 * needed than `length`; *header_bytes then says how many. */
enum gemmd_error npy_decode_header(const void *bytes, uint64_t length, enum gemmd_dtype carrier,
                                   struct tensor *tensor, uint64_t *header_bytes,
                                   struct fault *fault);
/* Writes the header that precedes tensor's bytes; returns its length (a multiple of 64). */
uint32_t npy_header(const struct tensor *tensor, char out[NPY_HEADER_MAX]);

#endif
