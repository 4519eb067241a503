/*
 * payload.h - checks the header of an answer that is a matrix, and makes room for the matrix.
 *
 * Every function prepares request->sink, or returns GEMMD_ERR_PROTOCOL, _USAGE or _OUT_OF_MEMORY
 * with request->error filled in.
 */
#ifndef CLIENT_PAYLOAD_H
#define CLIENT_PAYLOAD_H

#include "client/client.h"

/* For a result whose shape and type are known before: request->expected. */
enum gemmd_error payload_take_expected(struct gemmd_request *request, const struct answer *answer);
/* For a result of any shape and type: sets request->expected from the header. */
enum gemmd_error payload_take_described(struct gemmd_request *request, const struct answer *answer);
/* Sets request->expected from the header of an answer without a payload. */
enum gemmd_error payload_describe(struct gemmd_request *request, const struct answer *answer);

#endif
