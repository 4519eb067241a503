/*
 * payload.h - takes the payload of an answer: checks the header, makes room for the payload, and
 * writes the bytes to the request's sink as they arrive.
 *
 * Every function that takes a header prepares request->sink. Every function returns GEMMD_OK, or
 * GEMMD_ERR_PROTOCOL, _USAGE or _OUT_OF_MEMORY with request->error filled in.
 */
#ifndef CLIENT_PAYLOAD_H
#define CLIENT_PAYLOAD_H

#include "client/client.h"
#include "client/transfer.h"

/* For a result whose shape and type are known before: request->expected. */
enum gemmd_error payload_take_expected(struct gemmd_request *request, const struct answer *answer);
/* For a result of any shape and type: sets request->expected from the header. */
enum gemmd_error payload_take_described(struct gemmd_request *request, const struct answer *answer);
/* For a result of any length, whose shape the answer does not have: sets type and length of
 * request->expected from the header. */
enum gemmd_error payload_take_sized(struct gemmd_request *request, const struct answer *answer);
/* Sets request->expected from the header of an answer without a payload. */
enum gemmd_error payload_describe(struct gemmd_request *request, const struct answer *answer);

/* Writes the next bytes of a payload to the sink, whose kind is not SINK_NONE. Sets
 * transfer->refused if the bytes are not those of the payload. */
enum gemmd_error payload_take(struct transfer *transfer, const char *data, size_t bytes);
/* Ends a payload: GEMMD_ERR_PROTOCOL if the payload is not complete. */
enum gemmd_error payload_end(struct gemmd_request *request);

/* An answer that is a safetensors file is unpacked as it arrives. The result, and lse of an
 * attention or the scales of a tensor, are each written to a buffer of their own; the file as a
 * whole is never in memory. The file's header is collected in the transfer's document. */

/* Makes the sink's kind SINK_TENSORS. */
void unpack_begin(struct sink *sink);
/* Takes the next bytes of the answer. Returns an error code with request->error filled in:
 * GEMMD_ERR_PROTOCOL if the file is malformed, or does not hold the result, lse and scales that
 * request->expected describes; _USAGE if a buffer of the caller is too
 * small; _OUT_OF_MEMORY. */
enum gemmd_error unpack_take(struct transfer *transfer, const char *data, size_t bytes);
/* Ends the answer: GEMMD_ERR_PROTOCOL if the file is not complete. */
enum gemmd_error unpack_end(struct gemmd_request *request);

#endif
