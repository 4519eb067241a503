/* The states of a job, and what changes with them: counts, lists, waiters, and what is due next. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "server/jobs/jobs_parts.h"

enum { NS_PER_MS = 1000000 };

/* ---- the table of the jobs that have an id ---- */

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

struct job *job_list_pop(struct job_table *table, enum job_list list, uint64_t now_ns)
{
    struct list_item *first = table->lists[list].first;
    if (first == NULL || job_in_list(first)->due_ns > now_ns)
        return NULL;
    list_remove(first);
    return job_in_list(first);
}

/* ---- the requests that wait for a job's end ---- */

void job_wake_all(struct job *job)
{
    struct list_item *item;
    while ((item = list_take_first(&job->waiters)) != NULL) {
        struct job_waiter *waiter = OWNER_OF(item, struct job_waiter, of_job);
        waiter->wake(waiter);
    }
}

void job_wake_due(struct job *job, uint64_t now_ns)
{
    struct list_item *next;
    for (struct list_item *item = job->waiters.first; item != NULL; item = next) {
        struct job_waiter *waiter = OWNER_OF(item, struct job_waiter, of_job);
        next = item->next;
        if (waiter->until_ns <= now_ns) {
            list_remove(item);
            waiter->wake(waiter);
        } else if (waiter->until_ns < job->jobs->earliest_wait_ns) {
            job->jobs->earliest_wait_ns = waiter->until_ns;
        }
    }
}

/* ---- states ---- */

const char *job_state_name(enum job_state state)
{
    static const char *const names[JOB_STATES] = {"receiving", "queued",    "running", "done",
                                                  "failed",    "cancelled", "expired"};
    return names[state];
}

bool job_is_unfinished(const struct job *job)
{
    return job->state == JOB_QUEUED || job->state == JOB_RUNNING;
}

bool job_is_kept(const struct job *job)
{
    return job->state == JOB_DONE || job->state == JOB_FAILED;
}

void job_describe(const struct job *job, uint64_t now_ns, struct job_view *view)
{
    bool ended = job->finished_ns != 0;
    uint64_t end_ns = ended ? job->finished_ns : now_ns;
    uint64_t queue_end_ns = job->started_ns != 0 ? job->started_ns : end_ns;
    *view = (struct job_view){
        .state = job->state,
        .op = job->op,
        .created_ms = job->created_ms,
        .has_started = job->started_ns != 0,
        .queued_ns = queue_end_ns > job->accepted_ns ? queue_end_ns - job->accepted_ns : 0,
    };
    job_id_write(&job->id, view->id);
    memcpy(view->request_id, job->request_id, sizeof view->request_id);
    if (view->has_started && end_ns > job->started_ns)
        view->running_ns = end_ns - job->started_ns;
    if (job_is_kept(job)) {
        view->expires_ms =
            job->created_ms + (int64_t)((job->due_ns - job->accepted_ns) / NS_PER_MS);
        view->status = job->answer->status;
        view->bytes = job->answer->bytes;
    }
}

void jobs_set_due(struct jobs *jobs)
{
    uint64_t due_ns = jobs->earliest_wait_ns;
    for (int i = JOB_LIST_KEPT; i < JOB_LISTS; i++) {
        struct list_item *first = jobs->table.lists[i].first;
        if (first != NULL && job_in_list(first)->due_ns < due_ns)
            due_ns = job_in_list(first)->due_ns;
    }
    atomic_store(&jobs->due_ns, due_ns);
}

void job_set_state(struct job *job, enum job_state state)
{
    job->jobs->counts.states[job->state]--;
    job->jobs->counts.states[state]++;
    job->state = state;
}

void job_enlist(struct job *job)
{
    struct job_tenant *own = &job->jobs->tenants[job->tenant_number];
    job->number = ++own->accepted;
    list_append(&own->jobs, &job->of_tenant);
}

void job_uncount(struct job *job)
{
    list_remove(&job->of_tenant);
    job->jobs->counts.states[job->state]--;
    job->jobs->open--;
    job->jobs->tenants[job->tenant_number].open--;
    job->jobs->freed++;
}

void job_free(struct job *job)
{
    job_answer_release(job->answer);
    free(job);
}

bool jobs_forget_oldest(struct jobs *jobs, uint64_t now_ns)
{
    struct job *job = job_list_pop(&jobs->table, JOB_LIST_REMEMBERED, now_ns);
    if (job == NULL)
        return false;
    job_table_remove(&jobs->table, job);
    jobs->remembered--;
    free(job);
    return true;
}

void jobs_remember_id(struct jobs *jobs, struct job *job, uint64_t now_ns)
{
    if (jobs->remembered == jobs->limits.max_jobs)
        jobs_forget_oldest(jobs, UINT64_MAX);
    job->due_ns = now_ns + jobs->limits.ttl_ns;
    list_append(&jobs->table.lists[JOB_LIST_REMEMBERED], &job->in_list);
    jobs->remembered++;
}

struct job_answer *job_expire(struct job *job, uint64_t now_ns)
{
    struct jobs *jobs = job->jobs;
    struct job_answer *answer = job->answer;
    job->answer = NULL;
    job_uncount(job);
    job->state = JOB_EXPIRED;
    jobs->counts.expired++;
    jobs_remember_id(jobs, job, now_ns);
    return answer;
}

/* ---- room for the jobs of tenants within their shares ---- */

static bool is_beyond_share(const struct jobs *jobs, struct job_tenant *tenant, enum job_room room)
{
    if (room == JOB_ROOM_COUNT)
        return jobs->limits.tenant_jobs > 0 && tenant->open > jobs->limits.tenant_jobs;
    const uint64_t most = atomic_load(&tenant->budget.max_bytes);
    return most > 0 && atomic_load(&tenant->budget.bytes) > most;
}

/* Whether the bytes of a kept answer would be free at once, and the tenant has other answers: a
 * single answer may be larger than the tenant's share. */
static bool answer_may_give_way(struct job_tenant *tenant, struct job_answer *answer)
{
    return atomic_load(&answer->references) == 1 && answer->bytes > 0 &&
           answer->bytes < atomic_load(&tenant->budget.bytes);
}

/* The kept job of a tenant that was accepted first. NULL: no job can give way. */
static struct job *first_to_give_way(struct job_tenant *tenant, enum job_room room)
{
    for (struct list_item *item = tenant->jobs.first; item != NULL; item = item->next) {
        struct job *job = OWNER_OF(item, struct job, of_tenant);
        if (job_is_kept(job) &&
            (room == JOB_ROOM_COUNT || answer_may_give_way(tenant, job->answer)))
            return job;
    }
    return NULL;
}

bool jobs_make_room(struct jobs *jobs, enum job_room room, uint64_t now_ns,
                    struct job_answer **expired)
{
    struct job *found = NULL;
    for (uint32_t i = 0; i < jobs->limits.tenants; i++) {
        struct job_tenant *tenant = &jobs->tenants[i];
        if (!is_beyond_share(jobs, tenant, room))
            continue;
        struct job *job = first_to_give_way(tenant, room);
        if (job != NULL && (found == NULL || job->due_ns < found->due_ns))
            found = job;
    }
    if (found == NULL)
        return false;
    list_remove(&found->in_list);
    found->gave_way = true;
    *expired = job_expire(found, now_ns);
    jobs_set_due(jobs);
    return true;
}
