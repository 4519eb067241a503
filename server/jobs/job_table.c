#include "server/jobs/job_table.h"

#include <stdlib.h>

static struct job **bucket_of(const struct job_table *table, const struct job_id *id)
{
    return &table->buckets[job_id_hash(id) & table->bucket_mask];
}

bool job_table_open(struct job_table *table, uint32_t max_jobs)
{
    uint64_t buckets = 16;
    while (buckets < 2 * (uint64_t)max_jobs)
        buckets *= 2;
    *table = (struct job_table){.buckets = calloc(buckets, sizeof(struct job *)),
                                .bucket_mask = buckets - 1};
    return table->buckets != NULL;
}

void job_table_close(struct job_table *table)
{
    free(table->buckets);
}

struct job *job_table_find(const struct job_table *table, const char *text)
{
    struct job_id id;
    if (!job_id_read(text, &id))
        return NULL;
    struct job *job = *bucket_of(table, &id);
    while (job != NULL && !job_id_equal(&job->id, &id))
        job = job->next_in_bucket;
    return job;
}

void job_table_add(struct job_table *table, struct job *job)
{
    struct job **bucket = bucket_of(table, &job->id);
    job->next_in_bucket = *bucket;
    *bucket = job;
}

void job_table_remove(struct job_table *table, struct job *job)
{
    struct job **link = bucket_of(table, &job->id);
    while (*link != job)
        link = &(*link)->next_in_bucket;
    *link = job->next_in_bucket;
}

void job_list_append(struct job_table *table, enum job_list list, struct job *job)
{
    job->next = NULL;
    job->previous = table->lists[list].last;
    if (job->previous != NULL)
        job->previous->next = job;
    else
        table->lists[list].first = job;
    table->lists[list].last = job;
}

void job_list_remove(struct job_table *table, enum job_list list, struct job *job)
{
    if (job->previous != NULL)
        job->previous->next = job->next;
    else
        table->lists[list].first = job->next;
    if (job->next != NULL)
        job->next->previous = job->previous;
    else
        table->lists[list].last = job->previous;
}

struct job *job_list_pop(struct job_table *table, enum job_list list, uint64_t now_ns)
{
    struct job *job = table->lists[list].first;
    if (job == NULL || job->due_ns > now_ns)
        return NULL;
    job_list_remove(table, list, job);
    return job;
}
