/*
 * transfer.h - one attempt at a request: a libcurl easy handle, its buffers and its callbacks.
 *
 * Transfers are kept and used again, in two sizes, because libcurl's buffers decide the speed of
 * large bodies (up to twice) and only cost time and memory with small ones.
 */
#ifndef CLIENT_TRANSFER_H
#define CLIENT_TRANSFER_H

#include "client/client.h"

/* Starts an attempt in the client's loop and makes it request->transfer. On failure
 * request->error says why. */
enum gemmd_error transfer_start(struct gemmd_request *request, uint64_t now_us);
/* The request that a handle works for. */
struct gemmd_request *transfer_request(CURL *easy);
/* Takes a transfer that ended with `result` out of the loop and judges it: GEMMD_OK with
 * request->answer, or the code with request->error. */
enum gemmd_error transfer_finish(struct gemmd_request *request, CURLcode result);
/* Breaks the attempt off; its connection is closed. */
void transfer_abort(struct gemmd_request *request);
/* Bytes that have gone out and come in so far, headers not counted. */
uint64_t transfer_moved(const struct gemmd_request *request);
/* Whether bytes ought to be moving, rather than the daemon computing. */
bool transfer_should_move(const struct gemmd_request *request);
/* Releases the transfers that lie idle. */
void transfer_free_idle(struct gemmd_client *client);

#endif
