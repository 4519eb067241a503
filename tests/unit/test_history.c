/* The ring of samples: its order, its oldest sample, and reading on. */
#include <check.h>

#include "server/observe/history.h"

static struct history *history;
static struct history_sample samples[HISTORY_SAMPLES];

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
        const struct history_sample sample = {.refused = (uint32_t)history_newest(history)};
        history_add(history, &sample);
    }
}

START_TEST(an_empty_history_has_no_samples)
{
    ck_assert_uint_eq(history_newest(history), 0);
    ck_assert_uint_eq(history_read(history, 0, samples, HISTORY_SAMPLES), 0);
}
END_TEST

START_TEST(samples_are_numbered_and_read_in_order)
{
    add(3);
    ck_assert_uint_eq(history_read(history, 0, samples, HISTORY_SAMPLES), 3);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(samples[i].number, i + 1);
        ck_assert_uint_eq(samples[i].refused, i);
    }
    ck_assert_uint_eq(history_read(history, 2, samples, HISTORY_SAMPLES), 1);
    ck_assert_uint_eq(samples[0].number, 3);
}
END_TEST

START_TEST(the_oldest_samples_are_replaced)
{
    add(HISTORY_SAMPLES + 5);
    ck_assert_uint_eq(history_read(history, 0, samples, HISTORY_SAMPLES), HISTORY_SAMPLES);
    ck_assert_uint_eq(samples[0].number, 6);
    ck_assert_uint_eq(samples[HISTORY_SAMPLES - 1].number, HISTORY_SAMPLES + 5);
    ck_assert_uint_eq(samples[HISTORY_SAMPLES - 1].refused, HISTORY_SAMPLES + 4);
}
END_TEST

START_TEST(no_more_are_copied_than_there_is_room_for)
{
    add(HISTORY_SAMPLES + 5);
    ck_assert_uint_eq(history_read(history, 3, samples, 2), 2);
    ck_assert_uint_eq(samples[0].number, 6);
    ck_assert_uint_eq(samples[1].number, 7);
}
END_TEST

START_TEST(nothing_follows_a_number_that_is_not_there_yet)
{
    add(2);
    ck_assert_uint_eq(history_read(history, 2, samples, HISTORY_SAMPLES), 0);
    ck_assert_uint_eq(history_read(history, UINT64_MAX, samples, HISTORY_SAMPLES), 0);
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
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
