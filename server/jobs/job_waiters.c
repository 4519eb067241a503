#include "server/jobs/job_waiters.h"

#include <stddef.h>

#include "server/jobs/jobs_parts.h"

void job_waiters_wake_all(struct job *job)
{
    struct job_waiter *next;
    for (struct job_waiter *waiter = job->waiters; waiter != NULL; waiter = next) {
        next = waiter->next;
        waiter->link = NULL;
        waiter->wake(waiter);
    }
    job->waiters = NULL;
}

void job_waiters_add(struct job *job, struct job_waiter *waiter)
{
    waiter->next = job->waiters;
    waiter->link = &job->waiters;
    if (waiter->next != NULL)
        waiter->next->link = &waiter->next;
    job->waiters = waiter;
}

void job_waiters_remove(struct job_waiter *waiter)
{
    *waiter->link = waiter->next;
    if (waiter->next != NULL)
        waiter->next->link = waiter->link;
    waiter->link = NULL;
}

void job_waiters_wake_due(struct job *job, uint64_t now_ns)
{
    struct job_waiter **link = &job->waiters;
    while (*link != NULL) {
        struct job_waiter *waiter = *link;
        if (waiter->until_ns <= now_ns) {
            job_waiters_remove(waiter);
            waiter->wake(waiter);
            continue;
        }
        if (waiter->until_ns < job->jobs->earliest_wait_ns)
            job->jobs->earliest_wait_ns = waiter->until_ns;
        link = &waiter->next;
    }
}
