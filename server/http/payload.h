/*
 * payload.h - an answer's bytes on their way out, from where they lie: as they are, or compressed
 * if --compress-answers is on and the client takes it.
 *
 * Compression goes along with the sending, a piece at a time, so that nothing is held twice; the
 * answer's length is not known then and it is sent chunked. On the request's I/O thread.
 */
#ifndef SERVER_HTTP_PAYLOAD_H
#define SERVER_HTTP_PAYLOAD_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

struct request;

enum { PAYLOAD_PARTS_MAX = 3 };

struct payload {
    struct MHD_IoVec parts[PAYLOAD_PARTS_MAX]; /* borrowed until `sent` */
    uint32_t count;
    void (*sent)(void *context); /* the last byte has gone, or none will; NULL: nothing to do */
    void *context;
    bool as_it_is; /* never compressed: the answer's ETag names these bytes */
};

uint64_t payload_bytes(const struct payload *payload);
/* Calls payload->sent, if there is any. */
void payload_sent(const struct payload *payload);

/* A response to `request` that sends the payload, with what it has to say of its coding in the
 * headers. NULL: out of memory, and `sent` will not be called. */
struct MHD_Response *payload_response(struct request *request, const struct payload *payload);

#endif
