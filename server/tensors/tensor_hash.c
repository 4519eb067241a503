#include "server/tensors/tensor_hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "proto/dtype.h"

void tensor_hash_start(struct tensor_hash *hash, const struct tensor *tensor)
{
    char shape[TENSOR_MAX_RANK * 21], line[sizeof shape + 16];
    tensor_shape_text(tensor, shape, sizeof shape);
    int length = snprintf(line, sizeof line, "%s:%s\n", dtype_name(tensor->dtype), shape);
    sha256_init(&hash->state);
    sha256_update(&hash->state, (size_t)length, (const uint8_t *)line);
}

void tensor_hash_start_packed(struct tensor_hash *hash, const struct packed_file *file)
{
    char line[64];
    const int length = snprintf(line, sizeof line, "%s:%" PRIu32 "\n",
                                packed_format_names[file->format], file->layout.bits);
    sha256_init(&hash->state);
    sha256_update(&hash->state, (size_t)length, (const uint8_t *)line);
}

void tensor_hash_entry(struct tensor_hash *hash, const struct safetensors_entry *entry)
{
    char shape[TENSOR_MAX_RANK * 21], line[SAFETENSORS_NAME_MAX + sizeof shape + 16];
    tensor_shape_text(&entry->tensor, shape, sizeof shape);
    const int length =
        snprintf(line, sizeof line, "%s:%s:%s\n", entry->name, safetensors_type(entry), shape);
    sha256_update(&hash->state, (size_t)length, (const uint8_t *)line);
}

void tensor_hash_add(struct tensor_hash *hash, const void *bytes, uint64_t length)
{
    sha256_update(&hash->state, (size_t)length, bytes);
}

void tensor_hash_scale(struct tensor_hash *hash, const struct tensor *scale)
{
    char shape[TENSOR_MAX_RANK * 21], line[sizeof shape + 16];
    tensor_shape_text(scale, shape, sizeof shape);
    const int length = snprintf(line, sizeof line, "scale:%s\n", shape);
    sha256_update(&hash->state, (size_t)length, (const uint8_t *)line);
    sha256_update(&hash->state, (size_t)scale->bytes, scale->data);
}

void tensor_hash_end(struct tensor_hash *hash, char etag[TENSOR_ETAG_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t digest[SHA256_DIGEST_SIZE];
    sha256_digest(&hash->state, sizeof digest, digest);
    char *out = etag;
    *out++ = '"';
    for (size_t i = 0; i < sizeof digest; i++) {
        *out++ = digits[digest[i] >> 4];
        *out++ = digits[digest[i] & 15];
    }
    *out++ = '"';
    *out = '\0';
}
