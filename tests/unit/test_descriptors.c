/* server/net/descriptors.c: the number of connections for which a limit of open files suffices. */
#include <check.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "server/net/descriptors.h"

START_TEST(all_of_them_where_files_suffice)
{
    ck_assert_uint_eq(descriptors_suffice_for(65536, 8192, 4), 8192);
    ck_assert_uint_eq(descriptors_suffice_for(UINT64_MAX, UINT32_MAX, 64), UINT32_MAX);
}
END_TEST

START_TEST(what_is_raised_suffices)
{
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = 64;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);

    const uint64_t files = descriptors_raise(100, 2);

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_uint_eq(limit.rlim_cur, files);
    ck_assert_uint_eq(descriptors_suffice_for(files, 100, 2), 100);
}
END_TEST

START_TEST(what_suffices_already_is_left)
{
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = 600;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);

    ck_assert_uint_eq(descriptors_raise(100, 2), 600);
}
END_TEST

START_TEST(few_files_are_shared)
{
    ck_assert_uint_eq(descriptors_suffice_for(1024, 8192, 2), 752);
    ck_assert_uint_eq(descriptors_suffice_for(100, 8192, 2), 50);
    ck_assert_uint_eq(descriptors_suffice_for(0, 8192, 2), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("descriptors");
    TCase *tcase = tcase_create("limit");
    tcase_add_test(tcase, all_of_them_where_files_suffice);
    tcase_add_test(tcase, what_is_raised_suffices);
    tcase_add_test(tcase, what_suffices_already_is_left);
    tcase_add_test(tcase, few_files_are_shared);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
