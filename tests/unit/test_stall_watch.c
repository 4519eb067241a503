/* server/scheduler/stall_watch.c: which courses of a device count as a stall, with a time that the
 * test sets. */
#include <check.h>
#include <stdlib.h>

#include "server/scheduler/stall_watch.h"

enum { LIMIT_NS = 100 };

/* What the watch sees in one look, and for how long the device is stalled by then. */
struct look {
    uint64_t now_ns;
    bool busy;
    uint64_t progress, stalled_ns;
};

static void check_course(uint64_t limit_ns, const struct look looks[], size_t count)
{
    struct stall_watch watch = {.limit_ns = limit_ns};
    for (size_t i = 0; i < count; i++) {
        stall_watch_look(&watch, looks[i].busy, looks[i].progress, looks[i].now_ns);
        ck_assert_msg(stall_watch_ns(&watch) == looks[i].stalled_ns,
                      "at %lu ns: stalled for %lu ns, not for %lu ns",
                      (unsigned long)looks[i].now_ns, (unsigned long)stall_watch_ns(&watch),
                      (unsigned long)looks[i].stalled_ns);
    }
}

#define CHECK_COURSE(limit_ns, ...)                                                                \
    do {                                                                                           \
        static const struct look looks[] = {__VA_ARGS__};                                          \
        check_course((limit_ns), looks, sizeof looks / sizeof *looks);                             \
    } while (0)

START_TEST(work_without_progress_is_a_stall_after_the_limit)
{
    CHECK_COURSE(LIMIT_NS, {1000, true, 0, 0}, {1000 + LIMIT_NS, true, 0, 0},
                 {1001 + LIMIT_NS, true, 0, 1 + LIMIT_NS}, {5000, true, 0, 4000});
}
END_TEST

START_TEST(progress_ends_a_stall_and_begins_the_time_anew)
{
    CHECK_COURSE(LIMIT_NS, {1000, true, 7, 0}, {2000, true, 7, 1000}, {2001, true, 8, 0},
                 {2001 + LIMIT_NS, true, 8, 0}, {2002 + LIMIT_NS, true, 8, 1 + LIMIT_NS});
}
END_TEST

START_TEST(a_device_without_work_is_not_stalled)
{
    CHECK_COURSE(LIMIT_NS, {1000, false, 0, 0}, {5000, false, 0, 0}, {9000, false, 0, 0});
}
END_TEST

/* A device that has finished something and has had no work since may rest for any time. */
START_TEST(time_without_work_does_not_count)
{
    CHECK_COURSE(LIMIT_NS, {1000, true, 0, 0}, {1010, true, 1, 0}, {1020, false, 1, 0},
                 {5000, false, 1, 0}, {5000 + LIMIT_NS, true, 1, 0},
                 {5001 + LIMIT_NS, true, 1, 1 + LIMIT_NS}, {5002 + LIMIT_NS, false, 1, 0});
}
END_TEST

START_TEST(without_a_limit_nothing_is_a_stall)
{
    CHECK_COURSE(0, {1000, true, 0, 0}, {UINT64_MAX, true, 0, 0});
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stall_watch");
    TCase *tests = tcase_create("stall_watch");
    tcase_add_test(tests, work_without_progress_is_a_stall_after_the_limit);
    tcase_add_test(tests, progress_ends_a_stall_and_begins_the_time_anew);
    tcase_add_test(tests, a_device_without_work_is_not_stalled);
    tcase_add_test(tests, time_without_work_does_not_count);
    tcase_add_test(tests, without_a_limit_nothing_is_a_stall);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
