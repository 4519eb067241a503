/* compute_answer.h - the headers of an answer with a computed result, which is sent to the waiting
 * client or kept as a job's result. Pure functions. */
#ifndef SERVER_API_COMPUTE_COMPUTE_ANSWER_H
#define SERVER_API_COMPUTE_COMPUTE_ANSWER_H

#include <stdint.h>

#include "server/api/compute/compute_call.h"
#include "server/base/headers.h"

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

#endif
