/*
 * parameter.h - parsing the parameters of a query string, from a table of parameters.
 *
 * An endpoint has one table. The table gives for each parameter the function that parses the value,
 * the field of the endpoint's request struct in which the value is stored, and the text that an
 * error message gives for the allowed values. All endpoints refuse an unknown parameter, a repeated
 * parameter and an invalid value with the same messages, which suggest the nearest name or value if
 * one is near.
 *
 * The tables are constant. The functions keep no state and may be called from any thread.
 */
#ifndef PROTO_PARAMETER_H
#define PROTO_PARAMETER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/error.h"

#define PARAMETER_DIM "a whole number from 1 to 2147483647"
/* The end of a message about a size that a raw body needs and that is missing: the client may have
 * sent another format, whose arrays have sizes, without saying so. */
#define PARAMETER_OR_FORMAT "; .npy and safetensors need their Content-Type"
#define PARAMETER_FLAG "0 or 1"
#define PARAMETER_NUMBER "a finite decimal such as -1.5e-3"
#define PARAMETER_TENSOR "1 to 128 of the characters A-Z a-z 0-9 . _ -"
#define PARAMETER_KERNEL "auto or a kernel's name from /info"
#define PARAMETER_PRIORITY "a whole number from 0 to 9"

struct parameter {
    const char *name;
    /* Parses `value` and stores the result in the field at `out`; false if the value is not
     * allowed. NULL: the value is one of `choices`, and the field is an enum whose values are the
     * indices of `choices`. */
    bool (*read)(const char *value, void *out);
    size_t offset;              /* of the field in the request struct, in bytes */
    const char *allowed;        /* the allowed values, for messages */
    const char *const *choices; /* ends with NULL; unused if `read` is set */
    /* Returns the value that a client may have meant by a value that is not allowed, or NULL. May
     * return a value that is not allowed either. NULL: messages suggest the nearest of `choices`,
     * or nothing. */
    const char *(*suggest)(const char *value);
};

struct parameter_table {
    const char *path; /* "/gemm" */
    const struct parameter *entries;
    uint32_t count; /* at most 32: the bit set of given parameters has 32 bits */
    /* Offset in the request struct of a uint32_t, the bit set of the parameters that were given. */
    size_t given_offset;
};

/* Parses one name=value pair, already percent-decoded, stores the value in `request`, and marks the
 * parameter as given. A NULL `value` is invalid. GEMMD_ERR_MALFORMED, with the name in
 * fault->field, if the name is unknown or repeated, or the value is invalid. */
enum gemmd_error parameter_set(const struct parameter_table *table, void *request, const char *name,
                               const char *value, struct fault *fault);
/* Returns whether the parameter of that name was given, or has been marked as given. False if the
 * table has no parameter of that name. */
bool parameter_given(const struct parameter_table *table, const void *request, const char *name);
void parameter_mark_given(const struct parameter_table *table, void *request, const char *name);

/* Suggests 1 for yes, true and the like, and 0 for no and false: a `suggest` of flags. */
const char *parameter_suggest_flag(const char *value);

/* Writes "; did you mean SUGGESTION?" for the end of a message, or nothing if `suggestion` is NULL.
 * Returns `out`, which is PARAMETER_HINT_BYTES long. */
enum { PARAMETER_HINT_BYTES = 96 };
const char *parameter_hint(const char *suggestion, char out[PARAMETER_HINT_BYTES]);

/* The parsers of parameters that several endpoints have. The comment at each parser gives the type
 * of the field at `out`, and the range. */
bool parameter_read_dim(const char *value, void *out);      /* uint64_t, 1 ... GEMM_DIM_MAX */
bool parameter_read_number(const char *value, void *out);   /* double, finite */
bool parameter_read_flag(const char *value, void *out);     /* bool */
bool parameter_read_tensor(const char *value, void *out);   /* char[GEMM_TENSOR_NAME_MAX + 1] */
bool parameter_read_kernel(const char *value, void *out);   /* char[GEMM_KERNEL_NAME_MAX + 1] */
bool parameter_read_priority(const char *value, void *out); /* uint32_t, 0 ... GEMM_PRIORITY_MAX */

#endif
