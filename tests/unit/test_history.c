/* The rings of samples: their order, their oldest samples, reading on, and what a long sample is
 * made of. */
#include <check.h>

#include "server/observe/history.h"

static struct history *history;
static struct history_sample samples[HISTORY_MOST];

static void setup(void)
{
    history = history_create();
    ck_assert_ptr_nonnull(history);
}

static void teardown(void)
{
    history_destroy(history);
}

static void add(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct history_sample sample = {
            .refused = (uint32_t)history_newest(history, HISTORY_SECONDS)};
        history_add(history, &sample);
    }
}

START_TEST(an_empty_history_has_no_samples)
{
    ck_assert_uint_eq(history_newest(history, HISTORY_SECONDS), 0);
    ck_assert_uint_eq(history_newest(history, HISTORY_LONG), 0);
    ck_assert_uint_eq(history_read(history, HISTORY_SECONDS, 0, samples, HISTORY_SAMPLES), 0);
}
END_TEST

START_TEST(samples_are_numbered_and_read_in_order)
{
    add(3);
    ck_assert_uint_eq(history_read(history, HISTORY_SECONDS, 0, samples, HISTORY_SAMPLES), 3);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(samples[i].number, i + 1);
        ck_assert_uint_eq(samples[i].refused, i);
    }
    ck_assert_uint_eq(history_read(history, HISTORY_SECONDS, 2, samples, HISTORY_SAMPLES), 1);
    ck_assert_uint_eq(samples[0].number, 3);
}
END_TEST

START_TEST(the_oldest_samples_are_replaced)
{
    add(HISTORY_SAMPLES + 5);
    ck_assert_uint_eq(history_read(history, HISTORY_SECONDS, 0, samples, HISTORY_SAMPLES),
                      HISTORY_SAMPLES);
    ck_assert_uint_eq(samples[0].number, 6);
    ck_assert_uint_eq(samples[HISTORY_SAMPLES - 1].number, HISTORY_SAMPLES + 5);
    ck_assert_uint_eq(samples[HISTORY_SAMPLES - 1].refused, HISTORY_SAMPLES + 4);
}
END_TEST

START_TEST(no_more_are_copied_than_there_is_room_for)
{
    add(HISTORY_SAMPLES + 5);
    ck_assert_uint_eq(history_read(history, HISTORY_SECONDS, 3, samples, 2), 2);
    ck_assert_uint_eq(samples[0].number, 6);
    ck_assert_uint_eq(samples[1].number, 7);
}
END_TEST

START_TEST(nothing_follows_a_number_that_is_not_there_yet)
{
    add(2);
    ck_assert_uint_eq(history_read(history, HISTORY_SECONDS, 2, samples, HISTORY_SAMPLES), 0);
    ck_assert_uint_eq(history_read(history, HISTORY_SECONDS, UINT64_MAX, samples, HISTORY_SAMPLES),
                      0);
}
END_TEST

START_TEST(a_long_sample_has_the_seconds_one_after_another)
{
    for (uint32_t i = 1; i <= 2 * HISTORY_LONG_SECONDS - 1; i++) {
        const struct history_sample sample = {.time_s = 100 + i,
                                              .seconds = 1,
                                              .requests = {i},
                                              .failed = UINT32_MAX,
                                              .queue_mean = (float)i,
                                              .queue_max = i == 3 ? 50 : 1,
                                              .flops = 2,
                                              .cpu_host = i % 2 == 0 ? 2 : 0,
                                              .cpus = 8,
                                              .memory_process = i == 4 ? 900 : 100,
                                              .ready = i != HISTORY_LONG_SECONDS};
        ck_assert_uint_eq(history_newest(history, HISTORY_LONG), i > HISTORY_LONG_SECONDS);
        history_add(history, &sample);
    }
    ck_assert_uint_eq(history_read(history, HISTORY_LONG, 0, samples, HISTORY_MOST), 1);
    ck_assert_uint_eq(samples[0].number, 1);
    ck_assert_double_eq(samples[0].time_s, 100 + HISTORY_LONG_SECONDS);
    ck_assert_double_eq(samples[0].seconds, HISTORY_LONG_SECONDS);
    ck_assert_uint_eq(samples[0].requests[0], 15 * 16 / 2);
    ck_assert_uint_eq(samples[0].failed, UINT32_MAX); /* stays, and does not wrap */
    ck_assert_float_eq_tol(samples[0].queue_mean, 8, 1e-3F);
    ck_assert_float_eq(samples[0].queue_max, 50);
    ck_assert_double_eq(samples[0].flops, 30);
    ck_assert_float_eq_tol(samples[0].cpu_host, 14.0F / 15, 1e-3F);
    ck_assert_uint_eq(samples[0].cpus, 8);
    ck_assert_double_eq(samples[0].memory_process, 900);
    ck_assert(!samples[0].ready);
}
END_TEST

START_TEST(the_oldest_long_samples_are_replaced)
{
    add((HISTORY_LONG_SAMPLES + 2) * HISTORY_LONG_SECONDS);
    ck_assert_uint_eq(history_read(history, HISTORY_LONG, 0, samples, HISTORY_MOST),
                      HISTORY_LONG_SAMPLES);
    ck_assert_uint_eq(samples[0].number, 3);
    ck_assert_uint_eq(history_read(history, HISTORY_LONG, HISTORY_LONG_SAMPLES + 1, samples, 9), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("history");
    TCase *tests = tcase_create("history");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, an_empty_history_has_no_samples);
    tcase_add_test(tests, samples_are_numbered_and_read_in_order);
    tcase_add_test(tests, the_oldest_samples_are_replaced);
    tcase_add_test(tests, no_more_are_copied_than_there_is_room_for);
    tcase_add_test(tests, nothing_follows_a_number_that_is_not_there_yet);
    tcase_add_test(tests, a_long_sample_has_the_seconds_one_after_another);
    tcase_add_test(tests, the_oldest_long_samples_are_replaced);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
