/*
 * call_limits.h - what a call's limits apply to: the size of its results, and its reservation of
 * the admission limits (admission.h).
 *
 * The functions are called by the thread that uses the call (compute_call.h).
 */
#ifndef SERVER_API_COMPUTE_CALL_LIMITS_H
#define SERVER_API_COMPUTE_CALL_LIMITS_H

#include <gemmd/errors.h>
#include <stdbool.h>
#include <stdint.h>

struct compute_call;
struct fault;
struct services;

/* Whether the result is stored as a resident tensor. */
bool call_is_stored(const struct compute_call *call);
/* Computes the size of the results from the shapes, unless it is known. Returns false if the size
 * overflows. */
bool call_result_size(struct compute_call *call);
/* Enlarges the reservation to `bytes` bytes, unless it has as many already.
 * GEMMD_ERR_QUEUE_FULL, or another error of admission_grow: the limits have no room. */
enum gemmd_error call_grow_reservation(struct compute_call *call, struct services *services,
                                       uint64_t bytes, struct fault *fault);

#endif
