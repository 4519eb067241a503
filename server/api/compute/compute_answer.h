/*
 * compute_answer.h - what is told of a computed result: the headers of an answer, which is sent to
 * the waiting client or kept as a job's result, and the entry of the access log. Pure functions.
 */
#ifndef SERVER_API_COMPUTE_COMPUTE_ANSWER_H
#define SERVER_API_COMPUTE_COMPUTE_ANSWER_H

#include <stdint.h>

#include "server/api/compute/compute_call.h"
#include "server/base/headers.h"
#include "server/observe/log.h"

/* Times of a request; monotonic clock. */
struct compute_times {
    uint64_t started_ns, received_ns, answered_ns;
};

/* Adds the headers of a call whose work has succeeded: Content-Type, Location if the result is
 * stored, and the headers of compute_answer_product_headers. */
void compute_answer_headers(const struct compute_call *call, const struct compute_times *times,
                            struct headers *headers);
/* Adds the headers that describe the result and its computation: Gemmd-Shape, Gemmd-Dtype,
 * Gemmd-Kernel, Gemmd-Batch, Server-Timing, and Gemmd-Verify if the result was verified. */
void compute_answer_product_headers(const struct compute_call *call,
                                    const struct compute_times *times, struct headers *headers);

/* Describes the computation of a call for the access log. The call may be zeroed; `operation`
 * stands for the operation of a call that has none yet. Returns the type of the operands, or
 * GEMMD_DTYPE_COUNT if the type is not known. `work_ended`: no other thread has the work. */
enum gemmd_dtype compute_call_describe(const struct compute_call *call,
                                       const struct call_operation *operation, bool work_ended,
                                       struct log_access *entry);

#endif
