/*
 * compute_call.h - one product or other operation that a request asks for: its parameters, its
 * memory and its work for the device.
 *
 * compute_call_open, at the headers, refuses every request that can be refused without its body. It
 * makes the call's reservation of the admission limits. The shapes of a raw body are in the query,
 * so compute_call_open also takes all memory of a request with a raw body. Bodies of other formats
 * have the shapes inside. Their results are added to the reservation, and memory for the results is
 * taken, in compute_call_bind, or as soon as the format's header has arrived (call_lookahead.h). A
 * body that is chunked or compressed and has its shapes inside has no known length. Its reservation
 * grows with its memory, so that the daemon never holds a byte of a body without a reservation.
 *
 * A struct compute_call owns its memory. One thread at a time may use it: the request's I/O thread
 * or, for a job, the job thread. While the work is queued or running, only the queue and the
 * dispatch thread use `work` and the memory that it points to.
 */
#ifndef SERVER_API_COMPUTE_COMPUTE_CALL_H
#define SERVER_API_COMPUTE_COMPUTE_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "server/api/compute/call_state.h"

/* The length of the decompressed body, as the request's headers say. */
struct body_length {
    bool known; /* false: the body is chunked or compressed */
    uint64_t bytes;
};

/* Computes the layout of a raw body from the request's parameters. Operands that lie in the
 * client's memory are left out of the layout afterwards (operand_layout_leave_out).
 * GEMMD_ERR_TOO_LARGE. */
enum gemmd_error compute_call_layout(struct compute_call *call, struct fault *fault);
/* Admits the call at the request's headers: chooses the device that computes (executor.h), makes
 * the reservation, and takes the memory of the body. The caller has zeroed `call`, and has set
 * `operation`, its request with all parameters settled, the formats, `shapes_inside`, `sends_lse`,
 * `front_bytes`, the deadline, `residents`, `client_memory`, `config`, `memory` and work.tenant.
 * After a failure compute_call_close must be called. */
enum gemmd_error compute_call_open(struct compute_call *call, struct services *services,
                                   struct body_length length, struct fault *fault);
/* Appends bytes to the body. */
enum gemmd_error compute_call_append(struct compute_call *call, struct services *services,
                                     const void *bytes, uint64_t length, struct fault *fault);
/* Finds the operands in the complete body, and prepares call->work for the queue. Only work.done,
 * work.started and work.queued_ns are left to the caller, who then calls compute_call_push. */
enum gemmd_error compute_call_bind(struct compute_call *call, struct services *services,
                                   struct fault *fault);
/* Does the same as compute_call_bind for operands that the caller has found. The caller has also
 * completed the request with their shapes (gemm_request_bind_tensors,
 * attention_request_bind_tensors). The operands lie in the body, in the client's memory, or in
 * pinned memory that stays until the work is done. */
enum gemmd_error compute_call_bind_operands(struct compute_call *call, struct services *services,
                                            union call_operands *operands, struct fault *fault);
/* Pushes the work of a bound call, or the parts of the call, to the queues of the devices that
 * compute them. The caller has set work.done, work.started and work.queued_ns. The call may be
 * done, and gone, at once. */
void compute_call_push(struct compute_call *call);
/* Takes back a call that was pushed, as queue_cancel does. Returns true if no work of the call runs
 * any more, so that `done` is not called. */
bool compute_call_cancel(struct compute_call *call);
/* Moves a call whose work is not in the queue yet. `to` takes over everything that `from` owns.
 * `from` keeps a description of the product for the log. */
void compute_call_move(struct compute_call *to, struct compute_call *from);
/* Prepares to send the results: the reservation shrinks to the results' bytes, and is returned for
 * the time that the answer takes to be sent. No reservation is returned if there is no result to
 * send, or only a short one. To be called after the work is done and before compute_call_finish. */
struct admission_place compute_call_keep_place(struct compute_call *call,
                                               struct services *services);
/* Frees everything except the results, after the work is done. May be called again. */
void compute_call_finish(struct compute_call *call, struct services *services);
/* Frees everything that the call still owns, and releases its references. May be called again. */
void compute_call_close(struct compute_call *call, struct services *services);

#endif
