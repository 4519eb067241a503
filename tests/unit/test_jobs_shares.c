/* server/jobs/jobs.c: the limits of each tenant. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "server/jobs/jobs.h"

static void never_cancelled(struct job_owner *owner)
{
    (void)owner;
    ck_abort_msg("a job was cancelled");
}

static struct job_owner owner = {.cancel = never_cancelled};

static void assert_empty(struct jobs *jobs)
{
    struct jobs_counts counts = jobs_counts(jobs);
    for (int i = 0; i < JOB_STATES; i++)
        ck_assert_msg(counts.states[i] == 0, "%u jobs are %s", counts.states[i],
                      job_state_name((enum job_state)i));
    ck_assert_uint_eq(counts.bytes, 0);
    ck_assert_uint_eq(jobs_unfinished(jobs), 0);
}

START_TEST(a_tenant_is_held_to_its_share)
{
    const struct jobs_limits shared = {.max_jobs = 4,
                                       .max_bytes = 100,
                                       .ttl_ns = 1000,
                                       .tenants = 2,
                                       .tenant_jobs = 2,
                                       .tenant_bytes = 50};
    struct jobs *jobs = jobs_create(&shared);
    struct job *first, *second, *third, *other;
    struct fault fault;
    ck_assert_int_eq(job_open(jobs, "t", 0, "gemm", "", 0, &first, NULL), GEMMD_OK);
    ck_assert_int_eq(job_open(jobs, "t", 0, "gemm", "", 0, &second, NULL), GEMMD_OK);
    ck_assert_int_eq(job_open(jobs, "t", 0, "gemm", "", 0, &third, &fault), GEMMD_ERR_QUEUE_FULL);
    ck_assert_ptr_nonnull(strstr(fault.detail, "this tenant has 2 jobs"));
    ck_assert_int_eq(job_open(jobs, "u", 1, "gemm", "", 0, &other, NULL), GEMMD_OK);

    ck_assert_int_eq(job_reserve(first, 60, 0, NULL), GEMMD_OK);
    ck_assert_int_eq(job_reserve(second, 1, 0, &fault), GEMMD_ERR_QUEUE_FULL);
    ck_assert_ptr_nonnull(strstr(fault.detail, "this tenant's jobs take 60 bytes of 50 bytes"));
    ck_assert_int_eq(job_reserve(other, 41, 0, &fault), GEMMD_ERR_QUEUE_FULL);
    ck_assert_ptr_nonnull(strstr(fault.detail, "60 bytes of 100 bytes"));
    ck_assert_int_eq(job_reserve(other, 40, 0, NULL), GEMMD_OK);
    ck_assert_uint_eq(jobs_held_by(jobs, 0).jobs, 2);
    ck_assert_uint_eq(jobs_held_by(jobs, 0).bytes, 60);
    ck_assert_uint_eq(jobs_held_by(jobs, 1).bytes, 40);
    job_discard(first);
    ck_assert_int_eq(job_reserve(second, 50, 0, NULL), GEMMD_OK);
    ck_assert_int_eq(job_open(jobs, "t", 0, "gemm", "", 0, &third, NULL), GEMMD_OK);
    job_discard(second);
    job_discard(third);
    job_discard(other);
    ck_assert_uint_eq(jobs_held_by(jobs, 0).jobs + jobs_held_by(jobs, 0).bytes, 0);
    ck_assert_uint_eq(jobs_counts(jobs).refused_tenants, 2);
    assert_empty(jobs);
    jobs_destroy(jobs);
}
END_TEST

/* Jobs and answers beyond a lowered share stay, and further ones are refused until the tenant is
 * within the share again. */
