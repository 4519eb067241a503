/*
 * respond.h - the answer to a request, given once, on the request's I/O thread.
 *
 * Each function adds the fields that every answer has: X-Request-Id, Connection: close while the
 * daemon is closing, and with --allow-origin those of cors.h. A Location in `headers` is a path of
 * the daemon; --base-path is put before it. If memory runs out, the client gets 503. If there is
 * not even memory for the 503, the connection is closed.
 */
#ifndef SERVER_HTTP_RESPOND_H
#define SERVER_HTTP_RESPOND_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/error.h"
#include "server/base/headers.h"

struct request;
struct stream_source;

enum { PAYLOAD_PARTS_MAX = 3 };

/* The body of an answer, which is sent from the memory that it lies in, without a copy.
 *
 * A payload is sent as it is, or compressed if --compress-answers is on and the client accepts a
 * coding. A payload is compressed piece by piece while it is sent, so that no compressed copy is
 * held; the answer's length is not known then, and the answer is sent chunked. */
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
static inline uint64_t payload_bytes(const struct payload *payload)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < payload->count; i++)
        bytes += payload->parts[i].iov_len;
    return bytes;
}

/* Sends a payload. payload->sent is called after the last byte was sent, or when none will be sent.
 * `headers` may be NULL. Returns false if memory ran out; the request has then been answered with
 * an error, or its connection is closed. */
bool respond(struct request *request, int status, const struct headers *headers,
             const struct payload *payload);
/* The bytes of the buffer that an answer in pieces holds until its end. The bytes of one piece are
 * still in the processor's cache when the system copies them to the socket. */
enum { RESPOND_PIECE_BYTES = 256 * 1024 };
/* Sends `bytes` bytes that `read` gives piece by piece. `read` writes up to `room` bytes of the
 * answer from `position` on to `out` and returns their number, which is 0 if request_await_rest has
 * returned REQUEST_REST_AWAITED, and -1 if the connection must end; request->fault then says why,
 * unless the client has left. Returns false as `respond` does. */
typedef ssize_t respond_read(struct request *request, uint64_t position, char *out, size_t room);
bool respond_pieces(struct request *request, const struct headers *headers, uint64_t bytes,
                    respond_read *read);
/* Sends an answer without an end, which `source` writes piece by piece (stream.h). source->freed is
 * called once, when the answer has ended or memory ran out. Returns false as `respond` does. */
bool respond_stream(struct request *request, const struct headers *headers,
                    const struct stream_source *source);
/* Sends an answer without a body. Content-Length is `length`: for an answer to HEAD and for 304 the
 * length of the body that GET would get, else 0. */
void respond_empty(struct request *request, int status, const struct headers *headers,
                   uint64_t length);
/* Sends a fault as a document of type application/problem+json, and copies the fault to
 * request->fault. `fault` may be &request->fault. */
void respond_fault(struct request *request, const struct fault *fault);
/* Sets request->fault to GEMMD_ERR_OUT_OF_MEMORY and sends it. */
void respond_out_of_memory(struct request *request);

/* Sends a text of type `content_type`. `text` was allocated with malloc; respond_text takes it over
 * and frees it. If `text` is NULL, memory has run out, and the client gets 503. */
void respond_text(struct request *request, int status, const char *content_type, char *text);
/* Sends `length` bytes of text that stays valid until the daemon exits. */
void respond_static(struct request *request, int status, const char *content_type, const char *text,
                    uint64_t length);
/* Sends a copy of `length` bytes of text. Returns false as `respond` does. */
bool respond_copy(struct request *request, int status, const struct headers *headers,
                  const char *text, uint64_t length);

/* Sends the answer whose payload the digester has hashed (digests.h), or the reason why there is no
 * digest. */
void respond_digested(struct request *request);

#endif
