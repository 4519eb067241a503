/*
 * job_thread.h - the job thread, which finishes jobs and expires their answers.
 *
 * The result of a finished job is copied from pinned memory to ordinary memory. That takes too long
 * for the dispatch thread (3 to 6 s for a GiB on a virtual machine with two cores, most of it for
 * pages that the system has to allocate first), and for an I/O thread, which serves other requests.
 * The job thread copies in pieces, fairly between tenants and in turns within a tenant
 * (sfq.h), so that large results delay no small one for long.
 */
#ifndef SERVER_JOBS_JOB_THREAD_H
#define SERVER_JOBS_JOB_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "server/base/inbox.h"
#include "server/base/sfq.h"
#include "server/device/memory/pinned_pool.h"
#include "server/jobs/jobs.h"

struct job_thread;

/* The most bytes that are copied before other jobs have their turns. */
enum { JOB_PIECE_BYTES = 4 << 20 };

/* What is left to do for a job whose work has ended; part of its owner's own struct. */
struct job_errand {
    uint32_t tenant;
    uint64_t bytes; /* that are left to copy; the owner keeps count */
    /* Does the next piece, of up to JOB_PIECE_BYTES, on the job thread. Returns whether more is
     * left; if not, the owner may have freed the struct. */
    bool (*advance)(struct job_errand *errand);

    /* Only the job thread uses these fields. */
    struct job_thread *job_thread;
    struct inbox_message message;
    struct fair_item item;
};

/* Starts the thread, for tenants 0 ... tenants - 1. Both pointers are borrowed and must outlive the
 * thread. NULL: the thread cannot start, or there is no memory. */
struct job_thread *job_thread_start(struct jobs *jobs, struct pool *pool, uint32_t tenants);
/* Ends the thread after all errands that were posted so far. They see that the thread stops, and
 * need not copy results, which nobody can fetch any more. NULL is allowed. */
void job_thread_stop(struct job_thread *job_thread);
/* Does the errands that were posted after job_thread_stop, then frees the struct. NULL is allowed.
 */
void job_thread_destroy(struct job_thread *job_thread);

/* Has the errand done on the job thread. The owner has set the first group of fields. Any thread.
 */
void job_thread_post(struct job_thread *job_thread, struct job_errand *errand);
/* Whether job_thread_stop was called. For code that runs on the job thread. */
bool job_thread_is_stopping(const struct job_thread *job_thread);
/* The job thread's own cache of the pool, for code that runs on the job thread. */
struct pool_cache *job_thread_memory(struct job_thread *job_thread);
/* Expires the answers that are due, on the job thread. Called by a timer, always on the same
 * thread. */
void job_thread_check(struct job_thread *job_thread, uint64_t now_ns);
/* Whether the thread has made progress since the last call. Wakes the thread for the next call.
 * Always called on the same thread. The time between two calls must be longer than the job thread
 * takes for a piece. */
bool job_thread_alive(struct job_thread *job_thread);

#endif
