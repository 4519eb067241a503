/*
 * job_waiters.h - the requests that wait for a job's end, as a list of each job.
 *
 * Internal to the store of jobs. All functions are called under the store's lock.
 */
#ifndef SERVER_JOBS_JOB_WAITERS_H
#define SERVER_JOBS_JOB_WAITERS_H

#include <stdint.h>

struct job;
struct job_waiter;

void job_waiters_add(struct job *job, struct job_waiter *waiter);
/* Removes a waiter from the list that it is in. */
void job_waiters_remove(struct job_waiter *waiter);
/* Removes and wakes all waiters of a job. */
void job_waiters_wake_all(struct job *job);
/* Removes and wakes the waiters of a job that wait until `now_ns` or less. Lowers
 * jobs->earliest_wait_ns to the time of each waiter that goes on waiting. */
void job_waiters_wake_due(struct job *job, uint64_t now_ns);

#endif
