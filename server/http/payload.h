/*
 * payload.h - the body of an answer, which is sent from the memory that it lies in, without a copy.
 *
 * A payload is sent as it is, or compressed if --compress-answers is on and the client accepts a
 * coding. A payload is compressed piece by piece while it is sent, so that no compressed copy is
 * held; the answer's length is not known then, and the answer is sent chunked.
 *
 * All functions run on the request's I/O thread.
 */
#ifndef SERVER_HTTP_PAYLOAD_H
#define SERVER_HTTP_PAYLOAD_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

struct request;

enum { PAYLOAD_PARTS_MAX = 3 };

struct payload {
    struct MHD_IoVec parts[PAYLOAD_PARTS_MAX]; /* borrowed until `sent` is called */
    uint32_t count;
    /* Called once when the payload's memory is not used any more: the last byte was sent, or none
     * will be. NULL: nothing to do. */
    void (*sent)(void *context);
    void *context;
    bool as_it_is; /* the payload is never compressed, because the answer's ETag names its bytes */
};

/* The length of all parts together. */
uint64_t payload_bytes(const struct payload *payload);

/* Creates a response to `request` that sends the payload, with the headers that describe its coding
 * (Content-Encoding, Vary). The caller owns the response. Returns NULL if memory ran out; `sent`
 * has been called then. */
struct MHD_Response *payload_response(struct request *request, const struct payload *payload);

#endif
