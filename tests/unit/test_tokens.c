/* server/http/tokens.c: token files, and Authorization headers against them. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/http/tokens.h"

#define COUNT(array) (int)(sizeof(array) / sizeof((array)[0]))
#define ALICE "0123456789abcdef"
#define ALICE_NEXT "alice-next-token-~+/.=="
#define NOBODY "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

static enum gemmd_error load(const void *bytes, size_t length, mode_t mode, struct tokens **tokens,
                             struct fault *fault)
{
    char path[] = "test_tokens.XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, bytes, length), (ssize_t)length);
    ck_assert_int_eq(fchmod(fd, mode), 0);
    close(fd);
    enum gemmd_error error = tokens_load(path, tokens, fault);
    unlink(path);
    return error;
}

static struct tokens *loaded(const char *text)
{
    struct tokens *tokens = NULL;
    struct fault fault = {0};
    ck_assert_msg(load(text, strlen(text), 0600, &tokens, &fault) == GEMMD_OK, "%s", fault.detail);
    return tokens;
}

static const char file[] = "# who may come in\n\n"
                           "alice:" ALICE "\r\n"
                           "alice:" ALICE_NEXT "  \n" NOBODY; /* no line end */

static const struct {
    const char *header, *tenant; /* NULL: not let in */
} headers[] = {
    {"Bearer " ALICE, "alice"},
    {"bearer " ALICE, "alice"},
    {"BEARER   " ALICE "  ", "alice"},
    {"Bearer " ALICE_NEXT, "alice"},
    {"Bearer " NOBODY, "default"},
    {NULL, NULL},
    {"", NULL},
    {"Bearer", NULL},
    {"Bearer ", NULL},
    {"Bearer  ", NULL},
    {ALICE, NULL},
    {"Basic " ALICE, NULL},
    {"Bearer" ALICE, NULL},
    {"Bearer 0123456789abcde", NULL},
    {"Bearer 0123456789abcdeg", NULL},
    {"Bearer 1123456789abcdef", NULL},
    {"Bearer " ALICE "0", NULL},
    {"Bearer " ALICE " " ALICE, NULL},
    {"Bearer alice:" ALICE, NULL},
    {"Bearer 0123456789ABCDEF", NULL},
    {"Bearer #", NULL},
};

START_TEST(lets_in_whom_the_file_names)
{
    struct tokens *tokens = loaded(file);
    uint32_t tenant = UINT32_MAX;
    bool in = tokens_check(tokens, headers[_i].header, &tenant);
    ck_assert_msg(in == (headers[_i].tenant != NULL), "'%s' is let in: %d",
                  headers[_i].header ? headers[_i].header : "(none)", in);
    if (in)
        ck_assert_str_eq(tokens_tenant_name(tokens, tenant), headers[_i].tenant);
    else
        ck_assert_uint_eq(tenant, UINT32_MAX);
    tokens_free(tokens);
}
END_TEST

START_TEST(shortest_token)
{
    struct tokens *tokens = loaded("8-chars-\n");
    uint32_t tenant;
    ck_assert(tokens_check(tokens, "Bearer 8-chars-", &tenant));
    tokens_free(tokens);
}
END_TEST

START_TEST(longest_token)
{
    char text[TOKEN_LENGTH_MAX + 1], header[400];
    memset(text, 'x', sizeof(text));
    text[TOKEN_LENGTH_MAX] = '\0';
    struct tokens *tokens = loaded(text);
    uint32_t tenant;
    snprintf(header, sizeof(header), "Bearer %s", text);
    ck_assert(tokens_check(tokens, header, &tenant));
    snprintf(header, sizeof(header), "Bearer %sx", text);
    ck_assert(!tokens_check(tokens, header, &tenant));
    snprintf(header, sizeof(header), "Bearer %.*s", TOKEN_LENGTH_MAX - 1, text);
    ck_assert(!tokens_check(tokens, header, &tenant));
    tokens_free(tokens);
}
END_TEST