START_TEST(shares_change_while_jobs_are_open)
{
    const struct jobs_limits shared = {
        .max_jobs = 4, .max_bytes = 100, .ttl_ns = 1000, .tenants = 2};
    struct jobs *jobs = jobs_create(&shared);
    struct job *own[3], *more, *other;
    struct fault fault;
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(job_open(jobs, "t", 0, "gemm", "", 0, &own[i], NULL), GEMMD_OK);
        ck_assert_int_eq(job_reserve(own[i], 30, 0, NULL), GEMMD_OK);
    }
    jobs_set_tenant_limits(jobs, 2, 50);
    ck_assert_uint_eq(jobs_held_by(jobs, 0).jobs, 3);
    ck_assert_uint_eq(jobs_held_by(jobs, 0).bytes, 90);
    ck_assert_int_eq(job_open(jobs, "t", 0, "gemm", "", 0, &more, &fault), GEMMD_ERR_QUEUE_FULL);
    job_discard(own[0]);
    ck_assert_int_eq(job_open(jobs, "t", 0, "gemm", "", 0, &more, &fault), GEMMD_ERR_QUEUE_FULL);
    job_discard(own[1]);
    ck_assert_int_eq(job_open(jobs, "t", 0, "gemm", "", 0, &more, NULL), GEMMD_OK);
    ck_assert_int_eq(job_reserve(more, 30, 0, &fault), GEMMD_ERR_QUEUE_FULL);
    ck_assert_int_eq(job_reserve(more, 20, 0, NULL), GEMMD_OK);
    ck_assert_int_eq(job_open(jobs, "u", 1, "gemm", "", 0, &other, NULL), GEMMD_OK);
    ck_assert_int_eq(job_reserve(other, 50, 0, NULL), GEMMD_OK);
    job_discard(own[2]);
    job_discard(more);
    jobs_set_tenant_limits(jobs, 0, 0);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(job_open(jobs, "t", 0, "gemm", "", 0, &own[i], NULL), GEMMD_OK);
    ck_assert_int_eq(job_reserve(own[0], 20, 0, NULL), GEMMD_OK);
    ck_assert_int_eq(job_reserve(own[1], 30, 0, NULL), GEMMD_OK);
    for (int i = 0; i < 3; i++)
        job_discard(own[i]);
    job_discard(other);
    assert_empty(jobs);
    jobs_destroy(jobs);
}
END_TEST

/* A job of tenant 0, "t", or of tenant 1, "u". */
static struct job *accept_job(struct jobs *jobs, uint32_t tenant, uint64_t bytes, uint64_t now_ns,
                              char id[JOB_ID_TEXT + 1])
{
    struct job *job;
    struct job_view view;
    ck_assert_int_eq(
        job_open(jobs, tenant == 0 ? "t" : "u", tenant, "gemm", "", now_ns, &job, NULL), GEMMD_OK);
    ck_assert_int_eq(job_reserve(job, bytes, now_ns, NULL), GEMMD_OK);
    job_accept(job, &owner, now_ns, &view);
    memcpy(id, view.id, sizeof view.id);
    return job;
}

static enum gemmd_error result_of(struct jobs *jobs, const char *id, struct fault *fault)
{
    struct job_view view;
    return jobs_find(jobs, id, "t", 0, &view, NULL, fault);
}

/* The oldest finished jobs of a tenant beyond its share make room for another tenant's jobs, until
 * the tenant is within its share. An unfinished job stays. */
START_TEST(finished_jobs_beyond_a_share_give_way)
{
    const struct jobs_limits shared = {
        .max_jobs = 4, .max_bytes = 1000, .ttl_ns = 1000, .tenants = 3};
    struct jobs *jobs = jobs_create(&shared);
    struct job *own[4], *other[3];
    char ids[4][JOB_ID_TEXT + 1], id[JOB_ID_TEXT + 1];
    struct fault fault;
    for (int i = 0; i < 4; i++)
        own[i] = accept_job(jobs, 0, 10, 1, ids[i]);
    for (int i = 1; i < 4; i++)
        job_finish(own[i], 2 + (uint64_t)i);
    ck_assert_int_eq(job_open(jobs, "u", 1, "gemm", "", 9, &other[0], &fault),
                     GEMMD_ERR_QUEUE_FULL);
    jobs_set_tenant_limits(jobs, 2, 500);
    ck_assert_int_eq(result_of(jobs, ids[1], NULL), GEMMD_OK);
    ck_assert_int_eq(job_open(jobs, "t", 0, "gemm", "", 9, &other[0], &fault),
                     GEMMD_ERR_QUEUE_FULL);
    ck_assert_ptr_nonnull(strstr(fault.detail, "this tenant has 4 jobs"));
    ck_assert_int_eq(result_of(jobs, ids[1], NULL), GEMMD_OK);

    for (int i = 0; i < 2; i++)
        other[i] = accept_job(jobs, 1, 10, 10, id);
    for (int i = 1; i < 3; i++) {
        ck_assert_int_eq(result_of(jobs, ids[i], &fault), GEMMD_ERR_GONE);
        ck_assert_ptr_nonnull(strstr(fault.detail, "expired early"));
    }
    ck_assert_int_eq(result_of(jobs, ids[0], NULL), GEMMD_OK);
    ck_assert_int_eq(result_of(jobs, ids[3], NULL), GEMMD_OK);
    ck_assert_uint_eq(jobs_held_by(jobs, 0).jobs, 2);
    ck_assert_uint_eq(jobs_held_by(jobs, 0).bytes, 20);
    ck_assert_uint_eq(jobs_counts(jobs).expired, 2);
    ck_assert_int_eq(job_open(jobs, "u", 1, "gemm", "", 11, &other[2], &fault),
                     GEMMD_ERR_QUEUE_FULL);
    ck_assert_ptr_nonnull(strstr(fault.detail, "this tenant has 2 jobs"));
    ck_assert_int_eq(job_open(jobs, "v", 2, "gemm", "", 11, &other[2], &fault),
                     GEMMD_ERR_QUEUE_FULL); /* nobody has more than its share */
    ck_assert_int_eq(result_of(jobs, ids[3], NULL), GEMMD_OK);

    job_finish(own[0], 12);
    for (int i = 0; i < 2; i++)
        job_finish(other[i], 12);
    jobs_expire(jobs, 2000);
    ck_assert_int_eq(result_of(jobs, ids[1], NULL), GEMMD_ERR_NOT_FOUND);
    ck_assert_int_eq(result_of(jobs, ids[3], &fault), GEMMD_ERR_GONE);
    ck_assert_ptr_nonnull(strstr(fault.detail, "it was kept for"));
    assert_empty(jobs);
    jobs_destroy(jobs);
}
END_TEST

