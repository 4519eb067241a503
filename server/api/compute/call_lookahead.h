/*
 * call_lookahead.h - a large body's operands go to the device while the rest of it is received.
 *
 * That needs their places, and memory for all of the work. A raw body's are known at the headers;
 * the other formats have headers of their own, which are read as soon as they are there. They say
 * how long they are, and none is longer than its format's limit, so that a body is looked at some
 * few times. What cannot be said or taken early makes no difference: the complete body is read as
 * if nobody had looked at it before, and refused then if it has to be.
 *
 * On the request's I/O thread. Where the device does not copy early nothing is looked at.
 */
#ifndef SERVER_API_COMPUTE_CALL_LOOKAHEAD_H
#define SERVER_API_COMPUTE_CALL_LOOKAHEAD_H

#include "server/api/compute/compute_call.h"

/* There is memory for the body, which nobody looks at so far: looks, as far as that can be done
 * without any of it, and sets look_at_bytes. */
void call_lookahead_open(struct compute_call *call, struct services *services);
/* More of the body has been appended: looks, if there is enough for that, and starts to copy if all
 * is known. */
void call_lookahead_arrived(struct compute_call *call, struct services *services);

/* Whether anything would be gained by knowing a body's operands early: for formats that somebody
 * else reads. */
bool call_lookahead_pays(const struct compute_call *call, const struct services *services);
/* They are known, and the request is complete with them: takes the memory and starts to copy, if it
 * can. Operands without data, and those that do not lie in the body, go late. */
void call_lookahead_start(struct compute_call *call, struct services *services,
                          const union call_operands *operands);

#endif
