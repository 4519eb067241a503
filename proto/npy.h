/*
 * npy.h - NumPy's .npy format (NEP 1), versions 1.0, 2.0 and 3.0.
 *
 * The readers make a tensor that is a view onto the caller's bytes. The readers copy no data,
 * allocate no memory, and parse the header's Python literal without evaluating the literal. A
 * reader returns GEMMD_ERR_UNSUPPORTED for an array of a type that gemmd does not offer (pickled
 * objects, structured types, big-endian data), and GEMMD_ERR_MALFORMED for bytes that are not a
 * .npy array. A failing reader leaves `tensor` as it was and fills in `fault`, which may be NULL.
 * All functions may be called from any thread.
 */
#ifndef PROTO_NPY_H
#define PROTO_NPY_H

#include <stdint.h>

#include "proto/body_front.h"
#include "proto/error.h"
#include "proto/tensor.h"

enum {
    NPY_HEADER_LIMIT = 64 * 1024, /* longest dict that a reader takes, in bytes */
    NPY_HEADER_MAX = 256          /* size in bytes of npy_header's buffer; a multiple of 64 */
};

/* The array before the next one of a body: its name in messages (NULL: there is none), and the
 * offset of its data. */
struct npy_before {
    const char *title;
    uint64_t data_at;
};
/* How many bytes before `at` an .npy array begins within the data from `data_at` to `at`, which
 * then are too short; at most 4096. 0: none begins there. */
uint64_t npy_overlap(const struct body_front *front, uint64_t data_at, uint64_t at);

/* Reads the array at the start of `bytes`, of which `length` bytes are given. `*consumed` becomes
 * the number of bytes that the array takes, header included; the rest of `bytes` is not read.
 * NumPy has no name for bf16 and f8_e4m3. An array of "V2" is always read as bf16, and an array of
 * "V1" as f8_e4m3. `carrier` permits one more type: GEMMD_BF16 permits "<u2", read as bf16;
 * GEMMD_F8_E4M3 permits "|u1", read as f8_e4m3; any other value, such as GEMMD_DTYPE_COUNT, permits
 * no further type. */
enum gemmd_error npy_decode(const void *bytes, uint64_t length, enum gemmd_dtype carrier,
                            struct tensor *tensor, uint64_t *consumed, struct fault *fault);
/* As npy_decode, for the array at offset `*at` of a body of which only the front may have been
 * received (body_front.h). The array's header must have been received, but not the array's data:
 * tensor->data points to the location of the data in the body's memory. `*at` becomes the offset of
 * the end of the array. GEMMD_ERR_CONFLICT if the header has not been received completely;
 * front->wanted is then the number of bytes of the body that the next call needs. */
enum gemmd_error npy_decode_front(struct body_front *front, uint64_t *at, enum gemmd_dtype carrier,
                                  struct tensor *tensor, struct fault *fault);
/* As npy_decode, for a caller that has only the first `length` bytes of a file (a pipe). The first
 * bytes must hold the array's header, but not the array's data. tensor->data is NULL, and
 * `*header_bytes` becomes the length of the header. GEMMD_ERR_CONFLICT if the header is longer than
 * `length`; `*header_bytes` is then the number of bytes that the next call needs. */
enum gemmd_error npy_decode_header(const void *bytes, uint64_t length, enum gemmd_dtype carrier,
                                   struct tensor *tensor, uint64_t *header_bytes,
                                   struct fault *fault);
/* Writes the header of a .npy file (version 1.0) whose data are the bytes of `tensor`. tensor->data
 * is not read. Returns the length of the header in bytes, a multiple of 64. */
uint32_t npy_header(const struct tensor *tensor, char out[NPY_HEADER_MAX]);

#endif