/* As above, for the bytes of answers. An answer that is being sent stays, because its bytes would
 * not be free; so does a tenant's only answer, which may be larger than the share. */
START_TEST(answers_beyond_a_share_give_way)
{
    const struct jobs_limits shared = {
        .max_jobs = 10, .max_bytes = 100, .ttl_ns = 1000, .tenants = 3};
    struct jobs *jobs = jobs_create(&shared);
    struct job *own[4], *other, *third;
    char ids[4][JOB_ID_TEXT + 1], id[JOB_ID_TEXT + 1];
    struct job_view view;
    struct job_answer *sent;
    for (int i = 0; i < 4; i++) {
        own[i] = accept_job(jobs, 0, 25, 1, ids[i]);
        job_finish(own[i], 2);
    }
    jobs_set_tenant_limits(jobs, 5, 50);
    ck_assert_int_eq(jobs_find(jobs, ids[0], "t", 3, &view, &sent, NULL), GEMMD_OK);
    other = accept_job(jobs, 1, 50, 3, id);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(result_of(jobs, ids[i], NULL),
                         i == 1 || i == 2 ? GEMMD_ERR_GONE : GEMMD_OK);
    ck_assert_uint_eq(jobs_held_by(jobs, 0).bytes, 50);
    ck_assert_int_eq(job_open(jobs, "v", 2, "gemm", "", 3, &third, NULL), GEMMD_OK);
    ck_assert_int_eq(job_reserve(third, 10, 3, NULL), GEMMD_ERR_QUEUE_FULL);
    ck_assert_int_eq(result_of(jobs, ids[3], NULL), GEMMD_OK); /* nobody has more than its share */
    job_discard(third);
    job_answer_release(sent);
    job_finish(other, 3);
    ck_assert_int_eq(jobs_delete(jobs, id, "u", 3, &view, NULL), GEMMD_OK);
    ck_assert_int_eq(jobs_delete(jobs, ids[0], "t", 3, &view, NULL), GEMMD_OK);
    ck_assert_int_eq(jobs_delete(jobs, ids[3], "t", 3, &view, NULL), GEMMD_OK);

    job_finish(accept_job(jobs, 0, 80, 4, ids[0]), 4);
    ck_assert_int_eq(job_open(jobs, "u", 1, "gemm", "", 5, &other, NULL), GEMMD_OK);
    ck_assert_int_eq(job_reserve(other, 30, 5, NULL), GEMMD_ERR_QUEUE_FULL);
    ck_assert_int_eq(result_of(jobs, ids[0], NULL), GEMMD_OK);
    job_discard(other);
    jobs_expire(jobs, 2000);
    assert_empty(jobs);
    jobs_destroy(jobs);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("jobs_shares");
    TCase *tests = tcase_create("jobs_shares");
    tcase_add_test(tests, a_tenant_is_held_to_its_share);
    tcase_add_test(tests, shares_change_while_jobs_are_open);
    tcase_add_test(tests, finished_jobs_beyond_a_share_give_way);
    tcase_add_test(tests, answers_beyond_a_share_give_way);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
