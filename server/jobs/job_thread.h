/*
 * job_thread.h - the job thread, which finishes jobs and expires their answers.
 *
 * The result of a finished job is copied from pinned memory to ordinary memory. That takes too long
 * for the dispatch thread (3 to 6 s for a GiB on a virtual machine with two cores, most of it for
 * pages that the system has to allocate first), and for an I/O thread, which serves other requests.
 */
#ifndef SERVER_JOBS_JOB_THREAD_H
#define SERVER_JOBS_JOB_THREAD_H

#include <stdint.h>

#include <stdbool.h>

#include "server/base/inbox.h"
#include "server/device/memory/pool.h"
#include "server/jobs/jobs.h"

struct job_thread;

/* Starts the thread. Both pointers are borrowed and must outlive the thread. NULL: the thread
 * cannot start, or there is no memory. */
struct job_thread *job_thread_start(struct jobs *jobs, struct pool *pool);
/* Ends the thread after it has handled every message so far. NULL is allowed. */
void job_thread_stop(struct job_thread *job_thread);
/* Handles the messages that were posted after job_thread_stop, then frees the struct. NULL is
 * allowed. */
void job_thread_destroy(struct job_thread *job_thread);

/* Has the message's `act` called on the job thread. Any thread. */
void job_thread_post(struct job_thread *job_thread, struct inbox_message *message);
/* The job thread's own cache of the pool, for code that runs on the job thread. */
struct pool_cache *job_thread_memory(struct job_thread *job_thread);
/* Expires the answers that are due, on the job thread. Called by a timer, always on the same
 * thread. */
void job_thread_check(struct job_thread *job_thread, uint64_t now_ns);
/* Whether the thread has handled its messages since the last call. Wakes the thread for the next
 * call. Always called on the same thread. The time between two calls must be longer than the job
 * thread takes for a message. */
bool job_thread_alive(struct job_thread *job_thread);

#endif
