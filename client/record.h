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

/* The sizes in version 0.1, below which a structure is none of ours. */
enum {
    GEMMD_OPTIONS_SIZE_0_1 = sizeof(struct gemmd_options),
    GEMMD_GEMM_SIZE_0_1 = sizeof(struct gemmd_gemm),
    GEMMD_RESULT_SIZE_0_1 = sizeof(struct gemmd_result)
};

/* Copies the caller's structure over the defaults in `known`, and sets its size to known_bytes.
 * False if it is smaller than `least` or has something in a part that is not known. */
bool record_read(void *known, size_t known_bytes, const void *given, size_t given_bytes,
                 size_t least);
/* Copies `known` to the caller's structure as far as it goes, zeroes the rest, and sets its
 * size. */
void record_write(void *given, size_t given_bytes, const void *known, size_t known_bytes);

#endif
