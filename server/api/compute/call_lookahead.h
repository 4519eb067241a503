/*
 * call_lookahead.h - finds the operands in a large body while the body is still received, and
 * starts an early copy of the operands to the device.
 *
 * An early copy needs the offsets of the operands in the body, and the device memory of the work.
 * The offsets in a raw body are known at the request's headers. The other formats have a header of
 * their own, which is read as soon as it has arrived. A format's header gives its own length, which
 * is limited, so that the header is read only a few times. Looking ahead refuses no request: if an
 * early copy is not possible, or if the header is malformed, compute_call_bind reads the complete
 * body as if nobody had looked ahead.
 *
 * All functions run on the request's I/O thread. They do nothing if the device does not copy early.
 */
#ifndef SERVER_API_COMPUTE_CALL_LOOKAHEAD_H
#define SERVER_API_COMPUTE_CALL_LOOKAHEAD_H

#include "server/api/compute/compute_call.h"

/* Starts to look ahead: finds the operands if that needs no byte of the body, and sets
 * call->look_at_bytes. To be called after compute_call_open, which allocates the body's memory. */
void call_lookahead_open(struct compute_call *call, struct services *services);
/* Looks for the operands if at least call->look_at_bytes of the body have arrived, and starts the
 * early copy if they were found. To be called after each compute_call_append. */
void call_lookahead_arrived(struct compute_call *call, struct services *services);

/* Whether the device copies early and the body is large enough for an early copy. For callers that
 * find the operands themselves. */
bool call_lookahead_pays(const struct compute_call *call);
/* Starts the early copy of operands that the caller has found, and with whose shapes the caller has
 * completed the request. Takes the device memory of the work; if the memory is not available, no
 * early copy is started. Operands
 * without data, and operands that do not lie in the body, are copied when the work runs. */
void call_lookahead_start(struct compute_call *call, struct services *services,
                          const union call_operands *operands);

#endif
