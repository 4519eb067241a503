/*
 * payload.h - the header of an answer that is a matrix, and the room for its bytes.
 *
 * All fill in request->error where the answer is not what was asked for (GEMMD_ERR_PROTOCOL,
 * _USAGE, _OUT_OF_MEMORY), else make request->sink ready.
 */
#ifndef CLIENT_PAYLOAD_H
#define CLIENT_PAYLOAD_H

#include "client/client.h"

/* The result whose shape and type are known: request->expected. */
enum gemmd_error payload_take_expected(struct gemmd_request *request, const struct answer *answer);
/* Whatever the header describes, which becomes request->expected. */
enum gemmd_error payload_take_described(struct gemmd_request *request, const struct answer *answer);
/* The same without a payload. */
enum gemmd_error payload_describe(struct gemmd_request *request, const struct answer *answer);
/* Makes `place` have room for `bytes`: what it has of the caller's must be enough. */
enum gemmd_error payload_make_room(struct gemmd_request *request, struct place *place,
                                   uint64_t bytes);

#endif
