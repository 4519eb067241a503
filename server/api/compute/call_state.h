/*
 * call_state.h - struct compute_call, the state of a call from the request's headers to the last
 * byte of the answer. compute_call.h says who owns the state and which thread may use it.
 */
#ifndef SERVER_API_COMPUTE_CALL_STATE_H
#define SERVER_API_COMPUTE_CALL_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/operands.h"
#include "proto/tensor.h"
#include "server/api/compute/call_operation.h"
#include "server/api/compute/call_residents.h"
#include "server/api/compute/client_memory.h"
#include "server/device/work.h"
#include "server/scheduler/admission.h"

struct call_split;
struct config;
struct services;
struct early_copy_body;
struct executor;
struct pool_cache;

struct compute_call {
    const struct call_operation *operation; /* borrowed */
    union call_request request;
    uint64_t timeout_ms; /* of the request; 0: the daemon's default */
    uint32_t priority;
    enum format body_format, answer_format;
    bool shapes_inside;   /* only the body says what shapes the operands have */
    uint64_t deadline_ns; /* monotonic clock; 0: none */

    /* The options in force when the request began. Borrowed from the request; NULL in the call of a
     * job, which outlives its request. */
    const struct config *config;
    struct pool_cache *memory; /* of the thread that uses the call; borrowed */
    unsigned char *body;       /* pinned; owned */
    uint64_t body_capacity, body_bytes;
    bool body_sized;                    /* body_capacity is the length of the complete body */
    bool has_result;                    /* c, lse and result_bytes are known */
    bool sends_result;                  /* has_result, and the answer has results in its body */
    bool prepared;                      /* call_prepare has succeeded */
    uint64_t look_at_bytes;             /* call_lookahead.h looks when so many bytes have arrived */
    struct early_copy_body *early_copy; /* of the body's operands; NULL: there is no early copy */
    /* Pinned; owned. The block begins with `front_bytes` bytes for an endpoint's own text and with
     * the header of the answer's format, which are `header_bytes` bytes together. The results
     * follow. */
    unsigned char *result;
    uint32_t front_bytes;
    uint64_t header_bytes;
    uint64_t result_bytes;  /* of results that are stored or sent, not of those in client_memory */
    unsigned char *scratch; /* pinned; owned: copies of operands that cannot be used in place */
    uint64_t scratch_bytes;
    struct tensor c; /* the result, such as C. If sent, it lies in `result` */
    /* Whether the answer's format has room for `lse`, the second result of an attention (the
     * logarithms of the sums of exponentials). */
    bool sends_lse;
    struct tensor lse;                  /* rank 0 unless lse is sent or shared */
    struct call_residents residents;    /* acquired before compute_call_open */
    struct client_memory client_memory; /* operands and results that the client shares */

    struct executor *executor; /* that computes the call; set by compute_call_open; borrowed */
    uint64_t charged_ns;       /* the time that the executor is charged for the call (executor.h) */
    struct call_split *split;  /* several devices compute the call; owned; NULL: one does */
    uint32_t devices;          /* how many devices compute a call that is divided; else 0 */

    const char *request_id; /* for the log; borrowed; NULL: none */
    bool failure_logged;

    uint64_t queue_bytes;   /* the bytes of the reservation */
    bool has_reservation;   /* compute_call_finish gives the reservation back */
    bool has_device_memory; /* compute_call_finish frees the work's device memory */
    struct work work;

    struct operand_layout layout; /* of a raw body; the only field that is not zeroed at first */
};

/* The name under which the result is to be stored, or "". */
static inline const char *compute_call_store(const struct compute_call *call)
{
    return call->operation->store != NULL ? call->operation->store(&call->request) : "";
}

#endif
