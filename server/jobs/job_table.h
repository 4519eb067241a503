/*
 * job_table.h - the table of the jobs that have an id. A job is found by its id, and is in one of
 * three lists, which say what happens to the job next. Every answer is kept for the same time, so
 * that each list is in the order of the jobs' times.
 *
 * Internal to the store of jobs (jobs_parts.h). All functions are called under the store's lock.
 * The table owns no job.
 */
#ifndef SERVER_JOBS_JOB_TABLE_H
#define SERVER_JOBS_JOB_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/jobs/job.h"

enum job_list {
    JOB_LIST_UNFINISHED, /* jobs whose work has not ended */
    JOB_LIST_KEPT,       /* jobs whose answer is kept until it expires */
    JOB_LIST_REMEMBERED, /* jobs of which only the id is kept, until it is forgotten */
    JOB_LISTS
};

struct job {
    struct jobs *jobs;
    struct job *next_in_bucket;
    struct job *next, *previous; /* in the job's list */
    struct job *newer, *older;   /* in the list of the tenant's jobs; NULL at the ends */
    uint64_t number;             /* of the tenant's accepted jobs, from 1 on */
    struct job_id id;
    uint32_t tenant_number;
    char tenant[JOB_TENANT_MAX + 1], request_id[JOB_REQUEST_ID_MAX + 1];
    const char *op;
    enum job_state state;
    struct job_owner *owner;   /* from job_accept to job_finish */
    struct job_answer *answer; /* NULL once nothing needs the answer and nothing writes it */
    struct job_waiter *waiters;
    int64_t created_ms; /* since the epoch */
    uint64_t accepted_ns, started_ns, finished_ns;
    uint64_t due_ns; /* when the answer expires (kept), or the id is forgotten (remembered) */
};

struct job_table {
    struct job **buckets;
    uint64_t bucket_mask;
    struct {
        struct job *first, *last;
    } lists[JOB_LISTS];
};

/* Opens a table for `max_jobs` open jobs and as many remembered ones. False: out of memory. */
bool job_table_open(struct job_table *table, uint32_t max_jobs);
void job_table_close(struct job_table *table);

/* Finds a job by the text of its id. NULL: there is no such job, or `text` is not an id. */
struct job *job_table_find(const struct job_table *table, const char *text);
/* Adds a job, which is found by its id from now on. */
void job_table_add(struct job_table *table, struct job *job);
/* Removes a job, which is not found any more. The job stays in its list. */
void job_table_remove(struct job_table *table, struct job *job);

/* Appends a job that is in no list to a list. */
void job_list_append(struct job_table *table, enum job_list list, struct job *job);
/* Removes a job from the list that it is in. */
void job_list_remove(struct job_table *table, enum job_list list, struct job *job);
/* Removes and returns the first job of a list, if its due_ns has come; NULL otherwise. */
struct job *job_list_pop(struct job_table *table, enum job_list list, uint64_t now_ns);

#endif
