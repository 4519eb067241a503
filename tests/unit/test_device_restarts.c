/* server/device_restarts.c: restarts after losses of the device, counted across executions. */
#include <check.h>
#include <stdlib.h>

#include "server/device_restarts.h"

static const uint64_t SECOND_NS = 1000000000, START_NS = 500 * UINT64_C(1000000000);

START_TEST(restarts_of_a_minute_are_limited)
{
    struct device_restarts restarts = {0};
    uint64_t now_ns = START_NS;
    for (uint32_t i = 0; i < DEVICE_RESTARTS_MAX; i++, now_ns += SECOND_NS) {
        ck_assert(device_restarts_allowed(&restarts, now_ns));
        ck_assert(device_restarts_add(&restarts, now_ns));
    }
    ck_assert(!device_restarts_allowed(&restarts, now_ns));
    ck_assert(!device_restarts_allowed(&restarts, START_NS + DEVICE_RESTARTS_PERIOD_S * SECOND_NS));
    ck_assert(
        device_restarts_allowed(&restarts, START_NS + DEVICE_RESTARTS_PERIOD_S * SECOND_NS + 1));
    ck_assert(device_restarts_allowed(&restarts, 1)); /* the clock has started again */
}
END_TEST

START_TEST(the_variable_keeps_the_counts)
{
    struct device_restarts restarts = {0};
    for (uint64_t i = 1; i <= 5; i++)
        ck_assert(device_restarts_add(&restarts, UINT64_MAX - i));
    const struct device_restarts read = device_restarts_read(getenv(DEVICE_RESTARTS_VARIABLE));
    ck_assert_uint_eq(read.count, 5);
    for (uint64_t i = 0; i < DEVICE_RESTARTS_MAX; i++)
        ck_assert_uint_eq(read.at_ns[i], UINT64_MAX - 5 + i);
}
END_TEST

START_TEST(other_values_are_no_restarts)
{
    static const char *const values[] = {
        NULL, "", ",", "x,1,2,3", "1,2,x,3", "-1,0,0,0", "111111111111111111111111111,1,1,1"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        const struct device_restarts read = device_restarts_read(values[i]);
        ck_assert_uint_eq(read.count, 0);
        ck_assert(device_restarts_allowed(&read, START_NS));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_restarts");
    TCase *tests = tcase_create("device_restarts");
    tcase_add_test(tests, restarts_of_a_minute_are_limited);
    tcase_add_test(tests, the_variable_keeps_the_counts);
    tcase_add_test(tests, other_values_are_no_restarts);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
