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
    /* Reads the value into its place; false if it is none that `allowed` speaks of. */
    bool (*read)(const char *value, void *out);
    size_t offset; /* of its place in the request */
    const char *allowed;
};

struct parameter_table {
    const char *path; /* "/gemm" */
    const struct parameter *entries;
    uint32_t count; /* at most 32: `given` has a bit for each */
};

/* Takes one name=value pair, already percent-decoded, into `request` and marks it in `given`.
 * Unknown and repeated names and bad values are GEMMD_ERR_MALFORMED with the name in `field`. */
enum gemmd_error parameter_set(const struct parameter_table *table, void *request, uint32_t *given,
                               const char *name, const char *value, struct fault *fault);
/* The bit of that parameter in `given`; 0 if there is none of that name. */
uint32_t parameter_bit(const struct parameter_table *table, const char *name);

/* The index of a value in a list that ends with NULL. */
bool parameter_choice(const char *value, const char *const *names, uint32_t *index);

/* Readers for what several endpoints have. */
bool parameter_read_dim(const char *value, void *out);      /* uint64_t, 1 ... GEMM_DIM_MAX */
bool parameter_read_number(const char *value, void *out);   /* double, finite */
bool parameter_read_flag(const char *value, void *out);     /* bool */
bool parameter_read_tensor(const char *value, void *out);   /* char[GEMM_TENSOR_NAME_MAX + 1] */
bool parameter_read_kernel(const char *value, void *out);   /* char[GEMM_KERNEL_NAME_MAX + 1] */
bool parameter_read_priority(const char *value, void *out); /* uint32_t, 0 ... GEMM_PRIORITY_MAX */

#endif
