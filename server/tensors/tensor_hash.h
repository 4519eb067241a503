/*
 * tensor_hash.h - the entity tag of a tensor: a hash of its type, shape and bytes in 64 hexadecimal
 * digits, in double quotes as RFC 9110 requires.
 *
 * The hash is SHA-256 (FIPS 180-4) over a line of text, "f32:512,512\n", and then the tensor's
 * bytes, row-major and little-endian. Two tensors have the same tag exactly if they have the same
 * type, shape and bytes. The tag of packed weights is computed over the format and the tensors of
 * their file. The bytes may be added in pieces. One thread at a time.
 */
#ifndef SERVER_TENSORS_TENSOR_HASH_H
#define SERVER_TENSORS_TENSOR_HASH_H

#include <nettle/sha2.h>
#include <stdint.h>

#include "proto/packed.h"
#include "proto/tensor.h"

enum { TENSOR_ETAG_SIZE = 2 * SHA256_DIGEST_SIZE + 3 }; /* with quotes and terminating null byte */

struct tensor_hash {
    struct sha256_ctx state;
};

/* Starts a hash with the type and shape of `tensor`. */
void tensor_hash_start(struct tensor_hash *hash, const struct tensor *tensor);
/* Adds the next `length` bytes of the tensor. */
void tensor_hash_add(struct tensor_hash *hash, const void *bytes, uint64_t length);
/* Starts the hash of a file of packed weights with a line of its format and bits: "gptq:4\n". */
void tensor_hash_start_packed(struct tensor_hash *hash, const struct packed_file *file);
/* Adds a line of the name, type and shape of a tensor of the file, before the tensor's bytes:
 * "qweight:I32:512,4096\n". */
void tensor_hash_entry(struct tensor_hash *hash, const struct safetensors_entry *entry);
/* Adds the scales that belong to the tensor, after all bytes of the tensor. */
void tensor_hash_scale(struct tensor_hash *hash, const struct tensor *scale);
/* Ends the hash and writes the entity tag. */
void tensor_hash_end(struct tensor_hash *hash, char etag[TENSOR_ETAG_SIZE]);

#endif
