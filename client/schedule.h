/*
 * schedule.h - which request runs when: places, repeats, deadlines, stalls.
 */
#ifndef CLIENT_SCHEDULE_H
#define CLIENT_SCHEDULE_H

#include "client/client.h"

/* Takes a new request: starts it if there is a place, else queues it. */
void schedule_submit(struct gemmd_request *request);
/* Lets time and sockets act once, waiting for them until `until_us` at most. */
void schedule_turn(struct gemmd_client *client, uint64_t until_us);
/* Takes a request off its way at once and makes it DONE; request->error says why. */
void schedule_abort(struct gemmd_request *request);

#endif
