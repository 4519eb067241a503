/* server/scheduler/dispatch.c over a simulated device: shared launches. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch_stage.h"
#include "server/base/clock.h"

static struct item *add_sharing(enum simulated_event event)
{
    struct item *item = add(event);
    item->work.shared_launch = true;
    return item;
}

/* Fills the device with launches, each of which runs until `end` is called for it. */
static void occupy(struct item *items[DEVICE_SHARED_SLOTS])
{
    for (uint32_t i = 0; i < DEVICE_SHARED_SLOTS; i++) {
        items[i] = add_sharing(SIMULATED_RUNNING);
        push(items[i]);
        wait_until_submitted(i + 1);
    }
}

START_TEST(all_that_wait_share_a_launch)
{
    struct item *first[DEVICE_SHARED_SLOTS], *items[MAX_LAUNCH_WORKS];
    start(2, ITEMS_MAX);
    occupy(first);
    for (int i = 0; i < MAX_LAUNCH_WORKS; i++) {
        items[i] = add_sharing(SIMULATED_DONE);
        push(items[i]);
    }
    end_with(first[0], SIMULATED_DONE);
    for (int i = 0; i < MAX_LAUNCH_WORKS; i++)
        wait_until_ended(items[i]);
    end_with(first[1], SIMULATED_DONE);
    ck_assert_uint_eq(atomic_load(&stage.device->launches), DEVICE_SHARED_SLOTS + 1);
    ck_assert_uint_eq(first[0]->work.launch_works, 1);
    for (int i = 0; i < MAX_LAUNCH_WORKS; i++) {
        ck_assert_int_eq(items[i]->work.status, GEMMD_OK);
        ck_assert_uint_eq(items[i]->work.launch_works, MAX_LAUNCH_WORKS);
        ck_assert_uint_eq(items[i]->work.started_ns, items[0]->work.started_ns);
    }
    ck_assert(counts("gemmd_batch_size_count 3\n"));
    ck_assert(counts("gemmd_batch_size_sum 6.0\n"));
    ck_assert(counts("gemmd_flops_total 12\n"));
    ck_assert(counts("gemmd_stage_duration_seconds_count{stage=\"kernel\"} 6\n"));
    ck_assert(
        counts("gemmd_kernel_busy_seconds_total{op=\"gemm\",kernel=\"simulated\",dtype=\"f64\"} "
               "0.000006000\n"));
    stop();
}
END_TEST

START_TEST(no_more_than_max_launch_works_share_a_launch)
{
    struct item *first[DEVICE_SHARED_SLOTS], *items[2 * MAX_LAUNCH_WORKS + 1];
    start(1, ITEMS_MAX);
    occupy(first);
    for (int i = 0; i < 2 * MAX_LAUNCH_WORKS + 1; i++) {
        items[i] = add_sharing(SIMULATED_DONE);
        push(items[i]);
    }
    end_with(first[0], SIMULATED_DONE);
    for (int i = 0; i < 2 * MAX_LAUNCH_WORKS + 1; i++)
        wait_until_ended(items[i]);
    end_with(first[1], SIMULATED_DONE);
    ck_assert_uint_eq(atomic_load(&stage.device->launches), DEVICE_SHARED_SLOTS + 3);
    stop();
    for (int i = 0; i < 2 * MAX_LAUNCH_WORKS; i++)
        ck_assert_uint_eq(items[i]->work.launch_works, MAX_LAUNCH_WORKS);
    ck_assert_uint_eq(items[2 * MAX_LAUNCH_WORKS]->work.launch_works, 1);
}
END_TEST

START_TEST(large_and_small_work_do_not_hold_each_other_up)
{
    struct item *large[3], *small[3], *first[DEVICE_SHARED_SLOTS];
    start(2, ITEMS_MAX);
    for (int i = 0; i < 3; i++) /* the third has to wait */
        large[i] = add_and_push(SIMULATED_RUNNING);
    wait_until_submitted(2);
    for (int i = 0; i < 3; i++) {
        small[i] = add_sharing(SIMULATED_DONE);
        push(small[i]);
    }
    for (int i = 0; i < 3; i++)
        wait_until_ended(small[i]);
    ck_assert_uint_eq(queue_state(stage.queue).waiting, 1);

    for (uint32_t i = 0; i < DEVICE_SHARED_SLOTS; i++) { /* and the other way round */
        first[i] = add_sharing(SIMULATED_RUNNING);
        push(first[i]);
        wait_until_submitted(5 + i + 1);
    }
    struct item *waiting = add_sharing(SIMULATED_DONE);
    push(waiting);
    end_with(large[0], SIMULATED_DONE);
    end_with(large[2], SIMULATED_DONE);
    ck_assert_uint_eq(atomic_load(&waiting->ended), 0);
    for (uint32_t i = 0; i < DEVICE_SHARED_SLOTS; i++)
        end_with(first[i], SIMULATED_DONE);
    wait_until_ended(waiting);
    end_with(large[1], SIMULATED_DONE);
    stop();
}
END_TEST

