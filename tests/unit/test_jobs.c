/* server/jobs/jobs.c: states, exact limits, expiry, lists, waiting, and many threads. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failing_calls.h"
#include "server/jobs/jobs.h"

enum { MAX_JOBS = 4, MAX_BYTES = 100, TTL = 1000, START = 5000 };

static const struct jobs_limits limits = {
    .max_jobs = MAX_JOBS, .max_bytes = MAX_BYTES, .ttl_ns = TTL};

static int cancels;

static void count_cancel(struct job_owner *owner)
{
    (void)owner;
    cancels++;
}

static struct job_owner owner = {.cancel = count_cancel};

/* A job of tenant "t" with `bytes` reserved, not accepted yet. */
static struct job *open_job(struct jobs *jobs, uint64_t bytes)
{
    struct job *job;
    ck_assert_int_eq(job_open(jobs, "t", 0, "gemm", "req", 0, &job, NULL), GEMMD_OK);
    ck_assert_int_eq(job_reserve(job, bytes, 0, NULL), GEMMD_OK);
    return job;
}

static struct job *accept_job(struct jobs *jobs, uint64_t bytes, char id[JOB_ID_TEXT + 1])
{
    struct job_view view;
    struct job *job = open_job(jobs, bytes);
    job_accept(job, &owner, START, &view);
    memcpy(id, view.id, JOB_ID_TEXT + 1);
    return job;
}

static void finish_well(struct job *job, uint64_t now_ns)
{
    job_answer(job)->status = 200;
    memset(job_answer(job)->payload, 'x', job_answer(job)->bytes);
    job_finish(job, now_ns);
}

static void assert_code(struct jobs *jobs, const char *id, uint64_t now_ns, enum gemmd_error code)
{
    struct job_view view;
    enum gemmd_error got = jobs_find(jobs, id, "t", now_ns, &view, NULL, NULL);
    ck_assert_msg(got == code, "%s, not %s", error_name(got), error_name(code));
}

static enum job_state state_of(struct jobs *jobs, const char *id)
{
    struct job_view view;
    ck_assert_int_eq(jobs_find(jobs, id, "t", START, &view, NULL, NULL), GEMMD_OK);
    return view.state;
}

static void assert_empty(struct jobs *jobs)
{
    struct jobs_counts counts = jobs_counts(jobs);
    for (int i = 0; i < JOB_STATES; i++)
        ck_assert_msg(counts.states[i] == 0, "%u jobs are %s", counts.states[i],
                      job_state_name((enum job_state)i));
    ck_assert_uint_eq(counts.bytes, 0);
    ck_assert_uint_eq(jobs_unfinished(jobs), 0);
}

START_TEST(a_job_goes_through_its_states)
{
    struct jobs *jobs = jobs_create(&limits);
    struct job_view view;
    struct job_answer *answer;
    char id[JOB_ID_TEXT + 1];
    struct job *job = accept_job(jobs, 10, id);

    ck_assert_int_eq(jobs_find(jobs, id, "t", START + 7, &view, &answer, NULL), GEMMD_OK);
    ck_assert_int_eq(view.state, JOB_QUEUED);
    ck_assert_uint_eq(view.queued_ns, 7);
    ck_assert(!view.has_started);
    ck_assert_int_eq(view.status, 0);
    ck_assert_str_eq(view.request_id, "req");
    ck_assert_ptr_null(answer);

    job_start(job, START + 20);
    ck_assert_int_eq(jobs_find(jobs, id, "t", START + 50, &view, &answer, NULL), GEMMD_OK);
    ck_assert_int_eq(view.state, JOB_RUNNING);
    ck_assert_uint_eq(view.queued_ns, 20);
    ck_assert_uint_eq(view.running_ns, 30);
    ck_assert_ptr_null(answer);
    ck_assert_uint_eq(jobs_unfinished(jobs), 1);

    finish_well(job, START + 100);
    ck_assert_int_eq(jobs_find(jobs, id, "t", START + 900, &view, &answer, NULL), GEMMD_OK);
    ck_assert_int_eq(view.state, JOB_DONE);
    ck_assert_uint_eq(view.queued_ns, 20);
    ck_assert_uint_eq(view.running_ns, 80);
    ck_assert_int_eq(view.status, 200);
    ck_assert_uint_eq(view.bytes, 10);
    ck_assert_mem_eq(answer->payload, "xxxxxxxxxx", 10);
    ck_assert_uint_eq(jobs_unfinished(jobs), 0);
    job_answer_release(answer);
    jobs_destroy(jobs);
}
END_TEST

