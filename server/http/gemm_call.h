/*
 * gemm_call.h - a POST /gemm on its way: parameters, memory, work.
 *
 * Everything that can be refused is refused in gemm_call_open, before the body. It reserves a
 * place in the queue and, for raw bodies (whose shapes are in the query), all memory of the
 * request; shapes that are inside the body are known, and their memory and the result's bytes in
 * the queue are reserved, in gemm_call_bind.
 */
#ifndef SERVER_HTTP_GEMM_CALL_H
#define SERVER_HTTP_GEMM_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/gemm_request.h"
#include "server/http/gemm_residents.h"
#include "server/work/work.h"

struct daemon;
struct pool_cache;

struct gemm_call {
    struct gemm_request request;
    enum format body_format, answer_format;
    bool shapes_inside; /* the body, and nothing before it, says what the operands' shapes are */
    uint64_t deadline_ns;

    struct pool_cache *memory; /* the I/O thread's; borrowed */
    unsigned char *body;       /* pinned */
    uint64_t body_capacity, body_bytes;
    unsigned char *result; /* pinned: header_bytes of the format's header, then the payload */
    uint64_t header_bytes, result_bytes;
    unsigned char *scratch; /* pinned: operands that cannot be used where they lie */
    uint64_t scratch_bytes;
    struct tensor c;                 /* the result; data points into `result`, if it is sent */
    struct gemm_residents residents; /* acquired before gemm_call_open; data borrowed by `work` */

    uint64_t queue_bytes; /* what the place in the queue counts */
    bool has_place, has_device_memory;
    struct work work;
};

/* What the headers say about the body. */
struct gemm_body_length {
    bool known; /* false: chunked */
    uint64_t bytes;
};

/* `call` is zeroed but for `request` (all parameters set and checked), the formats,
 * `shapes_inside`, the deadline, `residents` (acquired), `memory` and work.tenant. */
enum gemmd_error gemm_call_open(struct gemm_call *call, struct daemon *daemon,
                                struct gemm_body_length length, struct fault *fault);
/* Appends to the body. */
enum gemmd_error gemm_call_append(struct gemm_call *call, struct daemon *daemon, const void *bytes,
                                  uint64_t length, struct fault *fault);
/* The body is complete: finds the operands and makes call->work ready for the queue (all but
 * `done`). */
enum gemmd_error gemm_call_bind(struct gemm_call *call, struct daemon *daemon, struct fault *fault);
/* As gemm_call_bind, where somebody else has found the operands and completed the request with them
 * (gemm_request_bind_tensors). They lie in the body, or in pinned memory that stays. */
enum gemmd_error gemm_call_bind_operands(struct gemm_call *call, struct daemon *daemon,
                                         struct gemm_operands *operands, struct fault *fault);
/* Until its work is in the queue a call can be moved. `to` takes over all that `from` holds; what
 * describes the product stays in both. */
void gemm_call_move(struct gemm_call *to, struct gemm_call *from);
/* The work is done: gives back all but the result. */
void gemm_call_finish(struct gemm_call *call, struct daemon *daemon);
/* Gives back everything that is still held. */
void gemm_call_close(struct gemm_call *call, struct daemon *daemon);

#endif
