/*
 * verifier.h - the thread that checks results on the host (Freivalds' algorithm,
 * kernels/freivalds.h) for requests with `verify`, so that the dispatch thread does not stall.
 *
 * The works that are being checked wait in a list of their own. The reservations of their requests
 * bound that list (admission.h).
 */
#ifndef SERVER_SCHEDULER_VERIFIER_H
#define SERVER_SCHEDULER_VERIFIER_H

#include <stdbool.h>

#include "server/device/work.h"

struct verifier;

/* Starts the thread. NULL: the thread cannot start, or there is no memory. */
struct verifier *verifier_start(void);
/* Checks all works that were pushed, then ends the thread. NULL is allowed. */
void verifier_stop(struct verifier *verifier);

/* Has the result of a work checked, and the work ended by the verifier's thread. A result that is
 * wrong, or that could not be checked, is an error of the work. Any thread. */
void verifier_push(struct verifier *verifier, struct work *work);
/* Whether the thread has looked for works since the last call. Wakes the thread for the next call.
 * Always called on the same thread. */
bool verifier_alive(struct verifier *verifier);

#endif
