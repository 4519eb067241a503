/*
 * parameter.h - parsing the parameters of a query string, from a table of parameters.
 *
 * An endpoint has one table. The table gives for each parameter the field of the endpoint's request
 * struct in which the value is stored, and the values that are allowed. All endpoints refuse an
 * unknown parameter, a repeated parameter and an invalid value with the same messages, which
 * suggest the nearest name or value if one is near.
 *
 * The tables are constant. The functions keep no state and may be called from any thread.
 */
#ifndef PROTO_PARAMETER_H
#define PROTO_PARAMETER_H

#include <gemmd/dtypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/error.h"

#define PARAMETER_DIM "a whole number from 1 to 2147483647"
/* The end of a message about a size that a raw body needs and that is missing: the client may have
 * sent another format, whose arrays have sizes, without saying so. */
#define PARAMETER_OR_FORMAT "; .npy and safetensors need their Content-Type"
#define PARAMETER_F32 "a decimal that f32 can hold, such as 0.125"
#define PARAMETER_PRIORITY "a whole number from 0 to 9"

/* The values that a parameter may have. One of `read`, `choices` and `dtypes` is set. */
struct parameter_values {
    /* Parses `value` and stores the result in the field at `out`; false if the value is not
     * allowed. */
    bool (*read)(const char *value, void *out);
    const char *allowed; /* the values that `read` takes, for messages */
    /* Returns the value that a client may have meant by a value that `read` refuses, or NULL. May
     * return a value that `read` refuses too. NULL: messages suggest nothing. */
    const char *(*suggest)(const char *value);
    /* The value is one of these names, the last of which is followed by NULL. The field is an enum
     * whose values are the indices of the names. Messages list the names and suggest the nearest.
     */
    const char *const *choices;
    /* The value is the name of one of these types, a bit set of DTYPE_BIT. The field is an enum
     * gemmd_dtype. Messages list the types and suggest the one that the client may have meant. */
    uint32_t dtypes;
};

struct parameter {
    const char *name;
    size_t offset; /* of the field in the request struct, in bytes */
    const struct parameter_values *values;
};

/* An entry for the parameter `name`, whose field in struct `request` has the same name. */
#define PARAMETER(request, name, values)                                                           \
    {                                                                                              \
#name, offsetof(struct request, name), &(values)                                           \
    }

struct parameter_table {
    const char *path; /* "/gemm" */
    const struct parameter *entries;
    uint32_t count; /* at most 32: the bit set of given parameters has 32 bits */
    /* Offset in the request struct of a uint32_t, the bit set of the parameters that were given. */
    size_t given_offset;
};

/* Values that parameters of several endpoints have. The comment gives the type of the field, and
 * the range. */
extern const struct parameter_values parameter_dim;      /* uint64_t, 1 ... GEMM_DIM_MAX */
extern const struct parameter_values parameter_count;    /* uint64_t, 0 ... GEMM_DIM_MAX */
extern const struct parameter_values parameter_number;   /* double, finite */
extern const struct parameter_values parameter_f32;      /* double, finite as an f32 */
extern const struct parameter_values parameter_flag;     /* bool */
extern const struct parameter_values parameter_tensor;   /* char[GEMM_TENSOR_NAME_MAX + 1] */
extern const struct parameter_values parameter_kernel;   /* char[GEMM_KERNEL_NAME_MAX + 1] */
extern const struct parameter_values parameter_priority; /* uint32_t, 0 ... GEMM_PRIORITY_MAX */

/* Parses one name=value pair, already percent-decoded, stores the value in `request`, and marks the
 * parameter as given. A NULL `value` is invalid. GEMMD_ERR_MALFORMED, with the name in
 * fault->field, if the name is unknown or repeated, or the value is invalid. */
enum gemmd_error parameter_set(const struct parameter_table *table, void *request, const char *name,
                               const char *value, struct fault *fault);
/* Returns whether the parameter of that name was given, or has been marked as given. False if the
 * table has no parameter of that name. */
bool parameter_given(const struct parameter_table *table, const void *request, const char *name);
void parameter_mark_given(const struct parameter_table *table, void *request, const char *name);

/* Returns the value of number `index` of a parameter with `choices`; NULL if the table has no such
 * parameter or the parameter has no such value. The string is static. */
const char *parameter_choice(const struct parameter_table *table, const char *name, uint32_t index);

/* Returns whether f32 can hold a number, rounded. A number that f32 rounds to 0 counts as 0. */
bool parameter_fits_f32(double number);

/* Returns whether a parameter with these values, which have `dtypes`, takes the type. */
bool parameter_takes_dtype(const struct parameter_values *values, enum gemmd_dtype dtype);

/* Writes "; did you mean SUGGESTION?" for the end of a message, or nothing if `suggestion` is NULL.
 * Returns `out`, which is PARAMETER_HINT_BYTES long. */
enum { PARAMETER_HINT_BYTES = 96 };
const char *parameter_hint(const char *suggestion, char out[PARAMETER_HINT_BYTES]);

#endif
