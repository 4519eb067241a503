/* server/jobs/jobs.c: the limits of each tenant. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "server/jobs/jobs.h"

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
    ck_assert_int_eq(job_open(jobs, "t", 0, "gemm", "", &first, NULL), GEMMD_OK);
    ck_assert_int_eq(job_open(jobs, "t", 0, "gemm", "", &second, NULL), GEMMD_OK);
    ck_assert_int_eq(job_open(jobs, "t", 0, "gemm", "", &third, &fault), GEMMD_ERR_QUEUE_FULL);
    ck_assert_ptr_nonnull(strstr(fault.detail, "this tenant has 2 jobs"));
    ck_assert_int_eq(job_open(jobs, "u", 1, "gemm", "", &other, NULL), GEMMD_OK);

    ck_assert_int_eq(job_answer_reserve(job_answer(first), 60, NULL), GEMMD_OK);
    ck_assert_int_eq(job_answer_reserve(job_answer(second), 1, &fault), GEMMD_ERR_QUEUE_FULL);
    ck_assert_ptr_nonnull(strstr(fault.detail, "this tenant's jobs take 60 bytes of 50 bytes"));
    ck_assert_int_eq(job_answer_reserve(job_answer(other), 41, &fault), GEMMD_ERR_QUEUE_FULL);
    ck_assert_ptr_nonnull(strstr(fault.detail, "60 bytes of 100 bytes"));
    ck_assert_int_eq(job_answer_reserve(job_answer(other), 40, NULL), GEMMD_OK);
    ck_assert_uint_eq(jobs_held_by(jobs, 0).jobs, 2);
    ck_assert_uint_eq(jobs_held_by(jobs, 0).bytes, 60);
    ck_assert_uint_eq(jobs_held_by(jobs, 1).bytes, 40);
    job_discard(first);
    ck_assert_int_eq(job_answer_reserve(job_answer(second), 50, NULL), GEMMD_OK);
    ck_assert_int_eq(job_open(jobs, "t", 0, "gemm", "", &third, NULL), GEMMD_OK);
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
        ck_assert_int_eq(job_open(jobs, "t", 0, "gemm", "", &own[i], NULL), GEMMD_OK);
        ck_assert_int_eq(job_answer_reserve(job_answer(own[i]), 30, NULL), GEMMD_OK);
    }
    jobs_set_tenant_limits(jobs, 2, 50);
    ck_assert_uint_eq(jobs_held_by(jobs, 0).jobs, 3);
    ck_assert_uint_eq(jobs_held_by(jobs, 0).bytes, 90);
    ck_assert_int_eq(job_open(jobs, "t", 0, "gemm", "", &more, &fault), GEMMD_ERR_QUEUE_FULL);
    job_discard(own[0]);
    ck_assert_int_eq(job_open(jobs, "t", 0, "gemm", "", &more, &fault), GEMMD_ERR_QUEUE_FULL);
    job_discard(own[1]);
    ck_assert_int_eq(job_open(jobs, "t", 0, "gemm", "", &more, NULL), GEMMD_OK);
    ck_assert_int_eq(job_answer_reserve(job_answer(more), 30, &fault), GEMMD_ERR_QUEUE_FULL);
    ck_assert_int_eq(job_answer_reserve(job_answer(more), 20, NULL), GEMMD_OK);
    ck_assert_int_eq(job_open(jobs, "u", 1, "gemm", "", &other, NULL), GEMMD_OK);
    ck_assert_int_eq(job_answer_reserve(job_answer(other), 50, NULL), GEMMD_OK);
    job_discard(own[2]);
    job_discard(more);
    jobs_set_tenant_limits(jobs, 0, 0);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(job_open(jobs, "t", 0, "gemm", "", &own[i], NULL), GEMMD_OK);
    ck_assert_int_eq(job_answer_reserve(job_answer(own[0]), 20, NULL), GEMMD_OK);
    ck_assert_int_eq(job_answer_reserve(job_answer(own[1]), 30, NULL), GEMMD_OK);
    for (int i = 0; i < 3; i++)
        job_discard(own[i]);
    job_discard(other);
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
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