START_TEST(a_failed_job_keeps_its_fault_and_no_bytes)
{
    struct jobs *jobs = jobs_create(&limits);
    struct fault fault;
    struct job_answer *answer;
    struct job_view view;
    char id[JOB_ID_TEXT + 1];
    struct job *job = accept_job(jobs, 60, id);
    fault_set(&fault, GEMMD_ERR_DEADLINE, NULL, "too late");
    job_answer_fail(job_answer(job), &fault);
    job_finish(job, START + 5);
    ck_assert_int_eq(jobs_find(jobs, id, "t", START + 6, &view, &answer, NULL), GEMMD_OK);
    ck_assert_int_eq(view.state, JOB_FAILED);
    ck_assert_int_eq(view.status, 504);
    ck_assert_uint_eq(view.queued_ns, 5); /* it never ran */
    ck_assert(!view.has_started);
    ck_assert_int_eq(answer->fault.code, GEMMD_ERR_DEADLINE);
    ck_assert_str_eq(answer->fault.detail, "too late");
    ck_assert_uint_eq(jobs_counts(jobs).bytes, 0);
    job_answer_release(answer);
    jobs_destroy(jobs);
}
END_TEST

START_TEST(expires_and_is_forgotten_on_time)
{
    struct jobs *jobs = jobs_create(&limits);
    struct job_view view;
    char id[JOB_ID_TEXT + 1];
    ck_assert_uint_eq(jobs_due_ns(jobs), UINT64_MAX);
    struct job *job = accept_job(jobs, 10, id);
    jobs_expire(jobs, START + 100 * TTL);
    ck_assert_int_eq(state_of(jobs, id), JOB_QUEUED); /* only what is done grows old */

    finish_well(job, START);
    ck_assert_uint_eq(jobs_due_ns(jobs), START + TTL);
    jobs_expire(jobs, START + TTL - 1);
    assert_code(jobs, id, START, GEMMD_OK);
    ck_assert_uint_eq(jobs_counts(jobs).bytes, 10);

    jobs_expire(jobs, START + TTL);
    assert_code(jobs, id, START, GEMMD_ERR_GONE);
    assert_empty(jobs);
    ck_assert_uint_eq(jobs_counts(jobs).expired, 1);
    ck_assert_uint_eq(jobs_due_ns(jobs), START + 2 * TTL);
    ck_assert_int_eq(jobs_delete(jobs, id, "t", START, &view, NULL), GEMMD_ERR_GONE);

    jobs_expire(jobs, START + 2 * TTL - 1);
    assert_code(jobs, id, START, GEMMD_ERR_GONE);
    jobs_expire(jobs, START + 2 * TTL);
    assert_code(jobs, id, START, GEMMD_ERR_NOT_FOUND);
    ck_assert_uint_eq(jobs_due_ns(jobs), UINT64_MAX);
    jobs_destroy(jobs);
}
END_TEST

START_TEST(remembers_as_many_names_as_jobs)
{
    struct jobs *jobs = jobs_create(&limits);
    char ids[3 * MAX_JOBS][JOB_ID_TEXT + 1];
    for (int i = 0; i < 3 * MAX_JOBS; i++) {
        finish_well(accept_job(jobs, 1, ids[i]), START);
        jobs_expire(jobs, START + TTL);
    }
    for (int i = 0; i < 3 * MAX_JOBS; i++)
        assert_code(jobs, ids[i], START, i < 2 * MAX_JOBS ? GEMMD_ERR_NOT_FOUND : GEMMD_ERR_GONE);
    jobs_destroy(jobs);
}
END_TEST

