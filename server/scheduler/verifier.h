/*
 * verifier.h - the thread that checks results on the host (Freivalds) for requests that ask for it,
 * so that the dispatch thread does not stall on them.
 *
 * Works wait in a list of their own, which the places of the main queue bound.
 */
#ifndef SERVER_SCHEDULER_VERIFIER_H
#define SERVER_SCHEDULER_VERIFIER_H

#include "server/device/work.h"

struct verifier;

/* Starts the thread; NULL if it can't. */
struct verifier *verifier_start(void);
/* Finishes all that was pushed, then ends the thread. NULL is allowed. */
void verifier_stop(struct verifier *verifier);

/* Checks the work's result and calls `done`. A result that is wrong, or could not be checked, is
 * an error in the work. */
void verifier_push(struct verifier *verifier, struct work *work);

#endif
