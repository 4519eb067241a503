/*
 * outcome.h - the outcome of an attempt that libcurl has ended.
 */
#ifndef CLIENT_OUTCOME_H
#define CLIENT_OUTCOME_H

#include "client/transfer.h"

/* Returns GEMMD_OK if the answer is complete and matches the request, else an error code with
 * request->error filled in. */
enum gemmd_error outcome_of(struct gemmd_request *request, CURLcode result);

/* Fills in request->error with GEMMD_ERR_OUT_OF_MEMORY, and returns the code. */
enum gemmd_error outcome_no_memory(struct gemmd_request *request);

#endif
