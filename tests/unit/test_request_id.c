/* server/http/request_id.c */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/request_id.h"

START_TEST(keeps_what_is_short_and_printable)
{
    char id[REQUEST_ID_MAX + 1], longest[REQUEST_ID_MAX + 1];
    uint64_t state = 1;
    memset(longest, '~', REQUEST_ID_MAX);
    longest[REQUEST_ID_MAX] = '\0';
    request_id_choose(id, "a/b:c-1", &state);
    ck_assert_str_eq(id, "a/b:c-1");
    request_id_choose(id, longest, &state);
    ck_assert_str_eq(id, longest);
    ck_assert_uint_eq(state, 1);
}
END_TEST

START_TEST(makes_one_for_the_rest)
{
    char too_long[REQUEST_ID_MAX + 2], id[REQUEST_ID_MAX + 1], other[REQUEST_ID_MAX + 1] = "";
    const char *const given[] = {NULL, "", "a b", "a\tb", "\x7f", "\xc3\xa9", too_long};
    uint64_t state = 1;
    memset(too_long, 'x', REQUEST_ID_MAX + 1);
    too_long[REQUEST_ID_MAX + 1] = '\0';
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        request_id_choose(id, given[i], &state);
        ck_assert_uint_eq(strspn(id, "0123456789abcdef"), 16);
        ck_assert_uint_eq(strlen(id), 16);
        ck_assert_str_ne(id, other);
        strcpy(other, id);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("request_id");
    TCase *tests = tcase_create("request_id");
    tcase_add_test(tests, keeps_what_is_short_and_printable);
    tcase_add_test(tests, makes_one_for_the_rest);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
