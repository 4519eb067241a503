/*
 * query.h - the path and query of a request, written one parameter after another.
 *
 * Each parameter goes through proto's reading of it, so that what the daemon would refuse is
 * refused here, in the same words. The first fault stays and ends the writing.
 */
#ifndef CLIENT_QUERY_H
#define CLIENT_QUERY_H

#include <gemmd/dtypes.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/error.h"
#include "proto/parameter.h"

struct query {
    char *text;
    size_t length, room;
    const struct parameter_table *table;
    void *request;       /* the table's */
    struct fault *fault; /* the first */
};

/* Writes the table's path to `out` of `room` bytes, which has room for it. All is borrowed; `fault`
 * is cleared. */
void query_begin(struct query *query, const struct parameter_table *table, char *out, size_t room,
                 void *request, struct fault *fault);
void query_add(struct query *query, const char *name, const char *value);
void query_add_u64(struct query *query, const char *name, uint64_t value);
void query_add_f64(struct query *query, const char *name, double value);
/* These leave out what a request has without being told: a value that is `usual`, a name that is
 * NULL. */
void query_add_u64_unless(struct query *query, const char *name, uint64_t value, uint64_t usual);
void query_add_f64_unless(struct query *query, const char *name, double value, double usual);
void query_add_if_named(struct query *query, const char *name, const char *value);
/* What is no type is written as one that there is not. */
void query_add_dtype(struct query *query, const char *name, int32_t dtype);
/* One of `count` names. */
void query_add_choice(struct query *query, const char *name, const char *const *names,
                      uint32_t count, uint32_t value);

#endif