START_TEST(the_count_is_exact)
{
    struct jobs *jobs = jobs_create(&limits);
    struct job *held[MAX_JOBS], *more;
    char id[JOB_ID_TEXT + 1];
    struct fault fault;
    for (int i = 0; i < MAX_JOBS; i++)
        held[i] = open_job(jobs, 1);
    ck_assert_uint_eq(jobs_counts(jobs).states[JOB_RECEIVING], MAX_JOBS);
    ck_assert_int_eq(job_open(jobs, "t", 0, "gemm", "", 0, &more, &fault), GEMMD_ERR_QUEUE_FULL);
    ck_assert_ptr_nonnull(strstr(fault.detail, "4 jobs"));

    job_discard(held[0]);
    held[0] = accept_job(jobs, 1, id);
    ck_assert_int_eq(job_open(jobs, "t", 0, "gemm", "", 0, &more, NULL), GEMMD_ERR_QUEUE_FULL);
    finish_well(held[0], START); /* kept, so it counts on */
    ck_assert_int_eq(job_open(jobs, "t", 0, "gemm", "", 0, &more, NULL), GEMMD_ERR_QUEUE_FULL);
    struct job_view view;
    ck_assert_int_eq(jobs_delete(jobs, id, "t", START, &view, NULL), GEMMD_OK);
    held[0] = open_job(jobs, 1);
    for (int i = 0; i < MAX_JOBS; i++)
        job_discard(held[i]);
    job_discard(NULL);
    assert_empty(jobs);
    jobs_destroy(jobs);
}
END_TEST

START_TEST(the_bytes_are_exact)
{
    struct jobs *jobs = jobs_create(&limits);
    struct job *large = open_job(jobs, 60), *small = open_job(jobs, 40), *more;
    ck_assert_int_eq(job_open(jobs, "t", 0, "gemm", "", 0, &more, NULL), GEMMD_OK);
    struct fault fault;
    ck_assert_int_eq(job_reserve(more, 1, 0, &fault), GEMMD_ERR_QUEUE_FULL);
    ck_assert_ptr_nonnull(strstr(fault.detail, "100 bytes of 100 bytes"));
    ck_assert_int_eq(job_reserve(more, MAX_BYTES + 1, 0, NULL), GEMMD_ERR_TOO_LARGE);
    job_discard(small);
    ck_assert_int_eq(job_reserve(more, 41, 0, NULL), GEMMD_ERR_QUEUE_FULL);
    ck_assert_int_eq(job_reserve(more, 40, 0, NULL), GEMMD_OK);
    ck_assert_uint_eq(jobs_counts(jobs).bytes, 100);
    job_discard(more);
    job_discard(large);
    assert_empty(jobs);
    jobs_destroy(jobs);
}
END_TEST

START_TEST(an_answer_that_is_being_sent_outlives_its_job)
{
    struct jobs *jobs = jobs_create(&limits);
    struct job_answer *answers[2];
    struct job_view view;
    char ids[2][JOB_ID_TEXT + 1];
    for (int i = 0; i < 2; i++) {
        finish_well(accept_job(jobs, 20, ids[i]), START);
        ck_assert_int_eq(jobs_find(jobs, ids[i], "t", START, &view, &answers[i], NULL), GEMMD_OK);
    }
    ck_assert_int_eq(jobs_delete(jobs, ids[0], "t", START, &view, NULL), GEMMD_OK);
    jobs_expire(jobs, START + TTL);
    ck_assert_uint_eq(jobs_counts(jobs).states[JOB_DONE], 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_uint_eq(jobs_counts(jobs).bytes, 40 - 20 * (uint64_t)i);
        ck_assert_mem_eq(answers[i]->payload, "xxxxxxxxxxxxxxxxxxxx", 20);
        job_answer_release(answers[i]);
    }
    assert_empty(jobs);
    jobs_destroy(jobs);
}
END_TEST

START_TEST(another_tenants_job_is_forbidden)
{
    struct jobs *jobs = jobs_create(&limits);
    struct job_view view;
    struct job_answer *answer = NULL;
    struct job_waiter waiter = {.until_ns = UINT64_MAX};
    char id[JOB_ID_TEXT + 1];
    struct job *job = accept_job(jobs, 1, id);
    cancels = 0;
    ck_assert_int_eq(jobs_find(jobs, id, "other", START, &view, &answer, NULL),
                     GEMMD_ERR_FORBIDDEN);
    ck_assert_int_eq(jobs_delete(jobs, id, "", START, &view, NULL), GEMMD_ERR_FORBIDDEN);
    ck_assert(!jobs_wait(jobs, id, "other", &waiter));
    ck_assert_int_eq(cancels, 0);
    ck_assert_ptr_null(answer);
    finish_well(job, START);
    jobs_expire(jobs, START + TTL);
    ck_assert_int_eq(jobs_find(jobs, id, "other", START, &view, NULL, NULL), GEMMD_ERR_FORBIDDEN);
    jobs_destroy(jobs);
}
END_TEST

