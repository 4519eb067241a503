/*
 * safetensors.h - the safetensors format: the header's length in 8 bytes, a JSON header, the data.
 *
 * The readers make tensors that are views onto the caller's bytes, and copy no data. A reader
 * returns GEMMD_ERR_MALFORMED if the header is too long, nests too deeply, is not JSON or names a
 * tensor twice; if the data offsets of tensors overlap, leave a hole, run backwards or run past the
 * end of the file; or if the size of a tensor's data does not match the tensor's shape. A reader
 * returns GEMMD_ERR_UNSUPPORTED if a tensor has a type that gemmd does not offer. A reader checks
 * that "__metadata__" is a map of strings, and otherwise ignores "__metadata__". All functions may
 * be called from any thread.
 */
#ifndef PROTO_SAFETENSORS_H
#define PROTO_SAFETENSORS_H

#include <stdint.h>

#include "proto/body_front.h"
#include "proto/error.h"
#include "proto/tensor.h"

enum {
    SAFETENSORS_NAME_MAX = 64,            /* size of a name in bytes, with the terminator */
    SAFETENSORS_HEADER_LIMIT = 64 * 1024, /* longest JSON header that a reader takes, in bytes */
    SAFETENSORS_HEADER_MAX = 2048         /* size in bytes of safetensors_header's buffer */
};

struct safetensors_entry {
    char name[SAFETENSORS_NAME_MAX];
    struct tensor tensor;
    /* NULL: the tensor's type is tensor.dtype. Otherwise a type that no operand has: "I64", "U8" or
     * "F8_E8M0". tensor.dtype is then a type of the same size, GEMMD_F64 or GEMMD_I8. Static. */
    const char *other_type;
};

/* Reads a whole file of `length` bytes. `entries` has room for `capacity` tensors; a file of more
 * tensors is GEMMD_ERR_MALFORMED. `*count` becomes the number of tensors. The entries are in the
 * order of the tensors' data in the file. The reader allocates memory for the parsed header and
 * frees the memory before returning; GEMMD_ERR_OUT_OF_MEMORY if the allocation fails. */
enum gemmd_error safetensors_decode(const void *bytes, uint64_t length,
                                    struct safetensors_entry *entries, uint32_t capacity,
                                    uint32_t *count, struct fault *fault);
/* As safetensors_decode, for a file of which only the front may have been received (body_front.h).
 * The header must have been received, but not the data. GEMMD_ERR_CONFLICT if the header has not
 * been received completely; front->wanted is then the number of bytes of the file that the next
 * call needs. */
enum gemmd_error safetensors_decode_front(struct body_front *front,
                                          struct safetensors_entry *entries, uint32_t capacity,
                                          uint32_t *count, struct fault *fault);
/* As safetensors_decode_front, for a file that may also hold tensors of I64, U8 and F8_E8M0. */
enum gemmd_error safetensors_decode_weights(struct body_front *front,
                                            struct safetensors_entry *entries, uint32_t capacity,
                                            uint32_t *count, struct fault *fault);
/* Returns the name of the tensor's type in a header, such as "F32"; a static string. */
const char *safetensors_type(const struct safetensors_entry *entry);
/* Writes the front of a file, up to the data: the header's length and the header. The file's data
 * are the bytes of `count` row-major tensors, in the order of `entries`. The header is padded with
 * spaces. Returns the length of the front in bytes, a multiple of 64, or 0 if the front does not
 * fit in `out` or the size of the data overflows. */
uint32_t safetensors_header(const struct safetensors_entry *entries, uint32_t count,
                            char out[SAFETENSORS_HEADER_MAX]);

#endif
