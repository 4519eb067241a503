/*
 * compute_call.h - one product or other operation that a request asks for: its parameters, its
 * memory and its work for the device.
 *
 * A request that can be refused without its body is refused at the headers: for its parameters and
 * resident operands in compute_call_settle, for its length, its size and its memory in
 * compute_call_open. compute_call_open makes the call's reservation of the admission limits. The
 * shapes of a raw body are in the query, so compute_call_open also takes all memory of a request
 * with a raw body. Bodies of other formats
 * have the shapes inside. Their results are added to the reservation, and memory for the results is
 * taken, in compute_call_bind, or as soon as the format's header has arrived. A body that is
 * chunked or compressed and has its shapes inside has no known length. Its reservation grows with
 * its memory, so that the daemon never holds a byte of a body without a reservation.
 *
 * Operands are copied to the device while the rest of the body still arrives (early_copy.h), if the
 * location of each operand is known by then. The locations in a raw body follow from the request's
 * headers. The other formats have a header of their own, which is read as soon as it has arrived. A
 * format's header gives its own length, which is limited, so that the header is read only a few
 * times. Looking ahead leaves a malformed header to compute_call_bind, which reads the complete
 * body. A request whose memory is not available is refused as soon as the shapes are known.
 *
 * A struct compute_call owns its memory. One thread at a time may use it: the request's I/O thread
 * or, for a job, the job thread. While the work is queued or running, only the queue and the
 * dispatch thread use `work` and the memory that it points to.
 */
#ifndef SERVER_API_COMPUTE_COMPUTE_CALL_H
#define SERVER_API_COMPUTE_COMPUTE_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/operands.h"
#include "proto/tensor.h"
#include "server/api/compute/call_operation.h"
#include "server/api/compute/call_residents.h"
#include "server/api/compute/client_memory.h"
#include "server/base/headers.h"
#include "server/device/work.h"
#include "server/observe/log.h"
#include "server/scheduler/admission.h"

struct call_split;
struct config;
struct early_copy_body;
struct executor;
struct job;
struct pool_cache;
struct request;
struct services;

/* The keys and values that a call appends to a sequence, as the body has them; rank 0: none. */
struct call_appended {
    struct tensor k, v;
};

/* The state of a call from the request's headers to the last byte of the answer. */
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
    bool prepared;                      /* call_prepare has succeeded */
    bool sends_result;                  /* c is known, and the answer has results in its body */
    uint64_t look_at_bytes;             /* the body is looked at when it has so many bytes */
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
    struct call_appended appended;
    struct work_copy *sequence_copies; /* of the work; owned (call_sequence.h) */
    unsigned char *read_back;          /* pinned; owned: the rows that a repeated append names */
    uint64_t read_back_bytes;
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
    bool is_finished;       /* compute_call_finish has been called */

    uint64_t queue_bytes; /* that the call asks to reserve */
    /* The reservation. compute_call_finish shrinks it to the results that are to be sent. */
    struct reservation reservation;
    bool has_device_memory; /* compute_call_finish frees the work's device memory */
    struct work work;

    struct operand_layout layout; /* of a raw body; the only field that is not zeroed at first */
};

/* The state of a request to compute (POST /gemm and the others), which request->call points to.
 * Only the request's I/O thread uses it. */
struct compute_request {
    struct request *request; /* borrowed; owns this state */
    struct job *job;         /* of a request with a job, until its work is queued; else NULL */
    struct compute_call call;
};

/* The name under which the result is to be stored, or "". */
static inline const char *compute_call_store(const struct compute_call *call)
{
    return call->operation->store_at == 0
               ? ""
               : call_request_field(&call->request, call->operation->store_at);
}

/* The length of the decompressed body, as the request's headers say. */
struct body_length {
    bool known; /* false: the body is chunked or compressed */
    uint64_t bytes;
};

/* Begins a call of an operation, with the parameters at their defaults. The caller has zeroed
 * `call`.
 */
void compute_call_begin(struct compute_call *call, const struct call_operation *operation);
/* Acquires the resident operands that the parameters name, unless the call has them already, checks
 * the request, and sets timeout_ms and priority. Called when all parameters are set.
 * GEMMD_ERR_NOT_FOUND, GEMMD_ERR_FORBIDDEN: a tensor or a sequence is not there, or another
 * tenant's; GEMMD_ERR_MALFORMED; GEMMD_ERR_UNSUPPORTED. */
enum gemmd_error compute_call_settle(struct compute_call *call, struct services *services,
                                     const char *tenant, struct fault *fault);
/* Computes the layout of a raw body from the request's parameters. Operands that lie in the
 * client's memory are left out of the layout afterwards (operand_layout_leave_out).
 * GEMMD_ERR_TOO_LARGE. */
enum gemmd_error compute_call_layout(struct compute_call *call, struct fault *fault);
/* Admits the call at the request's headers: checks the length of the body, chooses the device that
 * computes (executor.h), makes the reservation, prepares a call whose body is raw (call_prepare),
 * and takes the memory of the body. The caller has begun and
 * settled the call, and has set the formats, `shapes_inside`, `sends_lse`,
 * `front_bytes`, the deadline, `residents`, `client_memory`, `config`, `memory` and work.tenant.
 * After a failure compute_call_close must be called. GEMMD_ERR_MALFORMED: a raw body has another
 * length; GEMMD_ERR_TOO_LARGE (--max-body); other errors are those of queue_admit and call_prepare;
 * GEMMD_ERR_OUT_OF_MEMORY: no pinned memory for the body. */