START_TEST(what_is_no_id_is_not_found)
{
    static const char *const texts[] = {"", "x", "00000000000000000000000000000000",
                                        "0000000000000000000000000000000g", "../../etc/passwd"};
    struct jobs *jobs = jobs_create(&limits);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_code(jobs, texts[i], START, GEMMD_ERR_NOT_FOUND);
    struct job *job = open_job(jobs, 1); /* has no name before it is accepted */
    job_discard(job);
    jobs_destroy(jobs);
}
END_TEST

START_TEST(cancelling_tells_the_owner_once)
{
    struct jobs *jobs = jobs_create(&limits);
    struct job_view view;
    struct job_answer *answer;
    char id[JOB_ID_TEXT + 1];
    struct job *job = accept_job(jobs, 30, id);
    if (_i == 1)
        job_start(job, START + 1);
    cancels = 0;
    ck_assert(!job_is_cancelled(job));
    ck_assert_int_eq(jobs_delete(jobs, id, "t", START + 2, &view, NULL), GEMMD_OK);
    ck_assert_int_eq(view.state, JOB_CANCELLED);
    ck_assert_int_eq(jobs_delete(jobs, id, "t", START + 3, &view, NULL), GEMMD_OK);
    ck_assert_int_eq(view.state, JOB_CANCELLED);
    ck_assert_int_eq(cancels, 1);
    ck_assert(job_is_cancelled(job));
    job_start(job, START + 3); /* too late to stop it */
    ck_assert_int_eq(state_of(jobs, id), JOB_CANCELLED);
    ck_assert_uint_eq(jobs_counts(jobs).states[JOB_CANCELLED], 1);
    ck_assert_uint_eq(jobs_counts(jobs).bytes, 30);
    ck_assert_uint_eq(jobs_unfinished(jobs), 1);

    finish_well(job, START + 4);
    assert_empty(jobs);
    ck_assert_uint_eq(jobs_counts(jobs).cancelled, 1);
    ck_assert_uint_eq(jobs_counts(jobs).expired, 0);
    ck_assert_int_eq(jobs_find(jobs, id, "t", START + 5, &view, &answer, NULL), GEMMD_OK);
    ck_assert_int_eq(view.state, JOB_CANCELLED);
    ck_assert_ptr_null(answer);
    jobs_expire(jobs, START + 4 + TTL);
    assert_code(jobs, id, START, GEMMD_ERR_NOT_FOUND);
    jobs_destroy(jobs);
}
END_TEST

START_TEST(deleting_what_is_done_removes_it)
{
    struct jobs *jobs = jobs_create(&limits);
    struct job_view view;
    char ids[3][JOB_ID_TEXT + 1];
    for (int i = 0; i < 3; i++)
        finish_well(accept_job(jobs, 1, ids[i]), START + (uint64_t)i);
    cancels = 0;
    ck_assert_int_eq(jobs_delete(jobs, ids[1], "t", START, &view, NULL), GEMMD_OK);
    ck_assert_int_eq(view.state, JOB_DONE);
    ck_assert_int_eq(cancels, 0);
    ck_assert_int_eq(jobs_delete(jobs, ids[1], "t", START, &view, NULL), GEMMD_ERR_NOT_FOUND);
    ck_assert_int_eq(jobs_delete(jobs, ids[0], "t", START, &view, NULL), GEMMD_OK);
    ck_assert_uint_eq(jobs_due_ns(jobs), START + 2 + TTL);
    assert_code(jobs, ids[2], START, GEMMD_OK);
    ck_assert_uint_eq(jobs_counts(jobs).cancelled, 0);
    jobs_destroy(jobs);
}
END_TEST

struct sleeper {
    struct job_waiter waiter; /* first */
    int woken;
};

static void wake_sleeper(struct job_waiter *waiter)
{
    ((struct sleeper *)waiter)->woken++;
}

