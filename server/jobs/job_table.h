/*
 * job_table.h - the jobs that have a name: found by it, and each in one of three lists by what
 * happens to it next. As every answer is kept equally long, the lists are in the order in which
 * that happens.
 *
 * For jobs.c, under its lock. Owns no job.
 */
#ifndef SERVER_JOBS_JOB_TABLE_H
#define SERVER_JOBS_JOB_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/jobs/jobs.h"

enum job_list {
    JOB_LIST_UNFINISHED, /* their work ends */
    JOB_LIST_KEPT,       /* they expire */
    JOB_LIST_REMEMBERED, /* they are forgotten */
    JOB_LISTS
};

struct job {
    struct jobs *jobs;
    struct job *next_in_bucket;
    struct job *next, *previous; /* of its list */
    struct job_id id;
    char tenant[JOB_TENANT_MAX + 1], request_id[JOB_REQUEST_ID_MAX + 1];
    const char *op;
    enum job_state state;
    struct job_task *task;     /* from job_accept to job_finish */
    struct job_answer *answer; /* NULL once it is not wanted and nobody writes it */
    struct job_waiter *waiters;
    int64_t created_ms; /* since the epoch */
    uint64_t accepted_ns, started_ns, finished_ns;
    uint64_t due_ns; /* kept: expires; remembered: is forgotten */
};

struct job_table {
    struct job **buckets;
    uint64_t bucket_mask;
    struct {
        struct job *first, *last;
    } lists[JOB_LISTS];
};

/* For `max_jobs` that are open and as many that are remembered. False: out of memory. */
bool job_table_open(struct job_table *table, uint32_t max_jobs);
void job_table_close(struct job_table *table);

/* By its name; NULL if there is none, or `text` is no name. */
struct job *job_table_find(const struct job_table *table, const char *text);
void job_table_add(struct job_table *table, struct job *job);
/* It cannot be found any more. It stays in its list. */
void job_table_remove(struct job_table *table, struct job *job);

/* A job that is in no list goes to the end of one. */
void job_list_append(struct job_table *table, enum job_list list, struct job *job);
void job_list_remove(struct job_table *table, enum job_list list, struct job *job);
/* Takes out the first if its due_ns has come, else NULL. */
struct job *job_list_pop(struct job_table *table, enum job_list list, uint64_t now_ns);

#endif
