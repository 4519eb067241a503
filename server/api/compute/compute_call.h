/*
 * compute_call.h - a POST /gemm or /attention on its way: parameters, memory, work.
 *
 * Everything that can be refused is refused in compute_call_open, before the body. It reserves a
 * place in the queue and, for raw bodies (whose shapes are in the query), all memory of the
 * request; shapes that are inside the body are known, and their memory and the result's bytes in
 * the queue are reserved, in compute_call_bind, or as soon as the body's header is there
 * (call_lookahead.h). A body whose length nothing says (chunked or
 * compressed, with its shapes inside) counts in the queue with the memory that it has, as that
 * grows: no byte of a body is ever held that is not counted.
 */
#ifndef SERVER_API_COMPUTE_COMPUTE_CALL_H
#define SERVER_API_COMPUTE_COMPUTE_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/attention_request.h"
#include "proto/gemm_request.h"
#include "proto/operands.h"
#include "proto/parameter.h"
#include "proto/safetensors.h"
#include "server/api/compute/call_residents.h"
#include "server/api/compute/client_memory.h"
#include "server/device/work.h"

struct body_front;
struct log_access;
struct services;
struct compute_call;
struct early_copy_body;
struct pool_cache;

/* The operands of a call, as its operation names them or in the order of a raw body. An operand
 * that the request does not have, or that is resident, has rank 0. */
union call_operands {
    struct gemm_operands gemm;
    struct attention_operands attention;
    struct tensor all[OPERAND_TABLE_MAX];
};

/* What differs between products and attentions: their parameters, operands and kernels. Each
 * function that returns an error says why in `fault`. */
struct call_operation {
    const char *name;                         /* "gemm"; the name of its jobs */
    const char *result_name;                  /* in Gemmd-Memory */
    const struct operand_table *operands;     /* which operands there are, and their shapes */
    size_t request;                           /* where in struct compute_call its request is */
    const struct parameter_table *parameters; /* of the request */
    void (*init)(struct compute_call *call);
    /* All parameters are in: acquires the resident operands, checks the request, and sets
     * timeout_ms and priority. */
    enum gemmd_error (*settle)(struct compute_call *call, struct services *services,
                               const char *tenant, struct fault *fault);
    /* Finds the operands in the front of a body that says itself what it holds, and completes the
     * request with them. GEMMD_ERR_CONFLICT: the front is too short to say. An operand whose bytes
     * have no known location yet has no data. After an error the request may be changed. */
    enum gemmd_error (*read)(struct compute_call *call, struct body_front *front,
                             union call_operands *operands, struct fault *fault);
    /* The shapes are known: sets `c`, `lse` and result_bytes; false on overflow. */
    bool (*result)(struct compute_call *call);
    /* Describes the problem in `work`, and chooses its kernel and device memory. */
    enum gemmd_error (*choose)(struct compute_call *call, struct services *services,
                               struct fault *fault);
    /* Writes the header that the answer's format has before the payload; returns its length. */
    uint32_t (*header)(const struct compute_call *call, char out[SAFETENSORS_HEADER_MAX]);
    /* Points `c`, `lse` and the problem at where the results will be: at `payload` unless they are
     * in the client's memory. NULL: all results are there. */
    void (*place_result)(struct compute_call *call, unsigned char *payload);
    /* Points the problem at those operands that have data. */
    void (*point)(struct compute_call *call, const union call_operands *operands);
    /* All operands' bytes have arrived: checks what is asked of them. */
    enum gemmd_error (*check)(struct compute_call *call, const union call_operands *operands,
                              struct fault *fault);
};
extern const struct call_operation gemm_operation;
extern const struct call_operation attention_operation; /* attention_operation.c */

struct compute_call {
    const struct call_operation *operation; /* borrowed; one of the two requests is used */
    struct gemm_request gemm;
    struct attention_request attention;
    uint64_t timeout_ms; /* as the request has it */
    uint32_t priority;
    enum format body_format, answer_format;
    bool shapes_inside; /* the body, and nothing before it, says what the operands' shapes are */
    uint64_t deadline_ns;

