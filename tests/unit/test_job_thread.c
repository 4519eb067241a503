/* server/jobs/job_thread.c: errands are done fairly between tenants, and all of them before the
 * end.
 */
#include <check.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "server/jobs/job_thread.h"

enum { TENANTS = 3, ERRANDS = 16, MEMORY_BYTES = 1 << 20 };

struct sent {
    struct job_errand errand;
    uint32_t rank;       /* how many errands ended before */
    uint32_t pieces;     /* so far */
    bool endless;        /* has more to do until the thread stops */
    void (*ended)(void); /* NULL: nothing to do */
};

static struct jobs *jobs;
static void *memory;
static struct pool *pool;
static struct job_thread *job_thread;
static struct sent all[ERRANDS];
static atomic_uint ends;
static sem_t last;

static void setup(void)
{
    const struct jobs_limits limits = {.max_jobs = 1, .max_bytes = 1, .tenants = TENANTS};
    memset(all, 0, sizeof all);
    atomic_store(&ends, 0);
    ck_assert_int_eq(sem_init(&last, 0, 0), 0);
    jobs = jobs_create(&limits);
    memory = aligned_alloc(4096, MEMORY_BYTES);
    pool = pool_create(memory, MEMORY_BYTES);
    job_thread = job_thread_start(jobs, pool, TENANTS);
    ck_assert_ptr_nonnull(job_thread);
}

static void teardown(void)
{
    job_thread_stop(job_thread);
    job_thread_destroy(job_thread);
    pool_destroy(pool);
    free(memory);
    jobs_destroy(jobs);
    sem_destroy(&last);
}

static bool advance(struct job_errand *errand)
{
    struct sent *sent = (struct sent *)errand;
    const uint64_t bytes = errand->bytes < JOB_PIECE_BYTES ? errand->bytes : JOB_PIECE_BYTES;
    sent->pieces++;
    errand->bytes -= bytes;
    if (sent->endless ? !job_thread_is_stopping(job_thread) : errand->bytes > 0)
        return true;
    sent->rank = atomic_fetch_add(&ends, 1);
    if (sent->ended != NULL)
        sent->ended();
    return false;
}

static struct sent *post(uint32_t number, uint32_t tenant, uint64_t bytes)
{
    struct sent *sent = &all[number];
    sent->errand.tenant = tenant;
    sent->errand.bytes = bytes;
    sent->errand.advance = advance;
    job_thread_post(job_thread, &sent->errand);
    return sent;
}

static void post_last(void)
{
    sem_post(&last);
}

/* Runs on the job thread, so that all these errands are there before one of them is done. */
static void post_large_and_small(void)
{
    for (uint32_t i = 1; i < 9; i++)
        post(i, 0, 20 * (uint64_t)JOB_PIECE_BYTES - i);
    post(9, 0, 0);
    post(10, 1, 1000);
    post(11, 2, 2 * (uint64_t)JOB_PIECE_BYTES);
}

START_TEST(tenants_share_fairly)
{
    all[0].ended = post_large_and_small;
    all[8].ended = post_last;
    post(0, 0, 1);
    sem_wait(&last);
    ck_assert_uint_eq(all[10].rank, 1);
    ck_assert_uint_eq(all[11].rank, 2);
    ck_assert_uint_eq(all[9].rank, 3); /* after one piece of each large one of its tenant */
    for (uint32_t i = 1; i < 9; i++) {
        ck_assert_uint_eq(all[i].pieces, 20);
        ck_assert_uint_eq(all[i].rank, 3 + i);
    }
}
END_TEST

/* The stop waits for all errands, which see the stop. */
START_TEST(every_errand_ends_with_the_thread)
{
    for (uint32_t i = 0; i < ERRANDS - 1; i++) {
        all[i].endless = true;
        post(i, i % TENANTS, 1000);
    }
    job_thread_stop(job_thread);
    ck_assert_uint_eq(atomic_load(&ends), ERRANDS - 1);
    post(ERRANDS - 1, 0, 1000);
    job_thread_destroy(job_thread);
    ck_assert_uint_eq(atomic_load(&ends), ERRANDS);
    job_thread = NULL;
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("job_thread");
    TCase *tests = tcase_create("job_thread");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, tenants_share_fairly);
    tcase_add_test(tests, every_errand_ends_with_the_thread);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
