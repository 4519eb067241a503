/*
 * verdict.h - the outcome of an attempt that libcurl has ended.
 */
#ifndef CLIENT_VERDICT_H
#define CLIENT_VERDICT_H

#include "client/transfer.h"

/* Returns GEMMD_OK if the answer is complete and matches the request, else an error code with
 * request->error filled in. */
enum gemmd_error verdict_of(struct gemmd_request *request, CURLcode result);

/* Fills in request->error with GEMMD_ERR_OUT_OF_MEMORY, and returns the code. */
enum gemmd_error verdict_no_memory(struct gemmd_request *request);

#endif
