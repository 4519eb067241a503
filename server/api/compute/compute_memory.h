/*
 * compute_memory.h - POST /gemm and /attention on the memory of their connection (Gemmd-Memory:,
 * connection_memory.h). On the request's I/O thread.
 */
#ifndef SERVER_API_COMPUTE_COMPUTE_MEMORY_H
#define SERVER_API_COMPUTE_COMPUTE_MEMORY_H

#include "proto/error.h"

struct request;

/* Before compute_call_open, with all parameters settled: finds the operands and the result that the
 * header names. GEMMD_ERR_MALFORMED: they are not in the memory, or the connection has none;
 * GEMMD_ERR_NOT_IMPLEMENTED: none is taken; or why it could not be. */
enum gemmd_error compute_memory_open(struct request *request);

#endif
