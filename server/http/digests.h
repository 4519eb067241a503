/*
 * digests.h - the digests of a request's body and of its answer (RFC 9530, digest_fields.h).
 *
 * A body is hashed on the request's I/O thread, piece by piece as it is received and before it is
 * decompressed. An answer has its digests in its headers, so that its payload is hashed before the
 * answer is sent: up to DIGESTS_HERE_BYTES on the I/O thread, longer payloads on the thread of the
 * digester (digester.h), while the request waits as it waits for its work.
 *
 * A content coding is a part of the representation (RFC 9110, section 8.1), and an answer is always
 * the whole representation, so that both fields have the same digest. All functions run on the
 * request's I/O thread.
 */
#ifndef SERVER_HTTP_DIGESTS_H
#define SERVER_HTTP_DIGESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"
#include "server/http/respond.h"

enum { DIGESTS_HERE_BYTES = 256 * 1024 };

struct digests; /* of one request */
struct request;

/* Reads the digest fields of a request that has any. GEMMD_ERR_MALFORMED: a digest of the body is
 * malformed. GEMMD_ERR_OUT_OF_MEMORY. */
enum gemmd_error digests_open(struct request *request);
/* Frees the digests, and the answer that was not sent. */
void digests_close(struct digests *digests);

/* Adds received bytes of the body. */
void digests_add(struct digests *digests, const void *bytes, uint64_t length);
/* Compares the digests of the complete body with those that the request gives.
 * GEMMD_ERR_MALFORMED: they differ. */
enum gemmd_error digests_check(struct digests *digests, struct fault *fault);

/* Whether the client wants a digest of the answer. */
bool digests_are_wanted(const struct digests *digests);
/* Adds the digests of the payload to the response, and takes over the caller's reference to the
 * response. Returns the response; NULL: memory ran out. */
struct MHD_Response *digests_add_headers(const struct request *request,
                                         struct MHD_Response *response,
                                         const struct payload *payload);
/* Hands a long payload to the digester, and the request with it (request_hand_over_again). Takes
 * over the caller's reference to the response in any case. The payload's parts stay until the
 * response is destroyed. False: out of memory; the request was not handed over. */
bool digests_hand_over(struct request *request, struct MHD_Response *response, int status,
                       const struct payload *payload);
/* Whether the digester hashes or has hashed the request's answer, and libmicrohttpd was not given
 * the answer yet. */
bool digests_has_answer(const struct digests *digests);
/* Takes an answer that digests_has_answer back from the digester, and destroys the answer. False:
 * the digester has hashed the payload, or is about to wake the request. */
bool digests_withdraw(struct request *request);
/* Takes the answer back, when the digester has ended. The caller owns the response; it is NULL, and
 * request->fault says why, if the payload was not hashed. */
struct MHD_Response *digests_take_answer(struct request *request, int *status, uint64_t *length);

#endif
