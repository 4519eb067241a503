/* server/http/tokens.c: token files, and Authorization headers against them. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/http/tokens.h"

#define COUNT(array) (int)(sizeof(array) / sizeof((array)[0]))
#define ALICE "0123456789abcdef"
#define ALICE_SHA256 "9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f"
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
    struct token_grant grant = {.tenant = UINT32_MAX};
    bool in = tokens_check(tokens, headers[_i].header, &grant) == TOKEN_GRANTED;
    ck_assert_msg(in == (headers[_i].tenant != NULL), "'%s' is let in: %d",
                  headers[_i].header ? headers[_i].header : "(none)", in);
    if (in)
        ck_assert_str_eq(tokens_tenant_name(tokens, grant.tenant), headers[_i].tenant);
    else
        ck_assert_uint_eq(grant.tenant, UINT32_MAX);
    tokens_free(tokens);
}
END_TEST

START_TEST(shortest_token)
{
    struct tokens *tokens = loaded("8-chars-\n");
    struct token_grant grant;
    ck_assert_int_eq(tokens_check(tokens, "Bearer 8-chars-", &grant), TOKEN_GRANTED);
    tokens_free(tokens);
}
END_TEST

START_TEST(longest_token)
{
    char text[TOKEN_LENGTH_MAX + 1], header[400];
    memset(text, 'x', sizeof(text));
    text[TOKEN_LENGTH_MAX] = '\0';
    struct tokens *tokens = loaded(text);
    struct token_grant grant;
    snprintf(header, sizeof(header), "Bearer %s", text);
    ck_assert_int_eq(tokens_check(tokens, header, &grant), TOKEN_GRANTED);
    snprintf(header, sizeof(header), "Bearer %sx", text);
    ck_assert_int_eq(tokens_check(tokens, header, &grant), TOKEN_INVALID);
    snprintf(header, sizeof(header), "Bearer %.*s", TOKEN_LENGTH_MAX - 1, text);
    ck_assert_int_eq(tokens_check(tokens, header, &grant), TOKEN_INVALID);
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
    {"a b:0123456789abcdef\n", "line 1: a token is"},
    {"a:b:0123456789abcdef\n", "line 1: a token is"},
    {"0123456789abcdef\nbob:0123456789abcdef\n", "line 2: this token is there already"},
    {ALICE "\nsha256:" ALICE_SHA256 "\n", "line 2: this token is there already"},
    {"sha256:" ALICE "\n", "line 1: sha256: is followed by"},
    {"bob:sha256:9g\n", "line 1: sha256: is followed by"},
    {"cert:alice\n", "line 1: cert: is followed by"},
    {"cert:CN:\n", "line 1: cert: is followed by"},
    {ALICE " scopes=\n", "line 1: scopes= is a list"},
    {ALICE " scopes=compute,\n", "line 1: scopes= is a list"},
    {ALICE " scopes=comput\n", "line 1: scopes= is a list"},
    {ALICE " scope=compute\n", "line 1: only scopes="},
    {ALICE " max-priority=10\n", "line 1: max-priority= is a whole number"},
    {ALICE " max-priority=\n", "line 1: max-priority= is a whole number"},
    {ALICE " max-priority=-1\n", "line 1: max-priority= is a whole number"},
    {ALICE " max-priority=4.0\n", "line 1: max-priority= is a whole number"},
    {ALICE " priority=4\n", "line 1: only scopes="},
    {ALICE " expires=soon\n", "line 1: expires= is a date"},
    {ALICE " expires=2027-02-29\n", "line 1: expires= is a date"},
    {ALICE " expires=2027-01-31T25:00:00Z\n", "line 1: expires= is a date"},
    {ALICE " expires=2027-01-31T12:00:00\n", "line 1: expires= is a date"},
    {ALICE " expires=2027-01-31T12:00:00+0200\n", "line 1: expires= is a date"},
    {ALICE " expires=2027-01-31T12:00:00+24:00\n", "line 1: expires= is a date"},
    {ALICE " expires=2027-01-31T12:00:00+02:60\n", "line 1: expires= is a date"},
    {ALICE " expires=2027-01-31T12:00:00+02:0x\n", "line 1: expires= is a date"},
    {ALICE " expires=2027-01-31T12:00:00+02:000\n", "line 1: expires= is a date"},
    {ALICE " expires=2027-01-31T12:00:00x\n", "line 1: expires= is a date"},
    {ALICE " expires=2027-01-31 12:00:00Z\n", "line 1: only scopes="},
    {ALICE " expires=2027-01-31x12:00:00Z\n", "line 1: expires= is a date"},
    {ALICE " expires=2027-01-31T12:00Z\n", "line 1: expires= is a date"},
    {ALICE " expires=2027-01-31T12:60:00Z\n", "line 1: expires= is a date"},
    {ALICE " expires=2027-01-31T12:00:61Z\n", "line 1: expires= is a date"},
    {ALICE " expires=2027-13-01\n", "line 1: expires= is a date"},
    {ALICE " expires=2027-00-01\n", "line 1: expires= is a date"},
    {ALICE " expires=2027-1-31\n", "line 1: expires= is a date"},
    {"cert:URI:\n", "line 1: cert: is followed by"},
    {"cert:DNS:\n", "line 1: cert: is followed by"},
    {"sha256:" ALICE_SHA256 "0\n", "line 1: sha256: is followed by"},
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
    struct token_grant grant;
    ck_assert_int_eq(tokens_check(tokens, "Bearer token-number-01023", &grant), TOKEN_GRANTED);
    tokens_free(tokens);
    tokens = NULL;
    sprintf(text + length, "token-number-%05d\n", TOKENS_MAX);
    ck_assert_int_eq(load(text, strlen(text), 0600, &tokens, NULL), GEMMD_ERR_USAGE);
}
END_TEST

START_TEST(minds_who_can_read_and_write)
{
    struct tokens *tokens = loaded(file);
    tokens_free(tokens);
    struct fault fault = {0};
    ck_assert_int_eq(load(file, strlen(file), 0640, &tokens, NULL), GEMMD_OK);
    tokens_free(tokens);
    ck_assert_int_eq(load(file, strlen(file), 0644, &tokens, &fault), GEMMD_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(fault.detail, "read by every user"));
    ck_assert_int_eq(load(file, strlen(file), 0602, &tokens, &fault), GEMMD_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(fault.detail, "written by every user"));
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

/* ---- scopes, expiry, hashes and certificates ---- */

