/*
 * verifier.h - the thread that checks results on the host (Freivalds' algorithm,
 * kernels/freivalds.h), so that the dispatch thread does not stall. The device checks results that
 * lie where the host cannot read (device_plan); the verifier then only compares the residual with
 * its limit.
 *
 * The works that are being checked wait in a list of their own. The reservations of their requests
 * bound that list (admission.h).
 */
#ifndef SERVER_SCHEDULER_VERIFIER_H
#define SERVER_SCHEDULER_VERIFIER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "server/device/work.h"

struct verifier;

enum verify_result { VERIFY_PASS, VERIFY_FAIL, VERIFY_ERROR, VERIFY_RESULT_COUNT };

/* Results of checks so far, by why the result was checked (WORK_VERIFY_ASKED or
 * WORK_VERIFY_SAMPLED). VERIFY_ERROR counts checks that could not be made. Any thread. */
struct verify_counts {
    atomic_uint_fast64_t count[WORK_VERIFY_COUNT][VERIFY_RESULT_COUNT];
};

/* Starts the thread. NULL: the thread cannot start, or there is no memory. */
struct verifier *verifier_start(void);
/* Checks all works that were pushed, then ends the thread. */
void verifier_end(struct verifier *verifier);
/* Frees the verifier, after verifier_end. */
void verifier_free(struct verifier *verifier);

/* Ends a work that has succeeded and whose result is to be checked: at once if the device has made
 * the check, else on the verifier's thread. A wrong result is GEMMD_ERR_VERIFICATION. A result that
 * could not be checked is an error if the client has asked for the check. Any thread. */
void verifier_push(struct verifier *verifier, struct work *work);
const struct verify_counts *verifier_counts(const struct verifier *verifier);
/* Whether the thread has looked for works since the last call. Wakes the thread for the next call.
 * Always called on the same thread. */
bool verifier_alive(struct verifier *verifier);

#endif
