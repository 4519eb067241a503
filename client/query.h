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

/* gemm_request_set and its like. */
typedef enum gemmd_error query_set(void *request, const char *name, const char *value,
                                   struct fault *fault);

struct query {
    char *text;
    size_t length, room;
    query_set *set;
    void *request;       /* what `set` sets */
    struct fault *fault; /* the first */
};

/* Writes `path` to `out` of `room` bytes, which has room for it. All is borrowed; `fault` is
 * cleared. */
void query_begin(struct query *query, const char *path, char *out, size_t room, query_set *set,
                 void *request, struct fault *fault);
void query_add(struct query *query, const char *name, const char *value);
void query_add_u64(struct query *query, const char *name, uint64_t value);
void query_add_f64(struct query *query, const char *name, double value);
/* What is no type is written as one that there is not. */
void query_add_dtype(struct query *query, const char *name, int32_t dtype);
/* One of `count` names. */
void query_add_choice(struct query *query, const char *name, const char *const *names,
                      uint32_t count, uint32_t value);

#endif
