/* server/base/drain_rate.c, with a time that the test sets. */
#include <check.h>
#include <stdlib.h>

#include "server/base/drain_rate.h"

/* A second in fifths, as the daemon samples; `requests` and `bytes` end in each fifth. */
struct course {
    struct drain_rate rate;
    uint64_t now_ns, ended, ended_bytes;
};

static void pass(struct course *course, uint32_t fifths, uint64_t requests, uint64_t bytes,
                 bool busy)
{
    if (course->now_ns == 0)
        drain_rate_sample(&course->rate, course->now_ns = 1000000000, 0, 0, busy);
    for (uint32_t i = 0; i < fifths; i++) {
        course->ended += requests;
        course->ended_bytes += bytes;
        course->now_ns += 200000000;
        drain_rate_sample(&course->rate, course->now_ns, course->ended, course->ended_bytes, busy);
    }
}

START_TEST(nothing_known_is_the_least)
{
    struct course course = {0};
    ck_assert_uint_eq(drain_rate_seconds(&course.rate, 1), 1);
    pass(&course, 100, 0, 0, false);
    ck_assert_uint_eq(drain_rate_seconds(&course.rate, 1000), 1);
    ck_assert_uint_eq(drain_rate_seconds_bytes(&course.rate, UINT64_MAX), 1);
}
END_TEST

START_TEST(a_steady_rate_is_told_at_once_and_rounded_up)
{
    static const struct {
        uint64_t requests;
        uint32_t seconds;
    } expected[] = {{1, 1},    {10, 1},   {11, 2},   {20, 2},         {21, 3},
                    {250, 25}, {599, 60}, {601, 60}, {UINT64_MAX, 60}};
    struct course course = {0};
    for (int round = 0; round < 3; round++) {
        pass(&course, 1 + 99 * (uint32_t)round, 2, 2000, true); /* 10 a second, 10000 bytes */
        for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
            /* Rates are rounded: what is a whole number of seconds may be told as one more. */
            ck_assert_uint_le(drain_rate_seconds(&course.rate, expected[i].requests) -
                                  expected[i].seconds,
                              expected[i].requests % 10 == 0);
        ck_assert_uint_eq(drain_rate_seconds_bytes(&course.rate, 25000), 3);
    }
}
END_TEST

START_TEST(idle_time_does_not_slow_it_down)
{
    struct course course = {0};
    pass(&course, 50, 2, 2000, true); /* 10 requests a second */
    ck_assert_uint_eq(drain_rate_seconds(&course.rate, 108), 11);
    /* Requests were held when this fifth of a second began, and none has ended in it: it counts,
     * and the mean is 9.5 requests a second. */
    pass(&course, 1, 0, 0, false);
    ck_assert_uint_eq(drain_rate_seconds(&course.rate, 108), 12);
    pass(&course, 5000, 0, 0, false);
    ck_assert_uint_eq(drain_rate_seconds(&course.rate, 108), 12);
}
END_TEST

START_TEST(a_change_shows_in_seconds)
{
    struct course course = {0};
    pass(&course, 500, 20, 0, true); /* 100 a second, */
    ck_assert_uint_eq(drain_rate_seconds(&course.rate, 395), 4);
    pass(&course, 60, 2, 0, true); /* then 10 for 12 seconds */
    uint32_t slower = drain_rate_seconds(&course.rate, 395);
    ck_assert_uint_gt(slower, 20);
    ck_assert_uint_le(slower, 40);
    pass(&course, 60, 20, 0, true);
    ck_assert_uint_le(drain_rate_seconds(&course.rate, 395), 5);
}
END_TEST

START_TEST(a_standstill_grows_to_the_most)
{
    struct course course = {0};
    uint32_t last = 0;
    pass(&course, 50, 2, 0, true);
    for (int second = 0; second < 60; second++) {
        pass(&course, 5, 0, 0, true);
        uint32_t seconds = drain_rate_seconds(&course.rate, 10);
        ck_assert_uint_ge(seconds, last);
        last = seconds;
    }
    ck_assert_uint_eq(last, DRAIN_SECONDS_MAX);
}
END_TEST

START_TEST(before_the_first_end_it_is_as_long_again)
{
    struct course course = {0};
    pass(&course, 1, 0, 0, true);
    ck_assert_uint_eq(drain_rate_seconds(&course.rate, 10), 1);
    pass(&course, 31, 0, 0, true);
    ck_assert_uint_eq(drain_rate_seconds(&course.rate, 10), 7);
    ck_assert_uint_eq(drain_rate_seconds_bytes(&course.rate, 1 << 30), 7);
    pass(&course, 1000, 0, 0, true);
    ck_assert_uint_eq(drain_rate_seconds(&course.rate, 10), DRAIN_SECONDS_MAX);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("drain_rate");
    TCase *tests = tcase_create("drain_rate");
    tcase_add_test(tests, nothing_known_is_the_least);
    tcase_add_test(tests, a_steady_rate_is_told_at_once_and_rounded_up);
    tcase_add_test(tests, idle_time_does_not_slow_it_down);
    tcase_add_test(tests, a_change_shows_in_seconds);
    tcase_add_test(tests, a_standstill_grows_to_the_most);
    tcase_add_test(tests, before_the_first_end_it_is_as_long_again);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
