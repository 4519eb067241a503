/* server/net/delivery.c: rates of bodies and answers. */
#include <check.h>
#include <stdlib.h>

#include "server/net/delivery.h"

static const uint64_t START = 1000, SECOND = 1000000000;

START_TEST(an_average_below_the_least_rate)
{
    ck_assert(delivery_is_below(4999, START, START + 5 * SECOND, 1000));
    ck_assert(!delivery_is_below(5000, START, START + 5 * SECOND, 1000));
    ck_assert(!delivery_is_below(0, START, START + 5 * SECOND, 0));
    ck_assert(!delivery_is_below(0, START, START, 1000));
}
END_TEST

START_TEST(a_rate_that_would_miss_the_deadline)
{
    /* 100 bytes in 5 seconds; at twice that rate, 400 more until the end. */
    ck_assert(!delivery_misses(499, 100, START, START + 5 * SECOND, START + 15 * SECOND));
    ck_assert(delivery_misses(502, 100, START, START + 5 * SECOND, START + 15 * SECOND));
    ck_assert(delivery_misses(1, 0, START, START + 5 * SECOND, START + 15 * SECOND));
    ck_assert(!delivery_misses(100, 100, START, START + 20 * SECOND, START + 15 * SECOND));
    ck_assert(delivery_misses(101, 100, START, START + 20 * SECOND, START + 15 * SECOND));
    ck_assert(!delivery_misses(100, 0, START, START, START + 15 * SECOND));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("delivery");
    TCase *tcase = tcase_create("delivery");
    tcase_add_test(tcase, an_average_below_the_least_rate);
    tcase_add_test(tcase, a_rate_that_would_miss_the_deadline);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
