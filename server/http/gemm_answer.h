/* gemm_answer.h - what the answer of a product says in its headers, now or as a job's result. */
#ifndef SERVER_HTTP_GEMM_ANSWER_H
#define SERVER_HTTP_GEMM_ANSWER_H

#include <stdint.h>

#include "server/http/gemm_call.h"
#include "server/http/headers.h"

/* When things happened to a request; monotonic clock. */
struct gemm_times {
    uint64_t started_ns, received_ns, answered_ns;
};

/* Adds the headers of a call whose work has succeeded: where the result stays if it is stored, its
 * type and shape, the kernel,
 * Gemmd-Batch, Gemmd-Verify if it was asked for, Server-Timing. */
void gemm_answer_headers(const struct gemm_call *call, const struct gemm_times *times,
                         struct headers *headers);
/* The same without what says where or what the answer is (Content-Type, Location). */
void gemm_answer_product_headers(const struct gemm_call *call, const struct gemm_times *times,
                                 struct headers *headers);

#endif
