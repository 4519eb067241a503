/*
 * digests.h - the digests of a request's body and of its answer (RFC 9530, digest_fields.h).
 *
 * A body is hashed on the request's I/O thread, piece by piece as it is received and before it is
 * decompressed. An answer has its digests in its headers, so that its payload is hashed before the
 * answer is sent: up to DIGESTS_HERE_BYTES on the I/O thread, longer payloads on the thread of the
 * digester, while the request waits as it waits for its work.
 *
 * A content coding is a part of the representation (RFC 9110, section 8.1), and an answer is always
 * the whole representation, so that both fields have the same digest. All functions run on the
 * request's I/O thread, except the functions that take a struct digester.
 */
#ifndef SERVER_HTTP_DIGESTS_H
#define SERVER_HTTP_DIGESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"
#include "server/http/payload.h"

enum { DIGESTS_HERE_BYTES = 256 * 1024 };

struct digester;
struct digests; /* of one request */
struct request;

/* How the digester takes a request and gives it back: request_hand_over_again and request_wake. */
struct digester_hooks {
    void (*hand_over)(struct request *request);
    void (*wake)(struct request *request);
};
/* Starts the thread that hashes long payloads. NULL: the thread cannot start, or there is no
 * memory.
 */
struct digester *digester_start(struct digester_hooks hooks);
/* Whether the digester has made progress since the last call. Wakes the digester for the next call.
 * Always called by the same thread. */
bool digester_alive(struct digester *digester);
/* Hashes the payloads that wait, and ends the thread. From then on payloads are hashed on the I/O
 * threads. Called once, by any thread. NULL is allowed. */
void digester_stop(struct digester *digester);
/* Frees the digester. Called after digester_stop, when no I/O thread runs. NULL is allowed. */
void digester_destroy(struct digester *digester);

/* Reads the digest fields of a request that has any. GEMMD_ERR_MALFORMED: a digest of the body is
 * malformed. GEMMD_ERR_OUT_OF_MEMORY. */
enum gemmd_error digests_open(struct request *request);
/* Frees the digests, and the answer that was not sent. NULL is allowed. */
void digests_close(struct digests *digests);

/* Adds received bytes of the body. */
void digests_add(struct digests *digests, const void *bytes, uint64_t length);
/* Compares the digests of the complete body with those that the request gives.
 * GEMMD_ERR_MALFORMED: they differ. */
enum gemmd_error digests_check(struct digests *digests, struct fault *fault);

/* Whether the client wants a digest of the answer. NULL is allowed. */
bool digests_are_wanted(const struct digests *digests);
/* Adds the digests of the payload to the response, and takes over the caller's reference to the
 * response. Returns the response; NULL: memory ran out. */
struct MHD_Response *digests_add_headers(const struct request *request,
                                         struct MHD_Response *response,
                                         const struct payload *payload);
/* Hands a long payload to the digester, and the request with it (request_hand_over); takes over the
 * caller's reference to the response. The payload's parts stay until the response is destroyed.
 * Returns false, with nothing taken over, if the payload has to be hashed at once. */
bool digests_hand_over(struct request *request, struct MHD_Response *response, int status,
                       const struct payload *payload);
/* Whether the digester hashes or has hashed the request's answer, and libmicrohttpd was not given
 * the answer yet. NULL is allowed. */
bool digests_has_answer(const struct digests *digests);
/* Takes the answer back, when the digester has hashed its payload. The caller owns the response; it
 * is NULL if memory ran out. */
struct MHD_Response *digests_take_answer(struct request *request, int *status, uint64_t *length);

#endif
