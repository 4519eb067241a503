/*
 * jobs.h - requests whose clients do not stay for the answer (RFC 7240, respond-async).
 *
 * A job is opened at the headers of its request, has a name from job_accept on, and ends with
 * job_finish, whatever became of its work. Its answer is kept until it is deleted or expires; for a
 * while after that its name is remembered, so that a late client learns what happened.
 *
 *   receiving -> queued -> running -> done | failed -> expired -> forgotten
 *                  `---------`--> cancelled --------------------> forgotten
 *
 * All that are open or kept count against the limit, to the last one exactly; names that are only
 * remembered do not, and there are at most as many of them. The store does not know what a job
 * computes: that is the business of its task's owner.
 *
 * Any thread, one lock, never held for long; the clock is the caller's (clock_now_ns).
 */
#ifndef SERVER_JOBS_JOBS_H
#define SERVER_JOBS_JOBS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"
#include "server/jobs/job_answer.h"
#include "server/jobs/job_id.h"

struct job;
struct jobs;

enum job_state {
    JOB_RECEIVING, /* the body is on its way; it has no name yet */
    JOB_QUEUED,
    JOB_RUNNING,
    JOB_DONE,
    JOB_FAILED,
    JOB_CANCELLED,
    JOB_EXPIRED,
    JOB_STATES
};
const char *job_state_name(enum job_state state);

enum { JOB_TENANT_MAX = 63, JOB_REQUEST_ID_MAX = 128 };

struct jobs_limits {
    uint32_t max_jobs;
    uint64_t max_bytes; /* of all answers */
    uint64_t ttl_ns;    /* how long an answer is kept, and then its name */
};

struct jobs *jobs_create(const struct jobs_limits *limits); /* NULL: out of memory */
/* Nobody may use a job, an answer or the store any more. NULL is allowed. */
void jobs_destroy(struct jobs *jobs);

/* What computes a job; a part of its owner's own structure. */
struct job_task {
    /* The job was cancelled: its work may be dropped if it has not begun. Called with the store
     * locked, at most once; must not block nor call back. job_finish is still to come. */
    void (*cancel)(struct job_task *task);
};

/* --- For those who make jobs. A job is its opener's until job_accept, the store's afterwards, but
 * stays until job_finish. */

/* GEMMD_ERR_QUEUE_FULL if there are too many, GEMMD_ERR_OUT_OF_MEMORY. `op` is static. */
enum gemmd_error job_open(struct jobs *jobs, const char *tenant, const char *op,
                          const char *request_id, struct job **job, struct fault *fault);
/* The answer, to be given memory (job_answer_reserve) before job_accept and to be written before
 * job_finish. Borrowed. */
struct job_answer *job_answer(struct job *job);
/* It came to nothing. NULL is allowed. */
void job_discard(struct job *job);

/* How a job stands, for job_view_json. */
struct job_view {
    char id[JOB_ID_TEXT + 1];
    enum job_state state;
    const char *op;
    char request_id[JOB_REQUEST_ID_MAX + 1];
    int64_t created_ms, expires_ms; /* since the epoch; 0 as long as it does not expire */
    uint64_t queued_ns, running_ns; /* so far */
    bool has_started;
    int status; /* of the answer; 0: there is none (yet) */
    uint64_t bytes;
};

/* The job can be found from now on and must be finished. `view` (may be NULL) is how it stands. */
void job_accept(struct job *job, struct job_task *task, uint64_t now_ns, struct job_view *view);
/* Its work has begun. */
void job_start(struct job *job, uint64_t now_ns);
/* Its work has ended and the answer says how; the job and the task are not used afterwards. An
 * answer that nobody wants any more is dropped. */
void job_finish(struct job *job, uint64_t now_ns);
/* Whether the answer is not wanted any more. */
bool job_is_cancelled(struct job *job);

/* --- For those who ask. `id` is any text. GEMMD_ERR_NOT_FOUND, GEMMD_ERR_FORBIDDEN (another
 * tenant's), GEMMD_ERR_GONE (expired). */

/* `answer` (may be NULL) becomes a new reference, or NULL as long as there is none. */
enum gemmd_error jobs_find(struct jobs *jobs, const char *id, const char *tenant, uint64_t now_ns,
                           struct job_view *view, struct job_answer **answer, struct fault *fault);
/* Cancels what is not done and removes what is. Once more: nothing happens to what is cancelled;
 * what was removed is not found. */
enum gemmd_error jobs_delete(struct jobs *jobs, const char *id, const char *tenant, uint64_t now_ns,
                             struct job_view *view, struct fault *fault);

/* Someone who waits for the end of a job; a part of his own structure. */
struct job_waiter {
    struct job_waiter *next, **link; /* the store's: among those of a job; link NULL: not there */
    uint64_t until_ns;               /* the longest he waits */
    /* Called once, with the store locked: must not block nor call back; the waiter is not used
     * afterwards. */
    void (*wake)(struct job_waiter *waiter);
};
/* False if there is nothing to wait for: no such job of this tenant, or it has ended. */
bool jobs_wait(struct jobs *jobs, const char *id, const char *tenant, struct job_waiter *waiter);
/* He waits no longer: true, and `wake` will not be called. False if it was. For a waiter that
 * jobs_wait was called with. */
bool jobs_unwait(struct jobs *jobs, struct job_waiter *waiter);

/* Looks at how much has ended; called by a timer, some times a second. */
void jobs_sample(struct jobs *jobs, uint64_t now_ns);
/* Seconds until a job may have its result, or until another one may be opened, at the rate at which
 * jobs finished and came free lately: as Retry-After wants them (drain_rate.h). */
uint32_t jobs_result_wait_s(struct jobs *jobs, const char *id);
uint32_t jobs_open_wait_s(struct jobs *jobs, uint64_t now_ns);

/* --- For the thread that keeps them. */

/* Lets expire, forgets and wakes what is due. */
void jobs_expire(struct jobs *jobs, uint64_t now_ns);
/* When there is something for jobs_expire to do; UINT64_MAX: nothing so far. Takes no lock. */
uint64_t jobs_due_ns(const struct jobs *jobs);
/* Wakes all who wait; nobody can wait from now on. */
void jobs_close(struct jobs *jobs);

struct jobs_counts {
    uint32_t states[JOB_STATES]; /* those that count against the limit; cancelled: still at work */
    uint64_t bytes;
    uint64_t created, cancelled, expired; /* so far */
};
struct jobs_counts jobs_counts(struct jobs *jobs);
/* Accepted and not finished. */
uint32_t jobs_unfinished(struct jobs *jobs);

#endif