static const struct {
    const char *line;
    enum token_verdict verdict;
    uint32_t scopes, max_priority;
} grants[] = {
    {ALICE, TOKEN_GRANTED, SCOPES_ALL, 9},
    {"alice:" ALICE " scopes=compute", TOKEN_GRANTED, SCOPE_COMPUTE, 9},
    {ALICE "\tscopes=admin,metrics", TOKEN_GRANTED, SCOPE_ADMIN | SCOPE_METRICS, 9},
    {"sha256:" ALICE_SHA256 " scopes=tensors", TOKEN_GRANTED, SCOPE_TENSORS, 9},
    {"alice:sha256:" ALICE_SHA256, TOKEN_GRANTED, SCOPES_ALL, 9},
    {ALICE " expires=2999-01-01", TOKEN_GRANTED, SCOPES_ALL, 9},
    {ALICE " expires=2999-01-01T00:00:00+02:00 scopes=compute", TOKEN_GRANTED, SCOPE_COMPUTE, 9},
    {ALICE " expires=2020-01-01", TOKEN_EXPIRED, 0, 9},
    {ALICE " expires=2020-02-29T23:59:59z", TOKEN_EXPIRED, 0, 9},
    {ALICE " expires=2999-01-01t00:00:00-02:30", TOKEN_GRANTED, SCOPES_ALL, 9},
    {ALICE " max-priority=0", TOKEN_GRANTED, SCOPES_ALL, 0},
    {ALICE " max-priority=9 scopes=compute", TOKEN_GRANTED, SCOPE_COMPUTE, 9},
    {ALICE " scopes=compute\tmax-priority=3 expires=2999-01-01", TOKEN_GRANTED, SCOPE_COMPUTE, 3},
    {"cert:CN:" ALICE, TOKEN_INVALID, 0, 0},
};

START_TEST(grants_what_the_line_says)
{
    struct tokens *tokens = loaded(grants[_i].line);
    struct token_grant grant = {0};
    ck_assert_int_eq(tokens_check(tokens, "Bearer " ALICE, &grant), grants[_i].verdict);
    ck_assert_uint_eq(grant.scopes, grants[_i].scopes);
    ck_assert_uint_eq(grant.max_priority, grants[_i].max_priority);
    tokens_free(tokens);
}
END_TEST