enum gemmd_error compute_call_open(struct compute_call *call, struct services *services,
                                   struct body_length length, struct fault *fault);
/* Starts to look for the operands in the body while it arrives: finds them if that needs no byte of
 * the body, and sets call->look_at_bytes. Called after compute_call_open. Errors are those of
 * compute_call_copy_early. */
enum gemmd_error compute_call_look_ahead(struct compute_call *call, struct services *services,
                                         struct fault *fault);
/* Appends bytes to the body. If the call looks ahead and at least call->look_at_bytes of the body
 * have arrived, looks for the operands, and starts the early copy if they were found.
 * GEMMD_ERR_MALFORMED: more bytes than a raw body has; GEMMD_ERR_TOO_LARGE (--max-body);
 * GEMMD_ERR_OUT_OF_MEMORY; errors of admission_grow and of compute_call_copy_early. */
enum gemmd_error compute_call_append(struct compute_call *call, struct services *services,
                                     const void *bytes, uint64_t length, struct fault *fault);
/* Whether the device copies early and the body is large enough for an early copy. For callers that
 * find the operands themselves. */
bool compute_call_copies_early(const struct compute_call *call);
/* Prepares the call (call_placement.h), and starts the early copy of operands that the caller has
 * found, with whose shapes `request` is completed. Operands without data, and operands that do not
 * lie in the body, are copied when the work runs. Errors are those of call_prepare. */
enum gemmd_error compute_call_copy_early(struct compute_call *call, struct services *services,
                                         const union call_request *request,
                                         const union call_operands *operands, struct fault *fault);
/* Finds the operands in the complete body, and prepares call->work for the queue. Only work.done,
 * work.started and work.queued_ns are left to the caller, who then calls compute_call_push.
 * GEMMD_ERR_MALFORMED or GEMMD_ERR_UNSUPPORTED: the operands; other errors are those of
 * call_prepare and GEMMD_ERR_OUT_OF_MEMORY. */
enum gemmd_error compute_call_bind(struct compute_call *call, struct services *services,
                                   struct fault *fault);
/* Does the same as compute_call_bind for operands that the caller has found. The caller has also
 * completed the request with their shapes (gemm_request_bind_tensors,
 * attention_request_bind_tensors). The operands lie in the body, in the client's memory, or in
 * pinned memory that stays until the work is done. */
enum gemmd_error compute_call_bind_operands(struct compute_call *call, struct services *services,
                                            union call_operands *operands, struct fault *fault);
/* Pushes the work of a bound call, or the subproblems of the call, to the queues of the devices
 * that compute them. The caller has set work.done, work.started and work.queued_ns. The call may be
 * done, and gone, at once. */
void compute_call_push(struct compute_call *call);
/* Takes back a call that was pushed, as queue_cancel does. Returns true if no work of the call runs
 * any more, so that `done` is not called. */
bool compute_call_cancel(struct compute_call *call);
/* Moves a call whose work is not in the queue yet. `to` takes over everything that `from` owns.
 * `from` keeps a description of the product for the log. */
void compute_call_move(struct compute_call *to, struct compute_call *from);
/* Frees everything except the results and, for the time that they take to be sent, their part of
 * the reservation (admission_keep), after the work is done. Further calls do nothing. */
void compute_call_finish(struct compute_call *call, struct services *services);
/* Frees everything that the call still owns, and releases its references. May be called again. */
void compute_call_close(struct compute_call *call, struct services *services);

/* ---- what is told of a result: the headers of an answer, which is sent to the waiting client or
 * kept as a job's result, and the entry of the access log. Pure functions. ---- */

/* Times of a request; monotonic clock. */
struct compute_times {
    uint64_t started_ns, received_ns, answered_ns;
};

/* Adds the headers of a call whose work has succeeded: Content-Type, Location if the result is
 * stored, and the headers of compute_call_product_headers. */
void compute_call_headers(const struct compute_call *call, const struct compute_times *times,
                          struct headers *headers);
/* Adds the headers that describe the result and its computation: Gemmd-Shape, Gemmd-Dtype,
 * Gemmd-Kernel, Gemmd-Batch, Server-Timing, and Gemmd-Verify if the result was verified. */
void compute_call_product_headers(const struct compute_call *call,
                                  const struct compute_times *times, struct headers *headers);

/* Describes the computation of a call for the access log. The call may be zeroed; `operation`
 * stands for the operation of a call that has none yet. Returns the type of the operands, or
 * GEMMD_DTYPE_COUNT if the type is not known. `work_ended`: no other thread has the work. */
enum gemmd_dtype compute_call_describe(const struct compute_call *call,
                                       const struct call_operation *operation, bool work_ended,
                                       struct log_access *entry);

/* ---- jobs: requests to compute with Prefer: respond-async, whose results the client fetches
 * later, over any connection (compute_job.c). Only the request's I/O thread calls these functions.
 * ---- */

/* Opens a job at the request's headers, after compute_call_open, and reserves the bytes of the
 * result if the shapes are known. Sets the field `job` of struct compute_request. Errors are in
 * request->fault. */
enum gemmd_error compute_job_open(struct request *request);
/* Moves the bound call to the job, queues its work and answers 202. On failure the request is
 * answered with the error. To be called after compute_call_bind. */
void compute_job_submit(struct request *request);

#endif
