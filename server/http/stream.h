/*
 * stream.h - an answer without an end, which the client receives piece by piece as the pieces are
 * made: server-sent events.
 *
 * While a stream has nothing to send, its connection is suspended, so that libmicrohttpd does not
 * ask for more in every iteration. The check of the I/O threads, a few times a second, asks the
 * source of each stream for its next piece. A stream needs no message from other threads.
 *
 * A stream ends in three ways. Its source ends it. The daemon ends it at the next check when it has
 * handed its sockets over or closes, so that a drain does not wait for streams. And the daemon
 * closes the connection of a client that has disconnected, or to which STREAM_BEHIND_BYTES are
 * outstanding: nothing waits for a slow client.
 *
 * All functions run on the I/O thread of the request.
 */
#ifndef SERVER_HTTP_STREAM_H
#define SERVER_HTTP_STREAM_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/error.h"

struct http_server;
struct io_thread;
struct request;

enum {
    STREAMS_MAX = 64, /* open at the same time */
    STREAM_PIECE_BYTES = 16 * 1024,
    STREAM_BEHIND_BYTES = 256 * 1024
};

struct stream_source {
    /* Writes the next piece, STREAM_PIECE_BYTES at most, and returns its length; 0: there is none
     * now. Sets `*ended` after the last piece. */
    size_t (*next)(void *context, char *out, bool *ended);
    void (*freed)(void *context);
    void *context;
};

/* Reserves one of STREAMS_MAX streams, or of other large answers that count as streams, for the
 * request's tenant, who may have its share of them
 * (--tenant-share). Returns GEMMD_ERR_QUEUE_FULL and sets request->fault if there is none. */
enum gemmd_error stream_reserve(struct request *request);
/* Gives back a reservation of a tenant that no stream was created for. */
void stream_release(struct http_server *server, uint32_t tenant);
/* Creates the response of a stream, for which stream_reserve was true. The stream's end gives the
 * reservation back. NULL: out of memory; source->freed has been called and the reservation was
 * given back. */
struct MHD_Response *stream_response(struct request *request, const struct stream_source *source);

/* Sends the next pieces and ends streams, as the head of this file says. */
void streams_check(struct io_thread *thread);
/* Ends all streams of a thread that stops. */
void streams_stop(struct io_thread *thread);

#endif