START_TEST(a_failed_launch_fails_all_that_share_it)
{
    struct item *first[DEVICE_SHARED_SLOTS], *items[MAX_LAUNCH_WORKS];
    start(1, ITEMS_MAX);
    occupy(first);
    for (int i = 0; i < MAX_LAUNCH_WORKS; i++) {
        items[i] = add_sharing(i == 2 ? SIMULATED_FAILED : SIMULATED_DONE);
        items[i]->work.verify = i == 1;
        push(items[i]);
    }
    end_with(first[0], SIMULATED_DONE);
    for (int i = 0; i < MAX_LAUNCH_WORKS; i++)
        wait_until_ended(items[i]);
    end_with(first[1], SIMULATED_DONE);
    ck_assert(counts("gemmd_device_errors_total 1\n"));
    stop();
    for (int i = 0; i < MAX_LAUNCH_WORKS; i++) {
        ck_assert_uint_eq(atomic_load(&items[i]->ended), 1);
        ck_assert_int_eq(items[i]->work.status, GEMMD_ERR_INTERNAL);
        ck_assert_str_eq(items[i]->work.fault.detail, "a simulated failure");
    }
    ck_assert_int_eq(first[0]->work.status, GEMMD_OK);
}
END_TEST

START_TEST(a_lost_device_fails_shared_launches_once)
{
    struct item *first[DEVICE_SHARED_SLOTS], *items[MAX_LAUNCH_WORKS];
    start(1, ITEMS_MAX);
    occupy(first);
    for (int i = 0; i < MAX_LAUNCH_WORKS; i++) {
        items[i] = add_sharing(SIMULATED_RUNNING);
        push(items[i]);
    }
    end_with(first[0], SIMULATED_DONE);
    wait_until_submitted(DEVICE_SHARED_SLOTS + MAX_LAUNCH_WORKS);
    for (int i = 0; i < MAX_LAUNCH_WORKS; i++)
        atomic_store(&items[i]->event, i == 1 ? SIMULATED_LOST : SIMULATED_DONE);
    for (int i = 0; i < MAX_LAUNCH_WORKS; i++)
        wait_until_ended(items[i]);
    wait_until_ended(first[1]);
    wait_until_counted("gemmd_device_errors_total 1\n"); /* after the works have ended */
    stop();
    for (int i = 0; i < MAX_LAUNCH_WORKS; i++) {
        ck_assert_uint_eq(atomic_load(&items[i]->ended), 1);
        ck_assert_int_eq(items[i]->work.status, GEMMD_ERR_DEVICE_LOST);
    }
}
END_TEST

START_TEST(a_deadline_in_a_shared_launch_is_its_own_work_s_alone)
{
    struct item *first[DEVICE_SHARED_SLOTS], *items[3];
    start(1, ITEMS_MAX);
    occupy(first);
    for (int i = 0; i < 3; i++) {
        items[i] = add_sharing(SIMULATED_RUNNING);
        items[i]->work.deadline_ns = i == 1 ? clock_now_ns() + 50000000 : 0;
        push(items[i]);
    }
    end_with(first[0], SIMULATED_DONE);
    while (clock_now_ns() <= items[1]->work.deadline_ns)
        wait_a_little();
    for (int i = 0; i < 3; i++)
        atomic_store(&items[i]->event, SIMULATED_DONE);
    for (int i = 0; i < 3; i++)
        wait_until_ended(items[i]);
    end_with(first[1], SIMULATED_DONE);
    stop();
    ck_assert_int_eq(items[0]->work.status, GEMMD_OK);
    ck_assert_int_eq(items[1]->work.status, GEMMD_ERR_DEADLINE);
    ck_assert_int_eq(items[2]->work.status, GEMMD_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("dispatch_shared");
    TCase *tests = tcase_create("dispatch_shared");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, all_that_wait_share_a_launch);
    tcase_add_test(tests, no_more_than_max_launch_works_share_a_launch);
    tcase_add_test(tests, large_and_small_work_do_not_hold_each_other_up);
    tcase_add_test(tests, a_failed_launch_fails_all_that_share_it);
    tcase_add_test(tests, a_lost_device_fails_shared_launches_once);
    tcase_add_test(tests, a_deadline_in_a_shared_launch_is_its_own_work_s_alone);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
