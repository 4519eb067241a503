/*
 * record.h - structures of the public header that may be older or newer than the library.
 *
 * Such a structure begins with its size as the caller's compiler knew it. What a caller does not
 * know is left at its default; what the library does not know must be zero, its default.
 */
#ifndef CLIENT_RECORD_H
#define CLIENT_RECORD_H

#include <gemmd/gemmd.h>
#include <stdbool.h>
#include <stddef.h>

/* The sizes that structures began with, below which one is none of ours. */
enum {
    GEMMD_OPTIONS_SIZE_0_1 = sizeof(struct gemmd_options),
    GEMMD_GEMM_SIZE_0_1 = offsetof(struct gemmd_gemm, a_tensor),
    GEMMD_ATTENTION_SIZE_0_1 = sizeof(struct gemmd_attention),
    GEMMD_CALL_SIZE_0_1 = sizeof(struct gemmd_call),
    GEMMD_TENSOR_PUT_SIZE_0_1 = sizeof(struct gemmd_tensor_put)
};

/* Copies the caller's structure over the defaults in `known`, and sets its size to known_bytes.
 * False if it is smaller than `least` or has something in a part that is not known. */
bool record_read(void *known, size_t known_bytes, const void *given, size_t given_bytes,
                 size_t least);
/* Copies `known` to the caller's structure as far as it goes, zeroes the rest, and sets its
 * size. */
void record_write(void *given, size_t given_bytes, const void *known, size_t known_bytes);

#endif
