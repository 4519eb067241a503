/* server/http/request_fields.c: the ids of requests, and the two preferences, in every spelling
 * that RFC 7240 allows. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/request_parts.h"

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

enum { NONE = -1 };

static const struct {
    const char *values[2]; /* of one header, or of two */
    bool respond_async;
    int wait_s;
} cases[] = {
    {{""}, false, NONE},
    {{"respond-async"}, true, NONE},
    {{"Respond-Async"}, true, NONE},
    {{"  respond-async  "}, true, NONE},
    {{"respond-async, wait=10"}, true, 10},
    {{"respond-async,wait=10"}, true, 10},
    {{"wait=10;foo=bar, respond-async"}, true, 10},
    {{"wait = 7"}, false, 7},
    {{"WAIT=\"7\""}, false, 7},
    {{"wait=7, wait=9"}, false, 7},
    {{"wait=7", "wait=9, respond-async"}, true, 7},
    {{"respond-async=\"\""}, true, NONE},
    {{"respond-async; level=\"a, b\""}, true, NONE},
    {{"lenient; note=\"respond-async, wait=3\""}, false, NONE},
    {{"lenient=\"respond-async, wait=3\\\", wait=4\", wait=5"}, false, 5},
    {{"return=minimal, handling=strict"}, false, NONE},
    {{"respond-asynchronously"}, false, NONE},
    {{"not-respond-async"}, false, NONE},
    {{"wait"}, false, NONE},
    {{"wait="}, false, NONE},
    {{"wait=-1"}, false, NONE},
    {{"wait=1s"}, false, NONE},
    {{"wait=99999999999999999999999"}, false, NONE},
    {{",,;=,\"", "respond-async"}, true, NONE},
    {{"\"respond-async"}, false, NONE},
    {{"wait=\"5"}, false, NONE},
    {{"a-name-that-is-longer-than-any-that-means-something, respond-async"}, true, NONE},
};

START_TEST(reads)
{
    struct preferences preferences = {0};
    for (int i = 0; i < 2 && cases[_i].values[i] != NULL; i++)
        prefer_read(&preferences, cases[_i].values[i]);
    ck_assert_msg(preferences.respond_async == cases[_i].respond_async, "'%s': respond-async %d",
                  cases[_i].values[0], preferences.respond_async);
    ck_assert_msg(preferences.has_wait == (cases[_i].wait_s != NONE), "'%s': has wait %d",
                  cases[_i].values[0], preferences.has_wait);
    if (preferences.has_wait)
        ck_assert_uint_eq(preferences.wait_s, (uint64_t)cases[_i].wait_s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("request_fields");
    TCase *tests = tcase_create("request_fields");
    tcase_add_test(tests, keeps_what_is_short_and_printable);
    tcase_add_test(tests, makes_one_for_the_rest);
    tcase_add_loop_test(tests, reads, 0, sizeof cases / sizeof *cases);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
