#include <gemmd/gemmd.h>
#include <nettle/sha2.h>
#include <stdio.h>

#include "proto/size.h"

void gemmd_tensor_etag(enum gemmd_dtype dtype, uint32_t rank, const uint64_t *dims,
                       const void *data, char out[72])
{
    static const char digits[] = "0123456789abcdef";
    char text[8 + 8 * 21];
    unsigned char digest[SHA256_DIGEST_SIZE];
    struct sha256_ctx hash;
    uint64_t bytes;
    out[0] = '\0';
    if (gemmd_dtype_size(dtype) == 0 || rank < 1 || rank > 8 ||
        !size_tensor_bytes(dtype, dims, rank, &bytes))
        return;
    sha256_init(&hash);
    for (uint32_t i = 0; i < rank; i++) {
        int length = i == 0 ? snprintf(text, sizeof text, "%s:%llu", gemmd_dtype_name(dtype),
                                       (unsigned long long)dims[i])
                            : snprintf(text, sizeof text, ",%llu", (unsigned long long)dims[i]);
        sha256_update(&hash, (size_t)length, (const uint8_t *)text);
    }
    sha256_update(&hash, 1, (const uint8_t *)"\n");
    sha256_update(&hash, bytes, data);
    sha256_digest(&hash, sizeof digest, digest);
    *out++ = '"';
    for (size_t i = 0; i < sizeof digest; i++) {
        *out++ = digits[digest[i] >> 4];
        *out++ = digits[digest[i] & 15];
    }
    *out++ = '"';
    *out = '\0';
}
