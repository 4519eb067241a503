/* server/http/prefer.c: the two preferences, in every spelling that RFC 7240 allows. */
#include <check.h>
#include <stdlib.h>

#include "server/http/prefer.h"

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
    Suite *suite = suite_create("prefer");
    TCase *tcase = tcase_create("prefer");
    tcase_add_loop_test(tcase, reads, 0, sizeof cases / sizeof *cases);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
