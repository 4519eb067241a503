/* server/scheduler/dispatch.c over a simulated device: stacks, on streams for shared launches, and
 * on the only stream, as on a CPU. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch_stage.h"
#include "server/base/clock.h"

static struct item *add_stacking(enum simulated_event event, uint32_t stack, bool shares)
{
    struct item *item = add(event);
    item->work.task.problem.gemm.n = stack;
    item->work.join_key = stack;
    item->work.join_rows = 8;
    item->work.shared_launch = shares;
    return item;
}

/* Fills the device with launches, each of which runs until end_with is called for it. */
static uint32_t occupy(struct item *items[DEVICE_SHARED_SLOTS], bool shares)
{
    const uint32_t count = shares ? DEVICE_SHARED_SLOTS : 1;
    for (uint32_t i = 0; i < count; i++) {
        items[i] = add_stacking(SIMULATED_RUNNING, 9, shares);
        push(items[i]);
        wait_until_submitted(i + 1);
    }
    return count;
}

static uint32_t begin(struct item *first[DEVICE_SHARED_SLOTS], bool shares)
{
    if (shares)
        start(1, ITEMS_MAX);
    else
        start_on(simulated_device_open_computing(look), ITEMS_MAX);
    return occupy(first, shares);
}

static void end_all(struct item *first[], uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        end_with(first[i], SIMULATED_DONE);
}

START_TEST(those_of_one_stack_are_one_launch)
{
    struct item *first[DEVICE_SHARED_SLOTS], *items[6];
    const uint32_t busy = begin(first, _i);
    for (uint32_t i = 0; i < 6; i++) {
        items[i] = add_stacking(SIMULATED_DONE, 1 + i % 2, _i);
        push(items[i]);
    }
    end_all(first, busy);
    for (int i = 0; i < 6; i++)
        wait_until_ended(items[i]);
    ck_assert_uint_eq(atomic_load(&stage.device->launches), busy + 2);
    stop();
    for (int i = 0; i < 6; i++) {
        ck_assert_int_eq(items[i]->work.status, GEMMD_OK);
        ck_assert_uint_eq(items[i]->work.launch_works, 3);
        ck_assert_uint_eq(items[i]->work.kernel_ns, 2000);
        ck_assert_uint_eq(items[i]->work.started_ns, items[i % 2]->work.started_ns);
    }
}
END_TEST

START_TEST(max_batch_and_rows_bound_a_stack)
{
    static const uint32_t expected[] = {4, 4, 4, 4, 1, 2, 2, 1};
    struct item *first[DEVICE_SHARED_SLOTS], *items[8];
    const uint32_t busy = begin(first, _i);
    for (uint32_t i = 0; i < 8; i++) {
        items[i] = add_stacking(SIMULATED_DONE, i < 5 ? 1 : 2, _i);
        if (i >= 5)
            items[i]->work.task.problem.gemm.m = 4;
        push(items[i]);
    }
    end_all(first, busy);
    for (int i = 0; i < 8; i++)
        wait_until_ended(items[i]);
    stop();
    for (int i = 0; i < 8; i++)
        ck_assert_uint_eq(items[i]->work.launch_works, expected[i]);
}
END_TEST

/* Every second work is an attention. The keys of all are the same. */
START_TEST(attentions_of_one_kind_are_one_launch)
{
    static const struct operation_kernel attends = {.name = "grouping"};
    struct item *first[DEVICE_SHARED_SLOTS], *items[6];
    const uint32_t busy = begin(first, _i);
    for (uint32_t i = 0; i < 6; i++) {
        struct work *work = &(items[i] = add_stacking(SIMULATED_DONE, 1, _i))->work;
        if (i % 2 == 0) {
            work->task.operation = &operation_attention;
            work->task.kernel = &attends;
            work->task.problem.attention = (struct attention_problem){
                .batch = 1, .heads = 1 + i, .kv_heads = 1, .sq = 1 + i, .skv = 9, .d = 8, .dv = 8};
        }
        push(items[i]);
    }
    end_all(first, busy);
    for (int i = 0; i < 6; i++)
        wait_until_ended(items[i]);
    ck_assert_uint_eq(atomic_load(&stage.device->launches), busy + 2);
    stop();
    for (int i = 0; i < 6; i++) {
        ck_assert_int_eq(items[i]->work.status, GEMMD_OK);
        ck_assert_uint_eq(items[i]->work.launch_works, 3);
    }
}
END_TEST

START_TEST(a_failed_stack_fails_its_works_only)
{
    struct item *first[DEVICE_SHARED_SLOTS], *items[6];
    const uint32_t busy = begin(first, _i);
    for (uint32_t i = 0; i < 6; i++) {
        items[i] = add_stacking(i == 2 ? SIMULATED_FAILED : SIMULATED_DONE, 1 + i % 2, _i);
        items[i]->work.verify = i == 4;
        push(items[i]);
    }
    end_all(first, busy);
    for (int i = 0; i < 6; i++)
        wait_until_ended(items[i]);
    ck_assert(counts("gemmd_device_errors_total 1\n"));
    stop();
    for (int i = 0; i < 6; i++) {
        ck_assert_uint_eq(atomic_load(&items[i]->ended), 1);
        ck_assert_int_eq(items[i]->work.status, i % 2 == 0 ? GEMMD_ERR_INTERNAL : GEMMD_OK);
    }
}
END_TEST

START_TEST(a_deadline_in_a_stack_is_its_own_work_s_alone)
{
    struct item *first[DEVICE_SHARED_SLOTS], *items[3];
    const uint32_t busy = begin(first, true);
    for (int i = 0; i < 3; i++) {
        items[i] = add_stacking(SIMULATED_RUNNING, 1, true);
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
    end_all(first, busy);
    stop();
    ck_assert_int_eq(items[0]->work.status, GEMMD_OK);
    ck_assert_int_eq(items[1]->work.status, GEMMD_ERR_DEADLINE);
    ck_assert_int_eq(items[2]->work.status, GEMMD_OK);
}
END_TEST

START_TEST(a_lost_device_fails_stacks_that_run_and_wait)
{
    struct item *first[DEVICE_SHARED_SLOTS], *items[6];
    begin(first, true);
    for (uint32_t i = 0; i < 6; i++) {
        items[i] = add_stacking(SIMULATED_DONE, 1 + i % 2, true);
        push(items[i]);
    }
    end_with(first[0], SIMULATED_LOST);
    for (int i = 0; i < 6; i++)
        wait_until_ended(items[i]);
    wait_until_ended(first[1]);
    stop();
    for (int i = 0; i < 6; i++) {
        ck_assert_uint_eq(atomic_load(&items[i]->ended), 1);
        ck_assert_int_eq(items[i]->work.status, GEMMD_ERR_DEVICE_LOST);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("dispatch_stacks");
    TCase *tests = tcase_create("dispatch_stacks");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, those_of_one_stack_are_one_launch, 0, 2);
    tcase_add_loop_test(tests, max_batch_and_rows_bound_a_stack, 0, 2);
    tcase_add_loop_test(tests, attentions_of_one_kind_are_one_launch, 0, 2);
    tcase_add_loop_test(tests, a_failed_stack_fails_its_works_only, 0, 2);
    tcase_add_test(tests, a_deadline_in_a_stack_is_its_own_work_s_alone);
    tcase_add_test(tests, a_lost_device_fails_stacks_that_run_and_wait);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
