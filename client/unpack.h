/*
 * unpack.h - an answer that is a safetensors file, taken apart as it comes: the result, and lse
 * where an attention has one, each to its own place, without the file ever lying in memory as a
 * whole.
 *
 * The header is collected in the transfer's document; what follows is written where it belongs.
 */
#ifndef CLIENT_UNPACK_H
#define CLIENT_UNPACK_H

#include "client/transfer.h"

/* Makes the sink SINK_TENSORS. */
void unpack_begin(struct sink *sink);
/* The next bytes of the answer. On failure request->error: GEMMD_ERR_PROTOCOL if the file is none,
 * or does not hold the result as request->expected describes it and lse, if that is expected; else
 * as payload_make_room. */
enum gemmd_error unpack_take(struct transfer *transfer, const char *data, size_t bytes);
/* The answer is over: GEMMD_ERR_PROTOCOL if it is not complete. */
enum gemmd_error unpack_end(struct gemmd_request *request);

#endif