START_TEST(waiters_are_woken_by_what_comes_first)
{
    struct jobs *jobs = jobs_create(&limits);
    struct job_view view;
    struct sleeper sleepers[5];
    char ids[3][JOB_ID_TEXT + 1];
    struct job *job[3];
    for (int i = 0; i < 3; i++)
        job[i] = accept_job(jobs, 1, ids[i]);
    job_start(job[1], START);
    /* Two at the first job, one of them impatient; one at the second; two at the third. */
    static const int at[5] = {0, 0, 1, 2, 2};
    for (int i = 0; i < 5; i++) {
        sleepers[i] = (struct sleeper){
            .waiter = {.until_ns = i == 1 ? START + 10 : START + 1000, .wake = wake_sleeper}};
        ck_assert(jobs_wait(jobs, ids[at[i]], "t", &sleepers[i].waiter));
    }
    ck_assert_uint_eq(jobs_due_ns(jobs), START + 10);
    jobs_expire(jobs, START + 9);
    ck_assert_int_eq(sleepers[1].woken, 0);
    jobs_expire(jobs, START + 10);
    ck_assert_int_eq(sleepers[1].woken, 1);
    ck_assert_uint_eq(jobs_due_ns(jobs), START + 1000);

    finish_well(job[0], START + 20);
    ck_assert_int_eq(sleepers[0].woken, 1);
    ck_assert_int_eq(jobs_delete(jobs, ids[1], "t", START, &view, NULL), GEMMD_OK);
    ck_assert_int_eq(sleepers[2].woken, 1);
    jobs_close(jobs);
    finish_well(job[1], START + 30);
    finish_well(job[2], START + 30);
    for (int i = 0; i < 5; i++)
        ck_assert_msg(sleepers[i].woken == 1, "sleeper %d was woken %d times", i,
                      sleepers[i].woken);
    jobs_destroy(jobs);
}
END_TEST

START_TEST(nobody_waits_for_what_has_ended)
{
    struct jobs *jobs = jobs_create(&limits);
    struct sleeper sleeper = {.waiter = {.until_ns = UINT64_MAX, .wake = wake_sleeper}};
    struct job_view view;
    char ids[3][JOB_ID_TEXT + 1];
    struct job *job[3];
    for (int i = 0; i < 3; i++)
        job[i] = accept_job(jobs, 1, ids[i]);
    finish_well(job[0], START);
    ck_assert_int_eq(jobs_delete(jobs, ids[1], "t", START, &view, NULL), GEMMD_OK);
    ck_assert(!jobs_wait(jobs, ids[0], "t", &sleeper.waiter));
    ck_assert(!jobs_wait(jobs, ids[1], "t", &sleeper.waiter));
    ck_assert(!jobs_wait(jobs, "nonsense", "t", &sleeper.waiter));
    jobs_close(jobs);
    ck_assert(!jobs_wait(jobs, ids[2], "t", &sleeper.waiter));
    finish_well(job[1], START);
    finish_well(job[2], START);
    ck_assert_int_eq(sleeper.woken, 0);
    jobs_destroy(jobs);
}
END_TEST

START_TEST(who_leaves_is_not_woken)
{
    struct jobs *jobs = jobs_create(&limits);
    struct sleeper sleepers[3];
    char id[JOB_ID_TEXT + 1];
    struct job *job = accept_job(jobs, 1, id);
    for (int i = 0; i < 3; i++) {
        sleepers[i] = (struct sleeper){.waiter = {.until_ns = UINT64_MAX, .wake = wake_sleeper}};
        ck_assert(jobs_wait(jobs, id, "t", &sleepers[i].waiter));
    }
    ck_assert(jobs_unwait(jobs, &sleepers[_i].waiter));
    ck_assert(!jobs_unwait(jobs, &sleepers[_i].waiter));
    finish_well(job, START);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(sleepers[i].woken, i != _i);
        ck_assert(!jobs_unwait(jobs, &sleepers[i].waiter));
    }
    ck_assert(!jobs_wait(jobs, id, "t", &sleepers[0].waiter));
    ck_assert(!jobs_unwait(jobs, &sleepers[0].waiter));
    jobs_destroy(jobs);
}
END_TEST

static const uint64_t SECOND = 1000000000, MILLISECOND = 1000000;

/* A job finishes and is deleted at regular intervals, until the rates are steady. */
static uint64_t finish_steadily(struct jobs *jobs, uint64_t every_ms)
{
    uint64_t now_ns = START;
    struct job_view view;
    char id[JOB_ID_TEXT + 1];
    jobs_sample(jobs, now_ns);
    for (int i = 0; i < 60; i++) {
        struct job *job = accept_job(jobs, 1, id);
        now_ns += every_ms * MILLISECOND;
        finish_well(job, now_ns);
        ck_assert_int_eq(jobs_delete(jobs, id, "t", now_ns, &view, NULL), GEMMD_OK);
        jobs_sample(jobs, now_ns);
    }
    return now_ns;
}

