/* server/base/cores.c */
#include <check.h>
#include <sched.h>
#include <stdlib.h>

#include "server/base/cores.h"

START_TEST(only_cores_of_the_affinity_count)
{
    cpu_set_t all, one;
    CPU_ZERO(&all);
    CPU_ZERO(&one);
    ck_assert_int_eq(sched_getaffinity(0, sizeof all, &all), 0);
    const uint64_t quota = cores_of_cgroups(""), cores = (uint64_t)CPU_COUNT(&all);
    ck_assert_uint_eq(cores_usable(), quota < cores ? quota : cores);
    size_t first = 0;
    while (!CPU_ISSET(first, &all))
        first++;
    CPU_SET(first, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
    ck_assert_uint_eq(cores_usable(), 1);
    ck_assert_int_eq(sched_setaffinity(0, sizeof all, &all), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cores");
    TCase *tests = tcase_create("cores");
    tcase_add_test(tests, only_cores_of_the_affinity_count);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
