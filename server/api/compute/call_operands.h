/*
 * call_operands.h - the operands of a call: where they lie in the body, which of them have to be
 * copied on the host first, and the copies to the device that begin before the body is complete.
 *
 * To copy the operands early, the location of each operand must be known while the body is still
 * arriving. The locations in a raw body follow from the request's headers. The other formats have a
 * header of their own, which is read as soon as it has arrived. A format's header gives its own
 * length, which is limited, so that the header is read only a few times. Looking ahead refuses no
 * request: if an early copy is not possible, or if the header is malformed, compute_call_bind reads
 * the complete body as if nobody had looked ahead.
 *
 * All functions run on the thread that uses the call.
 */
#ifndef SERVER_API_COMPUTE_CALL_OPERANDS_H
#define SERVER_API_COMPUTE_CALL_OPERANDS_H

#include "server/api/compute/compute_call.h"

/* The operands in the front of a body. */
struct call_shapes {
    union call_request request; /* completed with the shapes, if the body has the shapes inside */
    union call_operands operands;
};

/* Finds the operands in the front of a body, of which call_operation.read says what it may lack.
 * The call is not changed. */
enum gemmd_error call_read_front(const struct compute_call *call, struct body_front *front,
                                 struct call_shapes *shapes, struct fault *fault);
/* Points the problem at the operands that have data. */
void call_point(struct compute_call *call, const union call_operands *operands);

/* Copies on the host, in call->scratch, are made of two kinds of operands: of batches and C0 in
 * column-major order, and of operands whose elements are not aligned, if the kernel reads operands
 * in place. call_copies_open takes the memory for the copies of a raw body's operands at the
 * request's headers, where the layout is known. call_copies_make copies what must be copied, and
 * points the operands' data at the copies. GEMMD_ERR_OUT_OF_MEMORY or GEMMD_ERR_TOO_LARGE. */
enum gemmd_error call_copies_open(struct compute_call *call, struct fault *fault);
enum gemmd_error call_copies_make(struct compute_call *call, union call_operands *operands,
                                  struct fault *fault);

/* Starts to look ahead: finds the operands if that needs no byte of the body, and sets
 * call->look_at_bytes. To be called after compute_call_open, which allocates the body's memory. */
void call_look_begin(struct compute_call *call, struct services *services);
/* Looks for the operands if at least call->look_at_bytes of the body have arrived, and starts the
 * early copy if they were found. To be called after each compute_call_append. */
void call_look_further(struct compute_call *call, struct services *services);

/* Whether the device copies early and the body is large enough for an early copy. For callers that
 * find the operands themselves. */
bool call_copies_early(const struct compute_call *call);
/* Starts the early copy of operands that the caller has found, with whose shapes `request` is
 * completed. Takes the device memory of the work; if the memory is not available, no early copy is
 * started. Operands without data, and operands that do not lie in the body, are copied when the
 * work runs. */
void call_copy_early(struct compute_call *call, struct services *services,
                     const union call_request *request, const union call_operands *operands);

#endif
