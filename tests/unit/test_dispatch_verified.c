/* server/scheduler/dispatch.c over a simulated device: verified results. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch_stage.h"

static uint64_t counted(enum work_verify by, enum verify_result result)
{
    return atomic_load(&dispatch_verify_counts(stage.dispatch)->count[by][result]);
}

START_TEST(a_check_is_judged_by_its_residual)
{
    static const double residuals[] = {0, 1, 1.01, INFINITY};
    const enum work_verify by = _i == 0 ? WORK_VERIFY_ASKED : WORK_VERIFY_SAMPLED;
    start(1, ITEMS_MAX);
    for (int i = 0; i < 4; i++) {
        struct item *item = add(SIMULATED_DONE);
        item->work.verify = by;
        item->work.residual = residuals[i];
        push(item);
        wait_until_ended(item);
        ck_assert_int_eq(item->work.status, i < 2 ? GEMMD_OK : GEMMD_ERR_VERIFICATION);
        if (i >= 2)
            ck_assert_ptr_nonnull(strstr(item->work.fault.detail, "failed verification"));
        ck_assert_double_eq(item->work.residual, residuals[i]);
    }
    ck_assert_uint_eq(counted(by, VERIFY_PASS), 2);
    ck_assert_uint_eq(counted(by, VERIFY_FAIL), 2);
    ck_assert_uint_eq(counted(by, VERIFY_ERROR), 0);
    stop();
}
END_TEST

START_TEST(a_work_that_is_not_verified_is_not_judged)
{
    start(1, ITEMS_MAX);
    struct item *item = add(SIMULATED_DONE);
    item->work.residual = 2;
    push(item);
    wait_until_ended(item);
    ck_assert_int_eq(item->work.status, GEMMD_OK);
    stop();
}
END_TEST

START_TEST(a_failed_work_keeps_its_error)
{
    start(1, ITEMS_MAX);
    struct item *item = add(SIMULATED_FAILED);
    item->work.verify = WORK_VERIFY_ASKED;
    item->work.residual = 2;
    push(item);
    wait_until_ended(item);
    ck_assert_int_eq(item->work.status, GEMMD_ERR_INTERNAL);
    ck_assert_str_eq(item->work.fault.detail, "a simulated failure");
    ck_assert_uint_eq(counted(WORK_VERIFY_ASKED, VERIFY_ERROR), 1);
    ck_assert_uint_eq(counted(WORK_VERIFY_ASKED, VERIFY_FAIL), 0);
    stop();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("dispatch_verified");
    TCase *tests = tcase_create("dispatch_verified");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, a_check_is_judged_by_its_residual, 0, 2);
    tcase_add_test(tests, a_work_that_is_not_verified_is_not_judged);
    tcase_add_test(tests, a_failed_work_keeps_its_error);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
