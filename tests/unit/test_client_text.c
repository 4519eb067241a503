/* gemmd_info, gemmd_metrics and gemmd_ready. */
#include <check.h>
#include <gemmd/gemmd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_http.h"
#include "product_case.h"

enum { LONG_TEXT = 300000 };

START_TEST(fetches_a_long_text)
{
    char head[128], *text, *sent = malloc(LONG_TEXT + 1);
    struct gemmd_error_info error;
    ck_assert_ptr_nonnull(sent);
    memset(sent, 'x', LONG_TEXT);
    sent[LONG_TEXT] = '\0';
    snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %d", LONG_TEXT);
    const struct fake_act act = {.head = head, .payload = sent, .payload_bytes = LONG_TEXT};
    struct fake_server *server = fake_start(&act, 1);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    ck_assert_msg(gemmd_metrics(client, &text, &error) == GEMMD_OK, "%s", error.message);
    ck_assert_str_eq(text, sent);
    gemmd_free(text);
    ck_assert_int_eq(gemmd_info(client, &text, NULL), GEMMD_OK);
    gemmd_free(text);
    gemmd_client_free(client);
    fake_stop(server);
    ck_assert_ptr_nonnull(strstr(fake_request(server, 0)->head, "GET /metrics HTTP/1.1\r\n"));
    ck_assert_ptr_nonnull(strstr(fake_request(server, 1)->head, "GET /info HTTP/1.1\r\n"));
    ck_assert_ptr_nonnull(strstr(fake_request(server, 1)->head, "Authorization: Bearer secret"));
    fake_free(server);
    free(sent);
}
END_TEST

START_TEST(fetches_an_empty_text)
{
    const struct fake_act act = {.head = "HTTP/1.1 200 OK\r\nContent-Length: 0"};
    struct fake_server *server = fake_start(&act, 1);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    char *text;
    ck_assert_int_eq(gemmd_info(client, &text, NULL), GEMMD_OK);
    ck_assert_str_eq(text, "");
    gemmd_free(text);
    gemmd_client_free(client);
    fake_stop(server);
    fake_free(server);
}
END_TEST

START_TEST(repeats_info_but_not_ready)
{
    static const char problem[] = "{\"type\":\"x/draining\",\"detail\":\"shutting down\"}";
    char head[128], *text = head;
    struct gemmd_error_info error;
    snprintf(head, sizeof head, "HTTP/1.1 503 Unavailable\r\nContent-Length: %zu", strlen(problem));
    const struct fake_act act = {
        .head = head, .payload = problem, .payload_bytes = strlen(problem)};
    struct fake_server *server = fake_start(&act, 1);
    struct gemmd_client *client = case_client(fake_url(server), 2);
    ck_assert_int_eq(gemmd_ready(client, NULL, &error), GEMMD_ERR_DRAINING);
    ck_assert_str_eq(error.message, "shutting down");
    ck_assert_uint_eq(error.attempts, 1);
    ck_assert_int_eq(gemmd_info(client, &text, &error), GEMMD_ERR_DRAINING);
    ck_assert_uint_eq(error.attempts, 3);
    ck_assert_ptr_null(text);
    gemmd_client_free(client);
    fake_stop(server);
    ck_assert_uint_eq(fake_request_count(server), 4);
    fake_free(server);
}
END_TEST

START_TEST(says_yes_when_ready)
{
    const struct fake_act act = {.head = "HTTP/1.1 200 OK\r\nContent-Length: 14",
                                 .payload = "{\"ready\":true}",
                                 .payload_bytes = 14};
    struct fake_server *server = fake_start(&act, 1);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    char *text;
    ck_assert_int_eq(gemmd_ready(client, NULL, NULL), GEMMD_OK);
    ck_assert_int_eq(gemmd_ready(client, &text, NULL), GEMMD_OK);
    ck_assert_str_eq(text, "{\"ready\":true}");
    gemmd_free(text);
    gemmd_client_free(client);
    fake_stop(server);
    fake_free(server);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_text");
    TCase *tcase = tcase_create("client_text");
    tcase_add_test(tcase, fetches_a_long_text);
    tcase_add_test(tcase, fetches_an_empty_text);
    tcase_add_test(tcase, repeats_info_but_not_ready);
    tcase_add_test(tcase, says_yes_when_ready);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
