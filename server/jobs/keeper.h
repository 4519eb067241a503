/*
 * keeper.h - the thread that ends jobs and throws away what has expired.
 *
 * A finished job's result is copied from pinned into ordinary memory. That takes too long for the
 * dispatch thread (3 to 6 s for a GiB on a virtual machine with two cores, most of it for pages
 * that the system has to find first) and for an I/O thread, which has others to serve.
 */
#ifndef SERVER_JOBS_KEEPER_H
#define SERVER_JOBS_KEEPER_H

#include <stdint.h>

#include "server/device/pool.h"
#include "server/http/inbox.h"
#include "server/jobs/jobs.h"

struct keeper;

/* Starts the thread; both are borrowed and must outlive it. NULL if it can't. */
struct keeper *keeper_start(struct jobs *jobs, struct pool *pool);
/* Ends the thread once it has done what it was given. NULL is allowed. */
void keeper_stop(struct keeper *keeper);
/* Does what was given after keeper_stop, then frees the keeper. NULL is allowed. */
void keeper_destroy(struct keeper *keeper);

/* Any thread: has the message's `act` run on the keeper's. */
void keeper_post(struct keeper *keeper, struct inbox_message *message);
/* The keeper's own blocks of the pool; for what runs on its thread. */
struct pool_cache *keeper_memory(struct keeper *keeper);
/* Called by a timer, always by the same thread: lets expire what is due. */
void keeper_check(struct keeper *keeper, uint64_t now_ns);

#endif
