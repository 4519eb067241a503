/* server/scheduler/dispatch.c and verifier.c over a simulated device: verified results. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch_stage.h"
#include "server/base/clock.h"

START_TEST(verified_work_tells_its_residual)
{
    start(1, ITEMS_MAX);
    struct item *item = add(SIMULATED_DONE);
    item->work.verify = WORK_VERIFY_ASKED;
    push(item);
    wait_until_ended(item);
    stop();
    ck_assert_int_eq(item->work.status, GEMMD_OK);
    ck_assert(item->work.residual == 0.25);
}
END_TEST

START_TEST(a_result_that_fails_its_check_is_an_error)
{
    start(1, ITEMS_MAX);
    struct item *wrong = add(SIMULATED_DONE), *unchecked = add(SIMULATED_DONE);
    struct item *failed = add(SIMULATED_FAILED);
    wrong->work.verify = unchecked->work.verify = failed->work.verify = WORK_VERIFY_ASKED;
    wrong->check.pass = false;
    unchecked->check.code = GEMMD_ERR_OUT_OF_MEMORY;
    push(wrong);
    push(unchecked);
    push(failed);
    wait_until_ended(wrong);
    wait_until_ended(unchecked);
    wait_until_ended(failed);
    stop();
    ck_assert_int_eq(wrong->work.status, GEMMD_ERR_VERIFICATION);
    ck_assert_ptr_nonnull(strstr(wrong->work.fault.detail, "failed verification"));
    ck_assert_int_eq(unchecked->work.status, GEMMD_ERR_OUT_OF_MEMORY);
    ck_assert_str_eq(failed->work.fault.detail, "a simulated failure");
}
END_TEST

START_TEST(a_sampled_result_that_cannot_be_checked_is_sent)
{
    start(1, ITEMS_MAX);
    struct item *item = add(SIMULATED_DONE);
    item->work.verify = WORK_VERIFY_SAMPLED;
    item->check.code = GEMMD_ERR_OUT_OF_MEMORY;
    push(item);
    wait_until_ended(item);
    const struct verify_counts *counts = dispatch_verify_counts(stage.dispatch);
    ck_assert_uint_eq(atomic_load(&counts->count[WORK_VERIFY_SAMPLED][VERIFY_ERROR]), 1);
    stop();
    ck_assert_int_eq(item->work.status, GEMMD_OK);
}
END_TEST

START_TEST(a_check_of_the_device_is_judged_by_its_residual)
{
    static const double residuals[] = {0, 1, 1.01, INFINITY};
    for (int i = 0; i < 4; i++) {
        start(1, ITEMS_MAX);
        struct item *item = add(SIMULATED_DONE);
        item->work.verify = WORK_VERIFY_ASKED;
        item->work.verify_on_device = true;
        item->work.residual = residuals[i];
        item->check.pass = i >= 2; /* the host's check, which is not made, would say the opposite */
        push(item);
        wait_until_ended(item);
        stop();
        ck_assert_int_eq(item->work.status, i < 2 ? GEMMD_OK : GEMMD_ERR_VERIFICATION);
        ck_assert(item->work.residual == residuals[i]);
    }
}
END_TEST

START_TEST(checking_holds_up_nobody)
{
    atomic_bool held = true;
    start(1, ITEMS_MAX);
    struct item *checked = add(SIMULATED_DONE);
    checked->work.verify = WORK_VERIFY_ASKED;
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
    tcase_add_test(tests, a_result_that_fails_its_check_is_an_error);
    tcase_add_test(tests, checking_holds_up_nobody);
    tcase_add_test(tests, a_sampled_result_that_cannot_be_checked_is_sent);
    tcase_add_test(tests, a_check_of_the_device_is_judged_by_its_residual);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
