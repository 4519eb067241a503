/*
 * tensor_hash.h - a tensor's entity tag: what it holds, in 64 hexadecimal digits.
 *
 * SHA-256 (FIPS 180-4) over a line of text, "f32:512,512\n", and then the bytes, row-major and
 * little-endian, in quotes as RFC 9110 wants it. Two tensors have the same tag exactly if they have
 * the same type, shape and bytes. The bytes may come in pieces. One thread at a time.
 */
#ifndef SERVER_TENSORS_TENSOR_HASH_H
#define SERVER_TENSORS_TENSOR_HASH_H

#include <nettle/sha2.h>
#include <stdint.h>

#include "proto/tensor.h"

enum { TENSOR_ETAG_SIZE = 2 * SHA256_DIGEST_SIZE + 3 }; /* quotes and terminator included */

struct tensor_hash {
    struct sha256_ctx state;
};

/* Takes type and shape of `tensor`. */
void tensor_hash_start(struct tensor_hash *hash, const struct tensor *tensor);
void tensor_hash_add(struct tensor_hash *hash, const void *bytes, uint64_t length);
void tensor_hash_end(struct tensor_hash *hash, char etag[TENSOR_ETAG_SIZE]);

#endif
