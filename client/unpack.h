/*
 * unpack.h - unpacks an answer that is a safetensors file, as the answer arrives. The result, and
 * lse of an attention or the scales of a tensor, are each written to a buffer of their own; the
 * file as a whole is never in memory.
 *
 * The file's header is collected in the transfer's document.
 */
#ifndef CLIENT_UNPACK_H
#define CLIENT_UNPACK_H

#include "client/transfer.h"

/* Makes the sink's kind SINK_TENSORS. */
void unpack_begin(struct sink *sink);
/* Takes the next bytes of the answer. Returns an error code with request->error filled in:
 * GEMMD_ERR_PROTOCOL if the file is malformed, or does not hold the result, lse and scales that
 * request->expected describes; _USAGE or _OUT_OF_MEMORY as in answer_buffer_reserve. */
enum gemmd_error unpack_take(struct transfer *transfer, const char *data, size_t bytes);
/* Ends the answer: GEMMD_ERR_PROTOCOL if the file is not complete. */
enum gemmd_error unpack_end(struct gemmd_request *request);

#endif
