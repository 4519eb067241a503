/* server/scheduler/executor.c: the first products, over a simulated device with right and with
 * wrong results. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "server/scheduler/executor.h"
#include "simulated_device.h"
#include "tests/unit/admitted_queue.h"

enum { POOL_BYTES = 1 << 20 };

static struct {
    struct simulated_device *device;
    struct queue *queue;
    struct metrics *metrics;
    struct dispatch *dispatch;
    void *memory;
    struct pool *pool;
    enum gemmd_error code;
    struct fault fault;
} stage; /* each test runs in a process of its own */

static enum simulated_event compute(const struct work *work)
{
    const struct gemm_problem *p = &work->task.problem.gemm;
    const float *a = p->a, *b = p->b;
    float *c = p->c;
    for (uint64_t i = 0; i < p->m; i++)
        for (uint64_t j = 0; j < p->n; j++) {
            float sum = 0;
            for (uint64_t l = 0; l < p->k; l++)
                sum += a[i * p->lda + l] * b[l * p->ldb + j];
            c[i * p->ldc + j] = sum;
        }
    return SIMULATED_DONE;
}

static enum simulated_event leave_it(const struct work *work)
{
    (void)work;
    return SIMULATED_DONE;
}

static enum simulated_event break_down(const struct work *work)
{
    (void)work;
    return SIMULATED_FAILED;
}

static void warm_up_on(enum simulated_event (*look)(const struct work *), uint32_t requests)
{
    const struct metrics_identity identity = {"0", "0", "cpu", "", "", ""};
    const struct admission_limits limits = {.requests = requests, .tenants = 1};
    stage.device = simulated_device_open(1, look);
    stage.queue = queue_with_limits(&limits);
    stage.metrics = metrics_create(1, &identity);
    stage.memory = aligned_alloc(4096, POOL_BYTES);
    stage.pool = pool_create(stage.memory, POOL_BYTES);
    stage.dispatch = dispatch_start(&stage.device->base, stage.queue, NULL,
                                    metrics_shard(stage.metrics, 0), 4, 0);
    ck_assert_ptr_nonnull(stage.dispatch);
    stage.code = executor_warm_up(&stage.device->base, stage.queue, stage.pool, &stage.fault);
}

/* Checks that no memory and no reservation is held, whatever the result was. */
static void stop(void)
{
    ck_assert_uint_eq(pool_used_bytes(stage.pool), 0);
    ck_assert_uint_eq(queue_state(stage.queue).reserved, 0);
    queue_close(stage.queue);
    ck_assert(dispatch_stop(stage.dispatch, UINT64_MAX));
    ck_assert_uint_eq(arena_used_bytes(device_arena(&stage.device->base)), 0);
    queue_free(stage.queue);
    metrics_destroy(stage.metrics);
    pool_destroy(stage.pool);
    free(stage.memory);
    device_close(&stage.device->base);
}

START_TEST(goes_through_the_dispatch_thread_uncounted)
{
    struct metrics_gauges gauges = {0};
    char *text;
    uint64_t length;
    warm_up_on(compute, 1);
    ck_assert_msg(stage.code == GEMMD_OK, "%s", stage.fault.detail);
    ck_assert_uint_ge(atomic_load(&stage.device->launches), 1);
    ck_assert(metrics_expose(stage.metrics, &gauges, METRICS_TEXT, &text, &length));
    ck_assert_ptr_nonnull(strstr(text, "gemmd_stage_duration_seconds_count{stage=\"queue\"} 0\n"));
    ck_assert_ptr_nonnull(strstr(text, "gemmd_stage_duration_seconds_count{stage=\"kernel\"} 0\n"));
    free(text);
    stop();
}
END_TEST

START_TEST(a_wrong_answer_is_found)
{
    warm_up_on(leave_it, 1);
    ck_assert_int_eq(stage.code, GEMMD_ERR_DEVICE_LOST);
    ck_assert_ptr_nonnull(strstr(stage.fault.detail, "wrong element"));
    stop();
}
END_TEST

START_TEST(a_failure_is_told)
{
    warm_up_on(break_down, 1);
    ck_assert_int_eq(stage.code, GEMMD_ERR_INTERNAL);
    ck_assert_ptr_nonnull(strstr(stage.fault.detail, "a simulated failure"));
    stop();
}
END_TEST

START_TEST(a_queue_that_admits_nothing_is_left_alone)
{
    warm_up_on(compute, 0);
    ck_assert_int_eq(stage.code, GEMMD_OK);
    ck_assert_uint_eq(atomic_load(&stage.device->launches), 0);
    stop();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("warm_up");
    TCase *tests = tcase_create("all");
    tcase_add_test(tests, goes_through_the_dispatch_thread_uncounted);
    tcase_add_test(tests, a_wrong_answer_is_found);
    tcase_add_test(tests, a_failure_is_told);
    tcase_add_test(tests, a_queue_that_admits_nothing_is_left_alone);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
