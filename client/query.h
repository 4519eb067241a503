/*
 * query.h - the path and query of a request: names and shapes in them, and parameters, which are
 * written one after another.
 *
 * Each parameter of a struct query is also parsed by proto/, so that a parameter that the daemon
 * would refuse is refused here with the same sentence. After the first fault nothing more is
 * written.
 */
#ifndef CLIENT_QUERY_H
#define CLIENT_QUERY_H

#include <gemmd/gemmd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/error.h"
#include "proto/parameter.h"

struct query {
    char *text;
    size_t room;
    const struct parameter_table *table;
    void *request;       /* the request that the table describes */
    struct fault *fault; /* the first fault */
};

/* ---- names and shapes ---- */

/* The functions check names and ids that become part of a path. GEMMD_ERR_USAGE with `error` filled
 * in if the text is not one. The name of a `kind`, "tensor" or "sequence", has 1 to 128 of the
 * characters A-Z a-z 0-9 . _ - ; NULL is not a name. `field` is the parameter that an error names.
 */
enum gemmd_error query_check_name(const char *name, const char *kind, const char *field,
                                  struct gemmd_error_info *error);
/* A job's id has 1 to 63 of the characters A-Z a-z 0-9 _ - ; NULL is not an id. */
enum gemmd_error query_check_job(const char *id, struct gemmd_error_info *error);

/* `goes_on` of struct paged_list for lists by name: whether `next` is a name that comes after
 * `after`. */
bool query_is_later_name(const char *next, const char *after);

enum { SHAPE_TEXT_BYTES = 192 };

/* GEMMD_ERR_MALFORMED, with the field "rank", if a rank is not from 1 to 8. */
enum gemmd_error shape_check_rank(uint32_t rank, struct fault *fault);

/* Writes the first `rank` of `dims`, and returns `out`. A rank of 0 or more than 8 is written as
 * "none", which is not a shape. */
const char *shape_text(uint32_t rank, const uint64_t dims[8], char out[SHAPE_TEXT_BYTES]);

/* ---- the query ---- */

/* Appends a parameter to a target, which is a path with or without a query. Every parameter that
 * libgemmd sends is written here. The value is percent-encoded, since a "+" in a query is a space;
 * commas stay, for the lists of numbers. False if the parameter does not fit in the `room` bytes of
 * `target`, which then is as it was. */
bool query_append(char *target, size_t room, const char *name, const char *value);
bool query_append_u64(char *target, size_t room, const char *name, uint64_t value);

/* Begins a query with the table's path, which has to fit in the `room` bytes of `out`. All pointers
 * are borrowed; `fault` is cleared. */
void query_begin(struct query *query, const struct parameter_table *table, char *out, size_t room,
                 void *request, struct fault *fault);
/* As query_begin, behind the path that `out` has already. */
void query_continue(struct query *query, const struct parameter_table *table, char *out,
                    size_t room, void *request, struct fault *fault);
void query_add(struct query *query, const char *name, const char *value);
void query_add_u64(struct query *query, const char *name, uint64_t value);
void query_add_f64(struct query *query, const char *name, double value);
/* The two ..._unless functions write nothing if the value is `usual`. query_add_if_named writes
 * nothing if `value` is NULL. */
void query_add_u64_unless(struct query *query, const char *name, uint64_t value, uint64_t usual);
void query_add_f64_unless(struct query *query, const char *name, double value, double usual);
void query_add_if_named(struct query *query, const char *name, const char *value);
/* An invalid dtype is written as an invalid name, which proto/ refuses. */
void query_add_dtype(struct query *query, const char *name, int32_t dtype);
/* Write the name that the parameter's table gives to the value, query_add_choice_unless only if the
 * value is not `usual`. A value without a name is written as an invalid name, which proto/ refuses.
 */
void query_add_choice(struct query *query, const char *name, uint32_t value);
void query_add_choice_unless(struct query *query, const char *name, uint32_t value, uint32_t usual);

#endif