    struct pool_cache *memory; /* the I/O thread's; borrowed */
    unsigned char *body;       /* pinned */
    uint64_t body_capacity, body_bytes;
    bool body_sized;        /* body_capacity is what there will be */
    bool has_result;        /* c, lse and result_bytes are known */
    bool sends_result;      /* ... and the answer holds results */
    bool prepared;          /* compute_call_prepare has been done */
    uint64_t look_at_bytes; /* call_lookahead.h's: once so many are there */
    struct early_copy_body
        *early_copy;       /* copies the body's operands while it is received; NULL: not */
    uint32_t front_bytes;  /* room for an endpoint's own text before the format's header */
    unsigned char *result; /* pinned: header_bytes of that and the header, then the payload */
    uint64_t header_bytes;
    uint64_t result_bytes;  /* of what is stored or sent: not what goes to call->places */
    unsigned char *scratch; /* pinned: operands that cannot be used where they lie */
    uint64_t scratch_bytes;
    struct tensor c;   /* the result, O for attention; data points into `result`, if
                          it is sent */
    bool sends_lse;    /* the answer has a place for attention's lse */
    struct tensor lse; /* ... if it is sent; else of rank 0 */
    struct call_residents
        residents; /* acquired before compute_call_open; data borrowed by `work` */

    struct client_memory places; /* what of it is in the client's memory */

    uint64_t queue_bytes; /* what the place in the queue counts */
    bool has_place, has_device_memory;
    struct work work;

    struct operand_layout layout; /* of a raw body; not cleared at the start */
};

/* The request of the call's operation: a struct gemm_request or a struct attention_request. */
static inline void *compute_call_request(struct compute_call *call)
{
    return (char *)call + call->operation->request;
}

/* What the headers say about the body. */
struct body_length {
    bool known; /* false: chunked or compressed */
    uint64_t bytes;
};

/* Parameters are settled and the body is raw: computes where its operands lie. Operands that lie in
 * the client's memory are left out of the layout afterwards (operand_layout_leave_out). */
enum gemmd_error compute_call_layout(struct compute_call *call, const struct services *services,
                                     struct fault *fault);
/* `call` is zeroed but for `operation`, its request (all parameters set and settled), the formats,
 * `shapes_inside`, `sends_lse`, `front_bytes`, the deadline, `residents` (acquired), `places`,
 * `memory` and work.tenant. */
enum gemmd_error compute_call_open(struct compute_call *call, struct services *services,
                                   struct body_length length, struct fault *fault);
/* Appends to the body. */
enum gemmd_error compute_call_append(struct compute_call *call, struct services *services,
                                     const void *bytes, uint64_t length, struct fault *fault);
/* The body is complete: finds the operands and makes call->work ready for the queue (all but
 * `done`). */
enum gemmd_error compute_call_bind(struct compute_call *call, struct services *services,
                                   struct fault *fault);
/* As compute_call_bind, for operands that somebody else has found and completed the request with
 * (gemm_request_bind_tensors, attention_request_bind_tensors). They lie in the body, in
 * call->places, or in pinned memory that stays. */
enum gemmd_error compute_call_bind_operands(struct compute_call *call, struct services *services,
                                            union call_operands *operands, struct fault *fault);
/* The shapes are known: chooses the kernel, and takes the memory for the result and on the device.
 * After a failure the call is as it was, but for the bytes that its place in the queue counts. */
enum gemmd_error compute_call_prepare(struct compute_call *call, struct services *services,
                                      struct fault *fault);
/* Which operands have to be copied before the device can use them, as bits. */
uint32_t compute_call_copies(const struct compute_call *call, struct services *services,
                             const union call_operands *operands);
/* Until its work is in the queue a call can be moved. `to` takes over all that `from` holds; what
 * describes the product stays in both. */
void compute_call_move(struct compute_call *to, struct compute_call *from);
/* Fills in what the access log says of the computation of a call, which may be zeroed; `operation`
 * is that of a call that has none yet. Returns the operands' type, GEMMD_DTYPE_COUNT if it is not
 * known. `work_ended`: nobody else has the work. */
enum gemmd_dtype compute_call_describe(const struct compute_call *call,
                                       const struct call_operation *operation, bool work_ended,
                                       struct log_access *entry);
/* The work is done: gives back all but the result. */
void compute_call_finish(struct compute_call *call, struct services *services);
/* Gives back everything that is still held. */
void compute_call_close(struct compute_call *call, struct services *services);

#endif
