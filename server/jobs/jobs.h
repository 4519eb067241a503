/*
 * jobs.h - jobs: requests whose clients do not wait for the answer (RFC 7240, respond-async).
 *
 * A job is opened at the headers of its request, has an id from job_accept on, and ends with
 * job_finish, whether its work succeeded, failed or was cancelled (job.h). Its answer is kept until
 * the job is deleted or the answer expires. After that the job's id is remembered for a while, so
 * that a client that asks late learns what happened.
 *
 *   receiving -> queued -> running -> done | failed -> expired -> forgotten
 *                  `---------`--> cancelled --------------------> forgotten
 *
 * Open and kept jobs count against the limit of jobs, exactly. Remembered ids do not count; the
 * store remembers at most as many ids as the limit allows jobs. Only the owner of a job
 * knows what the job computes.
 *
 * Any thread. One mutex, never held for long. The caller provides the time (clock_now_ns).
 */
#ifndef SERVER_JOBS_JOBS_H
#define SERVER_JOBS_JOBS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"
#include "server/base/list.h"
#include "server/jobs/job.h"

struct jobs;

struct jobs_limits {
    uint32_t max_jobs;
    uint64_t max_bytes;   /* of all answers together */
    uint64_t ttl_ns;      /* how long an answer is kept, and then how long its id is remembered */
    uint32_t tenants;     /* tenants have the numbers 0 ... tenants - 1; 0 counts as one tenant */
    uint32_t tenant_jobs; /* open and kept jobs of each tenant; 0: only max_jobs limits */
    /* Answers of each tenant; 0: only max_bytes limits. A single answer may be larger, if its
     * tenant has no other answer. */
    uint64_t tenant_bytes;
};

/* NULL: out of memory. */
struct jobs *jobs_create(const struct jobs_limits *limits);
/* Changes the limits of each tenant, which have the meaning that they have in struct jobs_limits.
 * Jobs and answers beyond a lowered limit stay, and further ones of the tenant are refused. While a
 * tenant has more than its limit, the oldest of its kept answers expire as soon as another tenant
 * needs their place; its unfinished jobs stay. Any thread. */
void jobs_set_tenant_limits(struct jobs *jobs, uint32_t tenant_jobs, uint64_t tenant_bytes);
/* No job, answer or function of the store may be in use. NULL is allowed. */
void jobs_destroy(struct jobs *jobs);

/* --- For requests about jobs. `id` is any text. GEMMD_ERR_NOT_FOUND: there is no such job.
 * GEMMD_ERR_FORBIDDEN: the job belongs to another tenant. GEMMD_ERR_GONE: the answer has expired.
 */

/* Sets `view`. `*answer` (`answer` may be NULL) becomes a new reference to the answer, or NULL if
 * the job is not done. */
enum gemmd_error jobs_find(struct jobs *jobs, const char *id, const char *tenant, uint64_t now_ns,
                           struct job_view *view, struct job_answer **answer, struct fault *fault);
/* Describes the jobs of the tenant with a name and a number that were accepted before the tenant's
 * job number `before` (UINT64_MAX: all), the newest first, at most `limit` (at least 1) of them.
 * These are the jobs that count against the limit and have an id. Sets `*next` to the value of
 * `before` that continues the list, or to 0 at the list's end. Returns the number of `views`. */
uint32_t jobs_list(struct jobs *jobs, const char *tenant, uint32_t number, uint64_t before,
                   uint64_t now_ns, struct job_view views[], uint32_t limit, uint64_t *next);
/* Cancels an unfinished job, or removes a finished one, which is not found again. Does nothing to a
 * job that was cancelled before. */
enum gemmd_error jobs_delete(struct jobs *jobs, const char *id, const char *tenant, uint64_t now_ns,
                             struct job_view *view, struct fault *fault);

/* A request that waits for the end of a job; part of the request's own struct. */
struct job_waiter {
    struct list_item of_job; /* used by the store */
    uint64_t until_ns;       /* when the waiter stops waiting */
    /* Called once, with the store locked. The function must not block, nor call functions of the
     * store. The store does not use the waiter afterwards. */
    void (*wake)(struct job_waiter *waiter);
};
/* Starts to wait. False: there is nothing to wait for, since the tenant has no such job or the job
 * has ended. */
bool jobs_wait(struct jobs *jobs, const char *id, const char *tenant, struct job_waiter *waiter);
/* Stops waiting, for a waiter that jobs_wait was called with. True: `wake` will not be called.
 * False: `wake` was called, or the waiter never waited. */
bool jobs_unwait(struct jobs *jobs, struct job_waiter *waiter);

/* Records how many jobs have finished, for Retry-After. Called by a timer several times a second.
 */
void jobs_sample(struct jobs *jobs, uint64_t now_ns);
/* Seconds, for Retry-After (drain_rate.h), at the rate at which jobs finished and were removed
 * lately: until a job may have its result, and until another job may be opened. */
uint32_t jobs_result_wait_s(struct jobs *jobs, const char *id);
uint32_t jobs_open_wait_s(struct jobs *jobs, uint64_t now_ns);

/* --- For the job thread. */

/* Expires answers, forgets ids and wakes waiters whose time has come. */
void jobs_expire(struct jobs *jobs, uint64_t now_ns);
/* When jobs_expire next has something to do; UINT64_MAX: nothing so far. Takes no lock. */
uint64_t jobs_due_ns(const struct jobs *jobs);
/* Wakes all waiters. From now on jobs_wait returns false. */
void jobs_close(struct jobs *jobs);

struct jobs_counts {
    /* Jobs that count against the limit, by state. A cancelled job counts until its work ends. */
    uint32_t states[JOB_STATES];
    uint64_t bytes;                       /* of answers */
    uint64_t created, cancelled, expired; /* since the start */
    uint64_t refused_tenants; /* jobs refused because of a limit of their tenant, since the start */
};
struct jobs_counts jobs_counts(struct jobs *jobs);
/* The jobs of one tenant that count against the limit, and the bytes of their answers. */
struct jobs_held {
    uint64_t jobs, bytes;
};
struct jobs_held jobs_held_by(struct jobs *jobs, uint32_t tenant);
/* Number of jobs that were accepted and not finished. */
uint32_t jobs_unfinished(struct jobs *jobs);

#endif
