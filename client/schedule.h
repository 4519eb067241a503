/*
 * schedule.h - which request runs when: places, repeats, deadlines, stalls.
 */
#ifndef CLIENT_SCHEDULE_H
#define CLIENT_SCHEDULE_H

#include "client/client.h"

/* Takes a new request: starts it if there is a place, else queues it. */
void schedule_submit(struct gemmd_request *request);
/* Lets time and sockets act once, waiting for them until `until_us` at most, and calls the
 * callbacks that are due. */
void schedule_turn(struct gemmd_client *client, uint64_t until_us);
/* Takes a request off its way at once and makes it DONE; request->error says why. */
void schedule_cancel(struct gemmd_request *request);
/* The caller knows that the request is done. */
void schedule_report(struct gemmd_request *request);
/* Has `call` called when the request is done. */
void schedule_call(struct gemmd_request *request, gemmd_done_function call);
/* The descriptor that says when a turn is due; from now on it is kept right. -1 if there is none.
 */
int schedule_watch(struct gemmd_client *client);

#endif
