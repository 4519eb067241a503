/* Counting what became of a model's requests. */
#include <check.h>

#include "server/observe/model_stats.h"

START_TEST(phases_add_up)
{
    struct model_stats stats = {0};
    struct model_stages stages = {.launch_requests = 1,
                                  .queue_ns = 30,
                                  .input_ns = 4,
                                  .infer_ns = 5,
                                  .output_ns = 6,
                                  .total_ns = 1000};
    model_stats_success(&stats, &stages);
    stages.total_ns = 2000;
    model_stats_success(&stats, &stages);
    model_stats_fail(&stats, 7);
    ck_assert_uint_eq(stats.success_count, 2);
    ck_assert_uint_eq(stats.success_ns, 3000);
    ck_assert_uint_eq(stats.fail_count, 1);
    ck_assert_uint_eq(stats.fail_ns, 7);
    ck_assert_uint_eq(stats.queue_ns, 60);
    ck_assert_uint_eq(stats.input_ns, 8);
    ck_assert_uint_eq(stats.infer_ns, 10);
    ck_assert_uint_eq(stats.output_ns, 12);
    ck_assert_uint_eq(model_stats_executions(&stats), 2);
    ck_assert_uint_gt(stats.last_ms, 0);
}
END_TEST

/* Requests that share a launch make one together, also where their number divides nothing. */
START_TEST(shared_launches_count_once)
{
    struct model_stats stats = {0};
    const uint32_t batch = (uint32_t)_i;
    const struct model_stages stages = {.launch_requests = batch};
    ck_assert_uint_eq(model_stats_executions(&stats), 0);
    for (uint32_t launch = 0; launch < 100; launch++)
        for (uint32_t i = 0; i < batch; i++)
            model_stats_success(&stats, &stages);
    ck_assert_uint_eq(model_stats_executions(&stats), 100);
}
END_TEST

START_TEST(a_part_of_a_launch_is_one)
{
    struct model_stats stats = {0};
    const struct model_stages stages = {.launch_requests = 1024};
    model_stats_success(&stats, &stages);
    ck_assert_uint_eq(model_stats_executions(&stats), 1);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("model_stats");
    tcase_add_test(tests, phases_add_up);
    tcase_add_loop_test(tests, shared_launches_count_once, 1, 12);
    tcase_add_test(tests, a_part_of_a_launch_is_one);
    Suite *suite = suite_create("model_stats");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
