/*
 * record.h - copies structures of the public header whose version may differ from the library's.
 *
 * A structure begins with its size, as the caller's compiler knew the structure. Fields that the
 * caller does not know keep their defaults. Fields that the library does not know must be zero,
 * which is the default of every field that is added later.
 */
#ifndef CLIENT_RECORD_H
#define CLIENT_RECORD_H

#include <gemmd/gemmd.h>
#include <stdbool.h>
#include <stddef.h>

/* The sizes of the structures in the version that first had them. A smaller structure is invalid.
 */
enum {
    GEMMD_OPTIONS_SIZE_0_1 = offsetof(struct gemmd_options, shared_bytes),
    GEMMD_GEMM_SIZE_0_1 = offsetof(struct gemmd_gemm, a_tensor),
    GEMMD_ATTENTION_SIZE_0_1 = offsetof(struct gemmd_attention, traceparent),
    GEMMD_CONV2D_SIZE_0_2 = sizeof(struct gemmd_conv2d),
    GEMMD_CALL_SIZE_0_1 = offsetof(struct gemmd_call, traceparent),
    GEMMD_TENSOR_PUT_SIZE_0_1 = offsetof(struct gemmd_tensor_put, traceparent),
    GEMMD_REDUCE_SIZE_0_2 = sizeof(struct gemmd_reduce),
    GEMMD_SOFTMAX_SIZE_0_2 = sizeof(struct gemmd_softmax),
    GEMMD_EXPERTS_SIZE_0_2 = sizeof(struct gemmd_experts),
    GEMMD_SEQUENCE_PUT_SIZE_0_2 = sizeof(struct gemmd_sequence_put),
    GEMMD_SEQUENCE_APPEND_SIZE_0_2 = sizeof(struct gemmd_sequence_append),
    GEMMD_SEQUENCE_GET_SIZE_0_2 = sizeof(struct gemmd_sequence_get)
};

/* Copies the caller's structure `given`, a struct gemmd_NAME, over the defaults in `known`, whose
 * size becomes known_bytes. GEMMD_ERR_USAGE, with `error` filled in, if `given` is smaller than
 * `least`, or if a byte beyond known_bytes is not zero; the sentence shows how a caller sets the
 * size of a structure called `variable`. */
enum gemmd_error record_read(void *known, size_t known_bytes, const void *given, size_t least,
                             const char *name, const char *variable,
                             struct gemmd_error_info *error);
/* Copies `known` to the caller's structure, as many bytes as fit, zeroes the rest of the structure,
 * and sets the structure's size to given_bytes. */
void record_write(void *given, size_t given_bytes, const void *known, size_t known_bytes);

#endif
