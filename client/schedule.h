/*
 * schedule.h - decides which request runs when: requests in flight, repeats, deadlines, stalls.
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

#endif
