/*
 * compute_memory.h - operands and results of requests to compute in the shared memory of the
 * request's connection (arrival.h), which the header Gemmd-Memory names. On the request's
 * I/O thread.
 */
#ifndef SERVER_API_COMPUTE_COMPUTE_MEMORY_H
#define SERVER_API_COMPUTE_COMPUTE_MEMORY_H

#include "proto/error.h"

struct request;

/* Finds the operands and the result that Gemmd-Memory names. Does nothing without that header. To
 * be called when all parameters are settled, before compute_call_open. Errors are in
 * request->fault: GEMMD_ERR_MALFORMED if an operand or the result is not in the memory or the
 * connection has no memory, GEMMD_ERR_NOT_IMPLEMENTED if --shm-memfd is off, GEMMD_ERR_MEDIA_TYPE
 * if the body is not raw, or the error with which mapping the memory failed. */
enum gemmd_error compute_memory_open(struct request *request);

#endif
