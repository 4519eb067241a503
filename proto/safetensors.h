/*
 * safetensors.h - the safetensors format: 8 bytes of length, a JSON header, the data.
 *
 * Reading makes views onto the bytes. Refused with a sentence: headers that are too long,
 * too deep or not JSON, offsets that overlap, leave holes, run backwards or past the end,
 * sizes that do not match the shape, duplicate names (all GEMMD_ERR_MALFORMED), types that are not
 * offered (GEMMD_ERR_UNSUPPORTED). "__metadata__" is checked and ignored.
 */
#ifndef PROTO_SAFETENSORS_H
#define PROTO_SAFETENSORS_H

#include <stdint.h>

#include "proto/body_front.h"
#include "proto/error.h"
#include "proto/tensor.h"

enum {
    SAFETENSORS_NAME_MAX = 64,
    SAFETENSORS_HEADER_LIMIT = 64 * 1024, /* longest header that is read */
    SAFETENSORS_HEADER_MAX = 2048         /* longest header that is written */
};

struct safetensors_entry {
    char name[SAFETENSORS_NAME_MAX];
    struct tensor tensor;
};

/* Reads a whole file of at most `capacity` tensors; `*count` says how many there are. They are in
 * the order of their data. Allocates while it parses: GEMMD_ERR_OUT_OF_MEMORY. */
enum gemmd_error safetensors_decode(const void *bytes, uint64_t length,
                                    struct safetensors_entry *entries, uint32_t capacity,
                                    uint32_t *count, struct fault *fault);
/* As safetensors_decode, of a file that may still be on its way: as soon as its header is there. */
enum gemmd_error safetensors_decode_front(struct body_front *front,
                                          struct safetensors_entry *entries, uint32_t capacity,
                                          uint32_t *count, struct fault *fault);
/* Writes length and header for `count` row-major tensors whose bytes follow in this order; returns
 * the length (a multiple of 64, padded with spaces), or 0 if it does not fit in `out`. */
uint32_t safetensors_header(const struct safetensors_entry *entries, uint32_t count,
                            char out[SAFETENSORS_HEADER_MAX]);

#endif
