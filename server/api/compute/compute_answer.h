/* compute_answer.h - what the answer of a product says in its headers, now or as a job's result. */
#ifndef SERVER_API_COMPUTE_COMPUTE_ANSWER_H
#define SERVER_API_COMPUTE_COMPUTE_ANSWER_H

#include <stdint.h>

#include "server/api/compute/compute_call.h"
#include "server/base/headers.h"

/* When things happened to a request; monotonic clock. */
struct compute_times {
    uint64_t started_ns, received_ns, answered_ns;
};

/* Adds the headers of a call whose work has succeeded: where the result stays if it is stored, its
 * type and shape, the kernel,
 * Gemmd-Batch, Gemmd-Verify if it was asked for, Server-Timing. */
void compute_answer_headers(const struct compute_call *call, const struct compute_times *times,
                            struct headers *headers);
/* The same without what says where or what the answer is (Content-Type, Location). */
void compute_answer_product_headers(const struct compute_call *call,
                                    const struct compute_times *times, struct headers *headers);

#endif
