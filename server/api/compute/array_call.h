/*
 * array_call.h - functions of struct call_operation (call_operation.h) that several operations
 * share. Operations with one result Y share the header of the answer. Operations with one operand X
 * also share the functions for a resident X and for the plan of the launch.
 *
 * The functions are called by the thread that uses the call.
 */
#ifndef SERVER_API_COMPUTE_ARRAY_CALL_H
#define SERVER_API_COMPUTE_ARRAY_CALL_H

#include "server/api/compute/compute_call.h"

/* `header` of struct call_operation. */
uint32_t array_call_header(const struct compute_call *call, char out[SAFETENSORS_HEADER_MAX]);
/* Acquires the resident X that the parameter x names. */
enum gemmd_error array_call_acquire(struct compute_call *call, const char *x,
                                    struct services *services, const char *tenant,
                                    struct fault *fault);
/* The leading dimension of the resident X, or `width` if X is not resident. */
uint64_t array_call_leading(const struct call_residents *residents, uint64_t width);
/* Chooses the kernel of work.task, whose operation and problem are set, and plans the launch. */
enum gemmd_error array_call_plan(struct compute_call *call, const char *kernel,
                                 struct fault *fault);
/* Writes the shape of a request to an entry of the log. Returns the type of the operands, or
 * GEMMD_DTYPE_COUNT if the shape is not known. m is the number of rows, and n the last dimension.
 */
enum gemmd_dtype array_call_describe(const struct array_shape *shape, enum gemmd_dtype dtype,
                                     struct log_access *entry);

#endif
