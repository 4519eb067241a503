/*
 * repository.h - POST /v2/repository/index: the models there are, as the request's tenant sees
 * them. On the request's I/O thread.
 */
#ifndef SERVER_API_V2_REPOSITORY_H
#define SERVER_API_V2_REPOSITORY_H

#include <stdbool.h>
#include <stdint.h>

struct request;

/* Room for {"ready":true} and some space; short enough for any parser. */
enum { REPOSITORY_BODY_MAX = 256 };

/* The state of a request for the index: its body. */
struct repository_call {
    uint64_t bytes;
    char text[REPOSITORY_BODY_MAX];
};

/* The endpoint's functions. */
void repository_begin(struct request *request);
bool repository_chunk(struct request *request, const void *bytes, uint64_t length);
void repository_submit(struct request *request);

#endif
