/*
 * parameter.h - the parameters of a query string, as a table: how each is read, where its value
 * goes, and what is said of a bad one.
 *
 * Each endpoint has a table of its own; unknown, repeated and bad parameters are refused in the
 * same words for all. Pure functions, any thread.
 */
#ifndef PROTO_PARAMETER_H
#define PROTO_PARAMETER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/error.h"

#define PARAMETER_DIM "a whole number from 1 to 2147483647"
#define PARAMETER_FLAG "0 or 1"
#define PARAMETER_NUMBER "a finite decimal such as -1.5e-3"
#define PARAMETER_TENSOR "1 to 128 of the characters A-Z a-z 0-9 . _ -"
#define PARAMETER_KERNEL "auto or a kernel's name from /info"
#define PARAMETER_PRIORITY "a whole number from 0 to 9"

struct parameter {
    const char *name;
    /* Reads the value into its place; false if it is none that `allowed` speaks of. NULL: the value
     * is one of `choices`, and its place has the type of an enum that counts them from 0. */
    bool (*read)(const char *value, void *out);
    size_t offset; /* of its place in the request */
    const char *allowed;
    const char *const *choices; /* ends with NULL */
};

struct parameter_table {
    const char *path; /* "/gemm" */
    const struct parameter *entries;
    uint32_t count; /* at most 32: `given` has a bit for each */
    size_t
        given_offset; /* of the request's uint32_t, a bit set of the parameters that were given */
};

/* Takes one name=value pair, already percent-decoded, into `request` and marks it as given.
 * Unknown and repeated names and bad values are GEMMD_ERR_MALFORMED with the name in `field`. */
enum gemmd_error parameter_set(const struct parameter_table *table, void *request, const char *name,
                               const char *value, struct fault *fault);
/* Whether the parameter of that name was given, or has been marked so. */
bool parameter_given(const struct parameter_table *table, const void *request, const char *name);
void parameter_mark_given(const struct parameter_table *table, void *request, const char *name);

/* Readers for what several endpoints have. */
bool parameter_read_dim(const char *value, void *out);      /* uint64_t, 1 ... GEMM_DIM_MAX */
bool parameter_read_number(const char *value, void *out);   /* double, finite */
bool parameter_read_flag(const char *value, void *out);     /* bool */
bool parameter_read_tensor(const char *value, void *out);   /* char[GEMM_TENSOR_NAME_MAX + 1] */
bool parameter_read_kernel(const char *value, void *out);   /* char[GEMM_KERNEL_NAME_MAX + 1] */
bool parameter_read_priority(const char *value, void *out); /* uint32_t, 0 ... GEMM_PRIORITY_MAX */

#endif
