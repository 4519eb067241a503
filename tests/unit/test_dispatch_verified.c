/* server/scheduler/dispatch.c and verifier.c over a simulated device: verified results. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch_stage.h"
#include "server/base/clock.h"

START_TEST(verified_work_tells_its_residual)
{
    start(1, ITEMS_MAX);
    struct item *item = add(SIMULATED_DONE);
    item->work.verify = true;
    push(item);
    wait_until_ended(item);
    stop();
    ck_assert_int_eq(item->work.status, GEMMD_OK);
    ck_assert(item->work.residual == 0.25);
}
END_TEST

/* Operands that the host cannot read are checked by the copies in host memory that the work has. */
START_TEST(copies_are_checked_where_there_are_some)
{
    static float a, b, c, away;
    start(1, ITEMS_MAX);
    struct item *item = add(SIMULATED_DONE);
    struct work *work = &item->work;
    work->verify = true;
    work->problem.a = work->problem.b = work->problem.c = &away;
    work->host_a = &a;
    work->host_b = &b;
    work->host_c = &c;
    push(item);
    wait_until_ended(item);
    stop();
    ck_assert_int_eq(work->status, GEMMD_OK);
    ck_assert_ptr_eq(work->problem.a, &a);
    ck_assert_ptr_eq(work->problem.b, &b);
    ck_assert_ptr_eq(work->problem.c, &c);
}
END_TEST

START_TEST(a_result_that_fails_its_check_is_an_error)
{
    start(1, ITEMS_MAX);
    struct item *wrong = add(SIMULATED_DONE), *unchecked = add(SIMULATED_DONE);
    struct item *failed = add(SIMULATED_FAILED);
    wrong->work.verify = unchecked->work.verify = failed->work.verify = true;
    wrong->check.pass = false;
    unchecked->check.code = GEMMD_ERR_OUT_OF_MEMORY;
    push(wrong);
    push(unchecked);
    push(failed);
    wait_until_ended(wrong);
    wait_until_ended(unchecked);
    wait_until_ended(failed);
    stop();
    ck_assert_int_eq(wrong->work.status, GEMMD_ERR_INTERNAL);
    ck_assert_ptr_nonnull(strstr(wrong->work.fault.detail, "failed verification"));
    ck_assert_int_eq(unchecked->work.status, GEMMD_ERR_OUT_OF_MEMORY);
    ck_assert_str_eq(failed->work.fault.detail, "a simulated failure");
}
END_TEST

START_TEST(checking_holds_up_nobody)
{
    atomic_bool held = true;
    start(1, ITEMS_MAX);
    struct item *checked = add(SIMULATED_DONE);
    checked->work.verify = true;
    checked->check.held = &held;
    push(checked);
    struct item *other = add_and_push(SIMULATED_DONE);
    wait_until_ended(other);
    ck_assert_uint_eq(atomic_load(&checked->ended), 0);
    atomic_store(&held, false);
    wait_until_ended(checked);
    stop();
    ck_assert_int_eq(checked->work.status, GEMMD_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("dispatch_verified");
    TCase *tests = tcase_create("dispatch_verified");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, verified_work_tells_its_residual);
    tcase_add_test(tests, copies_are_checked_where_there_are_some);
    tcase_add_test(tests, a_result_that_fails_its_check_is_an_error);
    tcase_add_test(tests, checking_holds_up_nobody);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
