/*
 * job_thread.h - the thread that ends jobs and throws away what has expired.
 *
 * A finished job's result is copied from pinned into ordinary memory. That takes too long for the
 * dispatch thread (3 to 6 s for a GiB on a virtual machine with two cores, most of it for pages
 * that the system has to find first) and for an I/O thread, which has others to serve.
 */
#ifndef SERVER_JOBS_JOB_THREAD_H
#define SERVER_JOBS_JOB_THREAD_H

#include <stdint.h>

#include "server/base/inbox.h"
#include "server/device/memory/pool.h"
#include "server/jobs/jobs.h"

struct job_thread;

/* Starts the thread; both are borrowed and must outlive it. NULL if it can't. */
struct job_thread *job_thread_start(struct jobs *jobs, struct pool *pool);
/* Ends the thread once it has done what it was given. NULL is allowed. */
void job_thread_stop(struct job_thread *job_thread);
/* Does what was given after job_thread_stop, then frees the job_thread. NULL is allowed. */
void job_thread_destroy(struct job_thread *job_thread);

/* Any thread: has the message's `act` run on the job_thread's. */
void job_thread_post(struct job_thread *job_thread, struct inbox_message *message);
/* The job_thread's own blocks of the pool; for what runs on its thread. */
struct pool_cache *job_thread_memory(struct job_thread *job_thread);
/* Called by a timer, always by the same thread: lets expire what is due. */
void job_thread_check(struct job_thread *job_thread, uint64_t now_ns);

#endif