START_TEST(names_in_certificates)
{
    struct tokens *tokens = loaded("alice:cert:URI:spiffe://a/alice scopes=compute\n"
                                   "bob:cert:CN:bobs-name\n"
                                   "carl:cert:DNS:carl.example expires=2020-01-01\n");
    struct token_grant grant;
    ck_assert_int_eq(tokens_check_certificate(tokens, "URI:spiffe://a/alice", &grant),
                     TOKEN_GRANTED);
    ck_assert_uint_eq(grant.tenant, 0);
    ck_assert_uint_eq(grant.scopes, SCOPE_COMPUTE);
    ck_assert_int_eq(tokens_check_certificate(tokens, "CN:bobs-name", &grant), TOKEN_GRANTED);
    ck_assert_uint_eq(grant.tenant, 1);
    ck_assert_int_eq(tokens_check_certificate(tokens, "DNS:bobs-name", &grant), TOKEN_INVALID);
    ck_assert_int_eq(tokens_check_certificate(tokens, "DNS:carl.example", &grant), TOKEN_EXPIRED);
    /* A name in a certificate is no token. */
    ck_assert_int_eq(tokens_check(tokens, "Bearer CN:bobs-name", &grant), TOKEN_INVALID);
    tokens_free(tokens);
}
END_TEST

/* ---- reloading ---- */

static enum gemmd_error reload_from(struct tokens *tokens, const char *path, struct fault *fault)
{
    struct token_list *list;
    const enum gemmd_error error = tokens_read(tokens, path, &list, fault);
    if (error == GEMMD_OK)
        tokens_adopt(tokens, list);
    return error;
}

static enum gemmd_error reload(struct tokens *tokens, const char *text, struct fault *fault)
{
    char path[] = "test_tokens.XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    enum gemmd_error error = reload_from(tokens, path, fault);
    unlink(path);
    return error;
}

START_TEST(a_tenant_keeps_its_number)
{
    struct tokens *tokens = loaded("alice:alice-token-1\nbob:bob-token-1\n");
    struct token_grant grant;
    ck_assert_int_eq(reload(tokens, "carl:carl-token-1\nbob:bob-token-2\n", NULL), GEMMD_OK);
    ck_assert_int_eq(tokens_check(tokens, "Bearer alice-token-1", &grant), TOKEN_INVALID);
    ck_assert_int_eq(tokens_check(tokens, "Bearer bob-token-1", &grant), TOKEN_INVALID);
    ck_assert_int_eq(tokens_check(tokens, "Bearer bob-token-2", &grant), TOKEN_GRANTED);
    ck_assert_uint_eq(grant.tenant, 1);
    ck_assert_int_eq(tokens_check(tokens, "Bearer carl-token-1", &grant), TOKEN_GRANTED);
    ck_assert_uint_eq(grant.tenant, 2);
    ck_assert_str_eq(tokens_tenant_name(tokens, 0), "alice");
    ck_assert_int_eq(reload(tokens, "alice:alice-token-3\n", NULL), GEMMD_OK);
    ck_assert_int_eq(tokens_check(tokens, "Bearer alice-token-3", &grant), TOKEN_GRANTED);
    ck_assert_uint_eq(grant.tenant, 0);
    ck_assert_uint_eq(tokens_tenants(tokens), 3);
    tokens_free(tokens);
}
END_TEST

START_TEST(tenants_that_are_named)
{
    struct tokens *tokens =
        loaded("alice:alice-token-1\nalice:alice-token-2\nbob:bob-token-1 expires=2020-01-01\n");
    ck_assert_uint_eq(tokens_tenants_named(tokens), 2);
    ck_assert_int_eq(reload(tokens, "bob:bob-token-2\n", NULL), GEMMD_OK);
    ck_assert_uint_eq(tokens_tenants_named(tokens), 1);
    ck_assert_int_eq(reload(tokens, "bob:short\ncarl:carl-token-1\n", NULL), GEMMD_ERR_USAGE);
    ck_assert_uint_eq(tokens_tenants_named(tokens), 1);
    ck_assert_int_eq(
        reload(tokens, "bob:bob-token-2\ncarl:carl-token-1\nalice:alice-token-3\n", NULL),
        GEMMD_OK);
    ck_assert_uint_eq(tokens_tenants_named(tokens), 3);
    tokens_free(tokens);
}
END_TEST