static const struct {
    const char *text, *says;
} wrong[] = {
    {"", "has no token"},
    {"# only a comment\n\n", "has no token"},
    {"short\n", "line 1: a token is"},
    {"# x\nalice:short\n", "line 2: a token is"},
    {"has spaces 0123456789\n", "line 1: a token is"},
    {"0123456789abcdef=x\n", "line 1: a token is"},
    {"7-chars\n", "line 1: a token is"},
    {":0123456789abcdef\n", "line 1: a tenant is"},
    {"a b:0123456789abcdef\n", "line 1: a tenant is"},
    {"a:b:0123456789abcdef\n", "line 1: a token is"},
    {"0123456789abcdef\nbob:0123456789abcdef\n", "line 2: this token is there already"},
    {"a-tenant-whose-name-is-longer-than-sixty-three-characters-are-long:0123456789abcdef\n",
     "line 1: a tenant is"},
};

START_TEST(refuses_wrong_files)
{
    struct tokens *tokens = NULL;
    struct fault fault = {0};
    ck_assert_int_eq(load(wrong[_i].text, strlen(wrong[_i].text), 0600, &tokens, &fault),
                     GEMMD_ERR_USAGE);
    ck_assert_ptr_null(tokens);
    ck_assert_msg(strstr(fault.detail, wrong[_i].says), "'%s' does not say '%s'", fault.detail,
                  wrong[_i].says);
    ck_assert_msg(!strstr(fault.detail, "0123456789"), "'%s' quotes a token", fault.detail);
}
END_TEST

START_TEST(refuses_zero_bytes)
{
    struct tokens *tokens = NULL;
    struct fault fault = {0};
    const char bytes[] = "0123456789abcdef\0x\n";
    ck_assert_int_eq(load(bytes, sizeof(bytes) - 1, 0600, &tokens, &fault), GEMMD_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(fault.detail, "zero byte"));
}
END_TEST

START_TEST(refuses_too_many)
{
    static char text[(TOKENS_MAX + 1) * 24];
    size_t length = 0;
    for (int i = 0; i < TOKENS_MAX; i++)
        length += (size_t)sprintf(text + length, "token-number-%05d\n", i);
    struct tokens *tokens = loaded(text);
    uint32_t tenant;
    ck_assert(tokens_check(tokens, "Bearer token-number-01023", &tenant));
    tokens_free(tokens);
    tokens = NULL;
    sprintf(text + length, "token-number-%05d\n", TOKENS_MAX);
    ck_assert_int_eq(load(text, strlen(text), 0600, &tokens, NULL), GEMMD_ERR_USAGE);
}
END_TEST

START_TEST(minds_who_can_read_and_write)
{
    struct tokens *tokens = loaded(file);
    ck_assert(!tokens_exposed(tokens));
    tokens_free(tokens);
    ck_assert_int_eq(load(file, strlen(file), 0644, &tokens, NULL), GEMMD_OK);
    ck_assert(tokens_exposed(tokens));
    tokens_free(tokens);
    struct fault fault = {0};
    ck_assert_int_eq(load(file, strlen(file), 0602, &tokens, &fault), GEMMD_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(fault.detail, "written by everyone"));
}
END_TEST

START_TEST(missing_and_unreadable_files)
{
    struct tokens *tokens;
    struct fault fault = {0};
    ck_assert_int_eq(tokens_load("no-such-file", &tokens, &fault), GEMMD_ERR_IO);
    ck_assert_ptr_nonnull(strstr(fault.detail, "no-such-file"));
    ck_assert_int_eq(tokens_load(".", &tokens, &fault), GEMMD_ERR_IO);
    tokens_free(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tokens");
    TCase *tests = tcase_create("tokens");
    tcase_add_loop_test(tests, lets_in_whom_the_file_names, 0, COUNT(headers));
    tcase_add_test(tests, shortest_token);
    tcase_add_test(tests, longest_token);
    tcase_add_loop_test(tests, refuses_wrong_files, 0, COUNT(wrong));
    tcase_add_test(tests, refuses_zero_bytes);
    tcase_add_test(tests, refuses_too_many);
    tcase_add_test(tests, minds_who_can_read_and_write);
    tcase_add_test(tests, missing_and_unreadable_files);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