START_TEST(a_result_takes_as_long_as_those_before_it)
{
    struct jobs *jobs = jobs_create(&limits);
    char ids[MAX_JOBS][JOB_ID_TEXT + 1];
    struct job *job[MAX_JOBS];
    finish_steadily(jobs, 2600);
    for (int i = 0; i < MAX_JOBS; i++)
        job[i] = accept_job(jobs, 1, ids[i]);
    static const uint32_t seconds[MAX_JOBS] = {3, 6, 8, 11}; /* multiples of 2.6, rounded up */
    for (int i = 0; i < MAX_JOBS; i++)
        ck_assert_uint_eq(jobs_result_wait_s(jobs, ids[i]), seconds[i]);
    finish_well(job[0], START);
    ck_assert_uint_eq(jobs_result_wait_s(jobs, ids[0]), 1);
    ck_assert_uint_eq(jobs_result_wait_s(jobs, ids[1]), 3);
    ck_assert_uint_eq(jobs_result_wait_s(jobs, "nonsense"), 1);
    for (int i = 1; i < MAX_JOBS; i++)
        finish_well(job[i], START);
    jobs_destroy(jobs);
}
END_TEST

START_TEST(another_job_can_be_opened_by_the_next_end_or_expiry)
{
    const struct jobs_limits patient = {
        .max_jobs = MAX_JOBS, .max_bytes = MAX_BYTES, .ttl_ns = 5 * SECOND};
    struct jobs *jobs = jobs_create(&patient);
    char id[JOB_ID_TEXT + 1];
    const uint64_t now_ns = finish_steadily(jobs, 6500);
    struct job *unfinished = accept_job(jobs, 1, id);
    ck_assert_uint_eq(jobs_open_wait_s(jobs, now_ns), 7);
    finish_well(accept_job(jobs, 1, id), now_ns);
    ck_assert_uint_eq(jobs_open_wait_s(jobs, now_ns), 5);
    ck_assert_uint_eq(jobs_open_wait_s(jobs, now_ns + SECOND + 1), 4);
    ck_assert_uint_eq(jobs_open_wait_s(jobs, now_ns + 9 * SECOND), 1);
    finish_well(unfinished, now_ns);
    jobs_destroy(jobs);
}
END_TEST

/* --- Many threads: clients make, wait for, read and delete jobs; one thread computes them; one
 * lets them expire. */

enum { CLIENTS = 4, EACH = 500, BUSY_BYTES = 64 };

struct busy_job {
    struct job_owner owner; /* first */
    struct busy_job *next;
    struct job *job;
};

static struct busy_queue {
    pthread_mutex_t lock;
    struct busy_job *first;
    atomic_bool clients_done, all_done;
    atomic_uint cancelled;
} busy = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void busy_cancel(struct job_owner *cancelled)
{
    (void)cancelled;
    atomic_fetch_add(&busy.cancelled, 1);
}

struct client {
    pthread_t thread;
    struct jobs *jobs;
    unsigned seed;
    uint32_t made, deleted_unfinished;
};

struct bell {
    struct job_waiter waiter; /* first */
    atomic_bool rung;
};

static void ring(struct job_waiter *waiter)
{
    atomic_store(&((struct bell *)waiter)->rung, true);
}

static void wait_for(struct jobs *jobs, const char *id)
{
    struct bell bell = {.waiter = {.until_ns = UINT64_MAX, .wake = ring}};
    if (jobs_wait(jobs, id, "t", &bell.waiter))
        while (!atomic_load(&bell.rung))
            sched_yield();
}

static void use_one(struct client *client)
{
    struct job_view view;
    struct job_answer *answer = NULL;
    struct busy_job *work = malloc(sizeof *work);
    work->owner.cancel = busy_cancel;
    if (job_open(client->jobs, "t", 0, "gemm", "", 0, &work->job, NULL) != GEMMD_OK) {
        free(work);
        return;
    }
    if (job_reserve(work->job, BUSY_BYTES, 0, NULL) != GEMMD_OK) {
        job_discard(work->job);
        free(work);
        return;
    }
    client->made++;
    job_accept(work->job, &work->owner, 1, &view);
    pthread_mutex_lock(&busy.lock);
    work->next = busy.first;
    busy.first = work;
    pthread_mutex_unlock(&busy.lock);

    unsigned choice = (unsigned)rand_r(&client->seed) % 4;
    if (choice > 0)
        wait_for(client->jobs, view.id);
    if (choice > 1 && jobs_find(client->jobs, view.id, "t", 1, &view, &answer, NULL) == GEMMD_OK) {
        for (int i = 0; answer != NULL && i < BUSY_BYTES; i++)
            ck_assert_uint_eq(answer->payload[i], 'y');
        job_answer_release(answer);
    }
    if (choice != 3 && jobs_delete(client->jobs, view.id, "t", 1, &view, NULL) == GEMMD_OK &&
        view.state == JOB_CANCELLED)
        client->deleted_unfinished++;
}

