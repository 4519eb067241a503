/*
 * schedule.h - decides which request runs when: requests in flight, repeats, deadlines, stalls.
 *
 * Before a repeat a request waits with full jitter: a uniform random time up to an exponentially
 * growing bound, which spreads clients that were refused together. Marc Brooker, "Exponential
 * Backoff And Jitter", AWS Architecture Blog, 2015.
 */
#ifndef CLIENT_SCHEDULE_H
#define CLIENT_SCHEDULE_H

#include "client/client.h"

/* Starts a new request if fewer than max_in_flight requests are in flight, else queues the request.
 */
void schedule_submit(struct gemmd_request *request);
/* Waits for a socket or a timer, until `until_us` at most, handles the events, and calls the
 * callbacks of requests that are done. */
void schedule_turn(struct gemmd_client *client, uint64_t until_us);
/* Ends all requests that are not done with the error `code` and `message`. */
void schedule_end_all(struct gemmd_client *client, enum gemmd_error code, const char *message);
/* Ends a request at once and makes it DONE. The caller has set request->error. */
void schedule_cancel(struct gemmd_request *request);
/* Notes that the caller knows that the request is done. */
void schedule_report(struct gemmd_request *request);
/* Sets the callback of a request. */
void schedule_call(struct gemmd_request *request, gemmd_done_function call);
/* Returns a descriptor that is readable when a turn is due, from this call on. -1: the system has
 * no free descriptor. */
int schedule_watch(struct gemmd_client *client);

enum { BACKOFF_BASE_MS = 50, BACKOFF_CAP_MS = 5000 };

/* Returns a seed from the system for the `random` of backoff_us. Never 0. */
uint64_t backoff_seed(void);
/* Returns the time to wait, in microseconds, after `attempts` (at least 1) unsuccessful attempts:
 * retry_after_ms, which the daemon asked for, plus a random time up to
 * min(BACKOFF_CAP_MS, BACKOFF_BASE_MS * 2^(attempts - 1)). `*random` is the state of the random
 * number generator. */
uint64_t backoff_us(uint32_t attempts, uint32_t retry_after_ms, uint64_t *random);

#endif
