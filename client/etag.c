#include "client/etag.h"

#include <gemmd/gemmd.h>
#include <nettle/sha2.h>
#include <stdio.h>

/* Hashes a name, the shape and the bytes of a tensor. */
static void etag_add(struct sha256_ctx *hash, const char *name, const struct tensor *tensor)
{
    char text[8 + 8 * 21];
    for (uint32_t i = 0; i < tensor->rank; i++) {
        const unsigned long long dim = tensor->dims[i];
        const int length = i == 0 ? snprintf(text, sizeof text, "%s:%llu", name, dim)
                                  : snprintf(text, sizeof text, ",%llu", dim);
        sha256_update(hash, (size_t)length, (const uint8_t *)text);
    }
    sha256_update(hash, 1, (const uint8_t *)"\n");
    sha256_update(hash, tensor->bytes, tensor->data);
}

void etag_compute(const struct tensor *tensor, const struct tensor *scale, char out[72])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char digest[SHA256_DIGEST_SIZE];
    struct sha256_ctx hash;
    sha256_init(&hash);
    etag_add(&hash, gemmd_dtype_name(tensor->dtype), tensor);
    if (scale != NULL)
        etag_add(&hash, "scale", scale);
    sha256_digest(&hash, sizeof digest, digest);
    *out++ = '"';
    for (size_t i = 0; i < sizeof digest; i++) {
        *out++ = digits[digest[i] >> 4];
        *out++ = digits[digest[i] & 15];
    }
    *out++ = '"';
    *out = '\0';
}

void gemmd_tensor_etag(enum gemmd_dtype dtype, uint32_t rank, const uint64_t *dims,
                       const void *data, char out[72])
{
    struct tensor tensor;
    out[0] = '\0';
    if (gemmd_dtype_size(dtype) != 0 && rank >= 1 && rank <= TENSOR_MAX_RANK &&
        tensor_init(&tensor, dtype, dims, rank, data))
        etag_compute(&tensor, NULL, out);
}