static void *run_client(void *argument)
{
    for (int i = 0; i < EACH; i++)
        use_one(argument);
    return NULL;
}

static void *run_worker(void *argument)
{
    uint64_t now_ns = 1;
    (void)argument;
    for (;;) {
        bool last = atomic_load(&busy.clients_done);
        pthread_mutex_lock(&busy.lock);
        struct busy_job *work = busy.first;
        if (work != NULL)
            busy.first = work->next;
        pthread_mutex_unlock(&busy.lock);
        if (work == NULL && last)
            return NULL;
        if (work == NULL) {
            sched_yield();
            continue;
        }
        job_start(work->job, now_ns);
        if (!job_is_cancelled(work->job)) {
            memset(job_answer(work->job)->payload, 'y', BUSY_BYTES);
            job_answer(work->job)->status = 200;
        }
        job_finish(work->job, now_ns++);
        free(work);
    }
}

static void *run_job_thread(void *argument)
{
    struct jobs *jobs = argument;
    for (uint64_t now_ns = 1; !atomic_load(&busy.all_done); now_ns += 1) {
        if (jobs_due_ns(jobs) <= now_ns)
            jobs_expire(jobs, now_ns);
        (void)jobs_counts(jobs);
        sched_yield();
    }
    return NULL;
}

START_TEST(threads_lose_nothing)
{
    const struct jobs_limits few = {
        .max_jobs = 2 * CLIENTS, .max_bytes = (2 * CLIENTS - 1) * BUSY_BYTES, .ttl_ns = 50};
    struct jobs *jobs = jobs_create(&few);
    struct client clients[CLIENTS];
    pthread_t worker, job_thread;
    uint32_t made = 0, deleted = 0;
    ck_assert_int_eq(pthread_create(&worker, NULL, run_worker, NULL), 0);
    ck_assert_int_eq(pthread_create(&job_thread, NULL, run_job_thread, jobs), 0);
    for (unsigned i = 0; i < CLIENTS; i++) {
        clients[i] = (struct client){.jobs = jobs, .seed = i + 1};
        ck_assert_int_eq(pthread_create(&clients[i].thread, NULL, run_client, &clients[i]), 0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(clients[i].thread, NULL);
        made += clients[i].made;
        deleted += clients[i].deleted_unfinished;
    }
    atomic_store(&busy.clients_done, true);
    pthread_join(worker, NULL);
    atomic_store(&busy.all_done, true);
    pthread_join(job_thread, NULL);
    jobs_expire(jobs, UINT64_MAX / 2);
    jobs_expire(jobs, UINT64_MAX);

    struct jobs_counts counts = jobs_counts(jobs);
    ck_assert_uint_gt(made, 0);
    ck_assert_uint_eq(counts.created, made);
    ck_assert_uint_eq(counts.cancelled, deleted);
    ck_assert_uint_eq(atomic_load(&busy.cancelled), deleted);
    assert_empty(jobs);
    ck_assert_uint_eq(jobs_due_ns(jobs), UINT64_MAX);
    jobs_destroy(jobs);
}
END_TEST

/* The newest come first, a tenant's own only, and a place in the list survives the end of jobs. */
START_TEST(a_tenant_lists_its_own_jobs)
{
    const struct jobs_limits of_two = {
        .max_jobs = 8, .max_bytes = 800, .ttl_ns = TTL, .tenants = 2};
    struct jobs *jobs = jobs_create(&of_two);
    struct job_view views[8];
    struct job *own[4], *other;
    char ids[4][JOB_ID_TEXT + 1], id[JOB_ID_TEXT + 1];
    uint64_t next;
    ck_assert_int_eq(job_open(jobs, "u", 1, "gemm", "", 0, &other, NULL), GEMMD_OK);
    job_accept(other, &owner, START, &views[0]);
    memcpy(id, views[0].id, sizeof id);
    for (int i = 0; i < 4; i++)
        own[i] = accept_job(jobs, 1, ids[i]);
    ck_assert_uint_eq(jobs_list(jobs, "t", 0, UINT64_MAX, START, views, 8, &next), 4);
    ck_assert_uint_eq(next, 0);
    for (int i = 0; i < 4; i++)
        ck_assert_str_eq(views[i].id, ids[3 - i]);
    ck_assert_uint_eq(jobs_list(jobs, "u", 1, UINT64_MAX, START, views, 8, &next), 1);
    ck_assert_str_eq(views[0].id, id);
    ck_assert_uint_eq(jobs_list(jobs, "v", 1, UINT64_MAX, START, views, 8, &next), 0);

    ck_assert_uint_eq(jobs_list(jobs, "t", 0, UINT64_MAX, START, views, 2, &next), 2);
    ck_assert_uint_ne(next, 0);
    finish_well(own[2], START);
    ck_assert_int_eq(jobs_delete(jobs, ids[2], "t", START, &views[0], NULL), GEMMD_OK);
    ck_assert_int_eq(jobs_delete(jobs, ids[1], "t", START, &views[0], NULL), GEMMD_OK);
    ck_assert_uint_eq(jobs_list(jobs, "t", 0, next, START, views, 2, &next), 2);
    ck_assert_uint_eq(next, 0);
    ck_assert_str_eq(views[0].id, ids[1]);
    ck_assert_int_eq(views[0].state, JOB_CANCELLED);
    ck_assert_str_eq(views[1].id, ids[0]);

    job_finish(own[1], START); /* a cancelled job whose work has ended is not listed any more */
    finish_well(own[0], START);
    finish_well(own[3], START + 1);
    ck_assert_uint_eq(jobs_list(jobs, "t", 0, UINT64_MAX, START, views, 8, &next), 2);
    jobs_expire(jobs, START + TTL);
    ck_assert_uint_eq(jobs_list(jobs, "t", 0, UINT64_MAX, START, views, 8, &next), 1);
    ck_assert_str_eq(views[0].id, ids[3]);
    jobs_expire(jobs, START + TTL + 1);
    ck_assert_uint_eq(jobs_list(jobs, "t", 0, UINT64_MAX, START, views, 8, &next), 0);
    ck_assert_uint_eq(jobs_list(jobs, "u", 1, UINT64_MAX, START, views, 8, &next), 1);
    job_answer(other)->status = 200;
    job_finish(other, START);
    jobs_destroy(jobs);
}
END_TEST

/* One allocation after the other fails. */
START_TEST(without_memory_there_are_no_jobs)
{
    for (long number = 1;; number++) {
        const long live = calls_live_blocks();
        calls_fail(number);
        struct jobs *jobs = jobs_create(&limits);
        if (!calls_end()) {
            ck_assert_int_gt(number, 1);
            jobs_destroy(jobs);
            break;
        }
        ck_assert_ptr_null(jobs);
        ck_assert_int_eq(calls_live_blocks(), live);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("jobs");
    TCase *tcase = tcase_create("jobs");
    tcase_add_test(tcase, a_job_goes_through_its_states);
    tcase_add_test(tcase, a_failed_job_keeps_its_fault_and_no_bytes);
    tcase_add_test(tcase, expires_and_is_forgotten_on_time);
    tcase_add_test(tcase, remembers_as_many_names_as_jobs);
    tcase_add_test(tcase, the_count_is_exact);
    tcase_add_test(tcase, the_bytes_are_exact);
    tcase_add_test(tcase, an_answer_that_is_being_sent_outlives_its_job);
    tcase_add_test(tcase, another_tenants_job_is_forbidden);
    tcase_add_test(tcase, what_is_no_id_is_not_found);
    tcase_add_loop_test(tcase, cancelling_tells_the_owner_once, 0, 2);
    tcase_add_test(tcase, deleting_what_is_done_removes_it);
    tcase_add_test(tcase, waiters_are_woken_by_what_comes_first);
    tcase_add_test(tcase, nobody_waits_for_what_has_ended);
    tcase_add_loop_test(tcase, who_leaves_is_not_woken, 0, 3);
    tcase_add_test(tcase, a_result_takes_as_long_as_those_before_it);
    tcase_add_test(tcase, another_job_can_be_opened_by_the_next_end_or_expiry);
    tcase_add_test(tcase, a_tenant_lists_its_own_jobs);
    tcase_add_test(tcase, threads_lose_nothing);
    tcase_add_test(tcase, without_memory_there_are_no_jobs);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