/* A list that is read and then freed is as if it had never been read. */
START_TEST(a_list_that_is_not_adopted_changes_nothing)
{
    struct tokens *tokens = loaded("alice:alice-token-1\n");
    struct token_list *list = NULL;
    struct token_grant grant;
    char path[] = "test_tokens.XXXXXX";
    static const char text[] = "bob:bob-token-1\ncarl:carl-token-1\n";
    const int fd = mkstemp(path);
    ck_assert_int_eq(write(fd, text, sizeof text - 1), (ssize_t)sizeof text - 1);
    close(fd);
    ck_assert_int_eq(tokens_read(tokens, path, &list, NULL), GEMMD_OK);
    unlink(path);
    ck_assert_int_eq(tokens_check(tokens, "Bearer bob-token-1", &grant), TOKEN_INVALID);
    ck_assert_int_eq(tokens_check(tokens, "Bearer alice-token-1", &grant), TOKEN_GRANTED);
    token_list_free(list);
    ck_assert_uint_eq(tokens_tenants(tokens), 1);
    ck_assert_uint_eq(tokens_tenants_named(tokens), 1);
    ck_assert_int_eq(reload(tokens, "dora:dora-token-1\n", NULL), GEMMD_OK);
    ck_assert_str_eq(tokens_tenant_name(tokens, 1), "dora");
    tokens_free(tokens);
}
END_TEST

START_TEST(a_wrong_file_changes_nothing)
{
    struct tokens *tokens = loaded("alice:alice-token-1\n");
    struct token_grant grant;
    struct fault fault = {0};
    ck_assert_int_eq(reload(tokens, "dora:dora-token-1\nalice:short\n", &fault), GEMMD_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(fault.detail, "line 2"));
    ck_assert_int_eq(reload_from(tokens, "no-such-file", &fault), GEMMD_ERR_IO);
    ck_assert_int_eq(tokens_check(tokens, "Bearer alice-token-1", &grant), TOKEN_GRANTED);
    ck_assert_int_eq(tokens_check(tokens, "Bearer dora-token-1", &grant), TOKEN_INVALID);
    ck_assert_uint_eq(tokens_tenants(tokens), 1);
    ck_assert_int_eq(reload(tokens, "ed:ed-token-1\n", &fault), GEMMD_OK);
    ck_assert_str_eq(tokens_tenant_name(tokens, 1), "ed");
    tokens_free(tokens);
}
END_TEST

START_TEST(more_tenants_than_numbers)
{
    static char text[TENANTS_MAX * 40];
    size_t length = 0;
    for (int i = 0; i < TENANTS_MAX; i++)
        length += (size_t)sprintf(text + length, "t%d:token-number-%05d\n", i, i);
    struct tokens *tokens = loaded(text);
    struct fault fault = {0};
    ck_assert_int_eq(reload(tokens, "one-more:one-more-token\n", &fault), GEMMD_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(fault.detail, "1024 tenants"));
    ck_assert_int_eq(reload(tokens, "t7:another-token\n", &fault), GEMMD_OK);
    tokens_free(tokens);
}
END_TEST

struct reader {
    struct tokens *tokens;
    atomic_bool stop;
    atomic_uint wrong;
};

/* One of two tokens of alice is always in force; the other may be. */
static void *read_all_the_time(void *argument)
{
    struct reader *reader = argument;
    while (!atomic_load(&reader->stop)) {
        struct token_grant grant = {.tenant = UINT32_MAX};
        if (tokens_check(reader->tokens, "Bearer steady-token", &grant) != TOKEN_GRANTED ||
            strcmp(tokens_tenant_name(reader->tokens, grant.tenant), "alice") != 0)
            atomic_fetch_add(&reader->wrong, 1);
    }
    return NULL;
}

START_TEST(reloads_while_threads_read)
{
    enum { READERS = 3, RELOADS = 200 };
    struct reader reader = {.tokens = loaded("alice:steady-token\n")};
    pthread_t threads[READERS];
    for (int i = 0; i < READERS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, read_all_the_time, &reader), 0);
    for (int i = 0; i < RELOADS; i++)
        ck_assert_int_eq(
            reload(reader.tokens,
                   i % 2 ? "alice:steady-token\n" : "bob:some-token-of-bob\nalice:steady-token\n",
                   NULL),
            GEMMD_OK);
    atomic_store(&reader.stop, true);
    for (int i = 0; i < READERS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(atomic_load(&reader.wrong), 0);
    tokens_free(reader.tokens);
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
    tcase_add_loop_test(tests, grants_what_the_line_says, 0, COUNT(grants));
    tcase_add_test(tests, names_in_certificates);
    tcase_add_test(tests, a_tenant_keeps_its_number);
    tcase_add_test(tests, tenants_that_are_named);
    tcase_add_test(tests, a_list_that_is_not_adopted_changes_nothing);
    tcase_add_test(tests, a_wrong_file_changes_nothing);
    tcase_add_test(tests, more_tenants_than_numbers);
    tcase_add_test(tests, reloads_while_threads_read);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
