/*
 * verdict.h - what came of an attempt that libcurl says is over.
 */
#ifndef CLIENT_VERDICT_H
#define CLIENT_VERDICT_H

#include "client/transfer.h"

/* GEMMD_OK if the answer is complete and right, else the code with request->error. */
enum gemmd_error verdict_of(struct gemmd_request *request, CURLcode result);

/* Fills in request->error. */
enum gemmd_error verdict_no_memory(struct gemmd_request *request);

#endif
