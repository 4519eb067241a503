/* client/gemmctl/failure.c: what a user can do about an error. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/gemmctl/command.h"

static const struct {
    const char *line; /* of words that spaces separate */
    const char *variable;
    enum gemmd_error code;
    const char *message, *hint; /* NULL: there is no hint */
} hints[] = {
    {"ready", NULL, GEMMD_ERR_UNAUTHORIZED, "", "name the file of a token"},
    {"ready", "GEMMD_TOKEN=", GEMMD_ERR_UNAUTHORIZED, "", "name the file of a token"},
    {"ready", "GEMMD_TOKEN=t", GEMMD_ERR_UNAUTHORIZED, "", "none of the tokens"},
    {"ready", "GEMMD_CONTEXT=c", GEMMD_ERR_UNAUTHORIZED, "", "none of the tokens"},
    {"ready --token-file f", NULL, GEMMD_ERR_UNAUTHORIZED, "", "none of the tokens"},
    {"job status j", NULL, GEMMD_ERR_NOT_FOUND, "no such job", "gemmctl job ls"},
    {"tensor rm t", NULL, GEMMD_ERR_NOT_FOUND, "no tensor", "gemmctl tensor ls"},
    {"info", NULL, GEMMD_ERR_NOT_FOUND, "no such path", NULL},
    {"", NULL, GEMMD_ERR_NOT_FOUND, "no such path", NULL},
    {"info", NULL, GEMMD_ERR_CONNECTION, "the certificate is old", "--ca-file"},
    {"info", NULL, GEMMD_ERR_CONNECTION, "", "--url or GEMMD_URL"},
    {"info", NULL, GEMMD_ERR_CONNECTION, "An unexpected TLS packet was received", "http://"},
    {"info", NULL, GEMMD_ERR_CONNECTION, "wrong version number", "http://"},
    {"info -u h:1", "http_proxy=p", GEMMD_ERR_CONNECTION, "no daemon answers at h:1", "no_proxy"},
    {"info -u h:1", "all_proxy=p", GEMMD_ERR_CONNECTION, "no daemon answers at h:1", "no_proxy"},
    {"info -u h:1", "https_proxy=p", GEMMD_ERR_CONNECTION, "no daemon answers at h:1", NULL},
    {"info -u h:1", "https_proxy=p", GEMMD_ERR_CONNECTION, "at https://h:1", "no_proxy"},
    {"info -u h:1", "http_proxy=p", GEMMD_ERR_CONNECTION, "at https://h:1", NULL},
    {"info -u h:1", "all_proxy=p", GEMMD_ERR_CONNECTION, "at unix:/h", NULL},
    {"info", "GEMMD_URL=http://h", GEMMD_ERR_CONNECTION, "", NULL},
    {"info", "GEMMD_CONTEXT=c", GEMMD_ERR_CONNECTION, "", NULL},
    {"info --url http://h", NULL, GEMMD_ERR_CONNECTION, "", NULL},
    {"info", NULL, GEMMD_ERR_TIMEOUT, "", "--timeout sets a longer time"},
    {"bench ladder", NULL, GEMMD_ERR_TIMEOUT, "", NULL},
    {"info", NULL, GEMMD_ERR_QUEUE_FULL, "", "--retries sets"},
    {"info", NULL, GEMMD_ERR_DRAINING, "", "--retries sets"},
    {"info --retries 3", NULL, GEMMD_ERR_QUEUE_FULL, "", NULL},
    {"info", NULL, GEMMD_ERR_INTERNAL, "", NULL},
};

static const char *const proxies[] = {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy",
                                      "ALL_PROXY",  "no_proxy",    "NO_PROXY"};

START_TEST(a_hint_speaks_of_options_that_are_not_given)
{
    char copy[64], variable[32], problem[PROBLEM_MAX] = "";
    char *words[8] = {NULL};
    int count = 1;
    struct arguments arguments;
    memset(&arguments, 0, sizeof arguments);
    struct gemmd_error_info error = {.code = hints[_i].code};
    snprintf(error.message, sizeof error.message, "%s", hints[_i].message);
    unsetenv("GEMMD_TOKEN");
    unsetenv("GEMMD_CONTEXT");
    unsetenv("GEMMD_URL");
    for (size_t i = 0; i < sizeof proxies / sizeof proxies[0]; i++)
        unsetenv(proxies[i]);
    if (hints[_i].variable != NULL) {
        snprintf(variable, sizeof variable, "%s", hints[_i].variable);
        char *value = variable, *name = strsep(&value, "=");
        setenv(name, value, 1);
    }
    snprintf(copy, sizeof copy, "%s", hints[_i].line);
    for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " "))
        words[count++] = word;
    if (count > 1)
        ck_assert_msg(arguments_parse(&arguments, count, words, commands, problem), "%s", problem);
    const struct context context = {.commands = commands, .arguments = &arguments};
    const char *hint = hint_for(&context, &error);
    ck_assert_int_eq(hint != NULL, hints[_i].hint != NULL);
    if (hint != NULL)
        ck_assert_ptr_nonnull(strstr(hint, hints[_i].hint));
}
END_TEST

static const struct {
    const char *field, *detail, *sentence;
    const char *k; /* the value of --k; NULL: not given */
} sentences[] = {
    {"k", "k is 4 by the shape of B and 3 by that of A",
     "k is 4 by the shape of B and 3 by that of A", NULL},
    {"k", "k is 4 by the shape of B and 3 by the parameter",
     "--k is 4 by the shape of B and 3 by the parameter", "3"},
    {"kv_heads", "kv_heads is '0'", "--kv-heads is '0'", NULL},
    {"kv_heads", "kv_heads=0 is less", "--kv-heads=0 is less", NULL},
    {"m", "m is missing", "--m is missing", NULL},
    {"kv_heads", "kv_headship", "kv_headship", NULL},
    {"kv_heads", "of the kv_heads", "of the kv_heads", NULL},
    {"", "no field", "no field", NULL},
    {"nothing", "nothing is here", "nothing is here", NULL},
};

START_TEST(a_sentence_begins_with_the_option)
{
    struct fault fault = {.code = GEMMD_ERR_MALFORMED};
    char out[128];
    snprintf(fault.field, sizeof fault.field, "%s", sentences[_i].field);
    snprintf(fault.detail, sizeof fault.detail, "%s", sentences[_i].detail);
    struct arguments arguments;
    memset(&arguments, 0, sizeof arguments);
    arguments.values[OPTION_K] = sentences[_i].k;
    const struct context context = {.commands = commands, .arguments = &arguments};
    hint_option_sentence(&context, &fault, out, sizeof out);
    ck_assert_str_eq(out, sentences[_i].sentence);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gemmctl_hint");
    TCase *tests = tcase_create("gemmctl_hint");
    tcase_add_loop_test(tests, a_hint_speaks_of_options_that_are_not_given, 0,
                        (int)(sizeof hints / sizeof hints[0]));
    tcase_add_loop_test(tests, a_sentence_begins_with_the_option, 0,
                        (int)(sizeof sentences / sizeof sentences[0]));
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
