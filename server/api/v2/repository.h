/*
 * repository.h - POST /v2/repository/index, the list of the models of the request's tenant. All
 * functions run on the request's I/O thread.
 */
#ifndef SERVER_API_V2_REPOSITORY_H
#define SERVER_API_V2_REPOSITORY_H

#include <stdbool.h>
#include <stdint.h>

struct request;

/* The longest body in bytes: {"ready":true} and some white space. */
enum { REPOSITORY_BODY_MAX = 256 };

/* The state of a request for the index. */
struct repository_call {
    uint64_t bytes; /* received so far, in `text` */
    char text[REPOSITORY_BODY_MAX];
};

/* The endpoint's functions. */
void repository_begin(struct request *request);
bool repository_chunk(struct request *request, const void *bytes, uint64_t length);
void repository_submit(struct request *request);

#endif
