/* What libgemmd sends again, when, and how often. */
#include <check.h>
#include <errno.h>
#include <gemmd/gemmd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "fake_http.h"
#include "product_case.h"

/* Three square matrices of 1 MiB. */
enum { BULK_SIDE = 512 };
static const size_t bulk_count = (size_t)BULK_SIDE * BULK_SIDE, bulk_bytes = (size_t)4 << 18;
/* A product whose body, 32 KiB + 512 KiB, is below the limit for asking by itself. */
enum { LOW_M = 16, LOW_N = 256 };
static const size_t low_a_bytes = (size_t)LOW_M * BULK_SIDE * 4;
static const size_t low_c_bytes = (size_t)LOW_M * LOW_N * 4;

static const char full[] = "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\nRetry-After: 0";

/* Runs the small product against a script and leaves the server stopped, to be looked at. */
static struct fake_server *run_script(const struct fake_act *acts, size_t count, uint32_t retries,
                                      struct gemmd_error_info *error)
{
    struct fake_server *server = fake_start(acts, count);
    struct gemmd_client *client = case_client(fake_url(server), retries);
    struct gemmd_gemm gemm = case_gemm();
    float c[CASE_M * CASE_N];
    gemm.c = c;
    gemm.c_bytes = sizeof c;
    if (gemmd_gemm(client, &gemm, NULL, error) == GEMMD_OK)
        ck_assert_mem_eq(c, case_product, sizeof case_product);
    gemmd_client_free(client);
    fake_stop(server);
    return server;
}

START_TEST(repeats_a_refusal)
{
    char head[FAKE_HEAD_MAX];
    const struct fake_act acts[] = {{.head = full, .take_bytes = FAKE_ALL}, case_act(head)};
    struct gemmd_error_info error;
    struct fake_server *server = run_script(acts, 2, 1, &error);
    ck_assert_msg(error.code == GEMMD_OK, "%s", error.message);
    ck_assert_uint_eq(error.attempts, 2);
    ck_assert_uint_eq(fake_request_count(server), 2);
    ck_assert_uint_eq(fake_request(server, 1)->body_bytes, sizeof case_a + sizeof case_b);
    ck_assert_mem_eq(fake_request(server, 1)->body, case_a, sizeof case_a);
    fake_free(server);
}
END_TEST

START_TEST(gives_up_after_the_last_repeat)
{
    const struct fake_act act = {.head = full, .take_bytes = FAKE_ALL};
    struct gemmd_error_info error;
    struct fake_server *server = run_script(&act, 1, 2, &error);
    ck_assert_int_eq(error.code, GEMMD_ERR_QUEUE_FULL);
    ck_assert_int_eq(error.http_status, 429);
    ck_assert_int_eq(error.retriable, 1);
    ck_assert_uint_eq(error.attempts, 3);
    ck_assert_uint_eq(fake_request_count(server), 3);
    fake_free(server);
}
END_TEST

START_TEST(does_not_repeat_what_stays_wrong)
{
    const struct fake_act act = {.head = "HTTP/1.1 422 Unprocessable\r\nContent-Length: 0",
                                 .take_bytes = FAKE_ALL};
    struct gemmd_error_info error;
    struct fake_server *server = run_script(&act, 1, 3, &error);
    ck_assert_int_eq(error.code, GEMMD_ERR_UNSUPPORTED);
    ck_assert_uint_eq(fake_request_count(server), 1);
    fake_free(server);
}
END_TEST

START_TEST(waits_as_long_as_the_daemon_asks)
{
    char head[FAKE_HEAD_MAX];
    const struct fake_act acts[] = {
        {.head = "HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\nRetry-After: 1",
         .take_bytes = FAKE_ALL},
        case_act(head)};
    struct fake_server *server = fake_start(acts, 2);
    struct gemmd_client *client = case_client(fake_url(server), 1);
    struct gemmd_gemm gemm = case_gemm();
    struct gemmd_result result;
    struct gemmd_error_info error;
    gemmd_result_init(&result, sizeof result);
    ck_assert_int_eq(gemmd_gemm(client, &gemm, &result, &error), GEMMD_OK);
    ck_assert_double_ge(result.elapsed_ms, 1000);
    ck_assert_uint_eq(result.attempts, 2);
    gemmd_free(result.data);
    gemmd_client_free(client);
    fake_stop(server);
    fake_free(server);
}
END_TEST

/* An hour is longer than the request has: the refusal is the answer, and says how long. */
START_TEST(does_not_wait_past_its_deadline)
{
    const struct fake_act act = {
        .head = "HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\nRetry-After: 3600",
        .take_bytes = FAKE_ALL};
    struct gemmd_error_info error;
    struct fake_server *server = run_script(&act, 1, 3, &error);
    ck_assert_int_eq(error.code, GEMMD_ERR_CONNECTION);
    ck_assert_int_eq(error.http_status, 503);
    ck_assert_uint_eq(error.retry_after_ms, 3600000);
    ck_assert_uint_eq(error.attempts, 1);
    fake_free(server);
}
END_TEST

/* Ways to lose a connection. */
static const struct fake_act losses[] = {
    {.take_bytes = FAKE_ALL, .then = FAKE_CLOSE},
    {.take_bytes = FAKE_ALL, .then = FAKE_RESET},
    {.take_bytes = 10, .then = FAKE_RESET},
    {.head = "HTTP/1.1 200 OK\r\nContent-Length: 24\r\nGemmd-Shape: 2,3\r\nGemmd-Dtype: f32",
     .payload = case_product,
     .payload_bytes = 10,
     .take_bytes = FAKE_ALL,
     .then = FAKE_CLOSE},
};

START_TEST(repeats_after_a_lost_connection)
{
    char head[FAKE_HEAD_MAX];
    const struct fake_act acts[] = {losses[_i], case_act(head)};
    struct gemmd_error_info error;
    struct fake_server *server = run_script(acts, 2, 1, &error);
    ck_assert_msg(error.code == GEMMD_OK, "%s", error.message);
    ck_assert_uint_eq(error.attempts, 2);
    fake_free(server);
}
END_TEST

START_TEST(says_that_a_connection_was_lost)
{
    struct gemmd_error_info error;
    struct fake_server *server = run_script(&losses[_i], 1, 0, &error);
    ck_assert_msg(error.code == GEMMD_ERR_CONNECTION, "%s: %s", gemmd_error_name(error.code),
                  error.message);
    ck_assert_int_eq(error.retriable, 1);
    ck_assert_int_eq(error.http_status, 0);
    fake_free(server);
}
END_TEST

/* A kept connection that the server has closed meanwhile is no failure of the request's. */
START_TEST(survives_a_connection_closed_while_idle)
{
    char head[FAKE_HEAD_MAX];
    struct fake_act act = case_act(head);
    act.then = FAKE_CLOSE;
    struct fake_server *server = fake_start(&act, 1);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    struct gemmd_gemm gemm = case_gemm();
    struct gemmd_error_info error;
    float c[CASE_M * CASE_N];
    gemm.c = c;
    gemm.c_bytes = sizeof c;
    for (int i = 0; i < 20; i++)
        ck_assert_msg(gemmd_gemm(client, &gemm, NULL, &error) == GEMMD_OK, "%s", error.message);
    gemmd_client_free(client);
    fake_stop(server);
    fake_free(server);
}
END_TEST

static struct gemmd_gemm bulk_gemm(float *data)
{
    struct gemmd_gemm gemm = case_gemm();
    gemm.m = gemm.n = gemm.k = BULK_SIDE;
    gemm.a = data;
    gemm.b = data + bulk_count;
    gemm.c = data + 2 * bulk_count;
    gemm.c_bytes = bulk_bytes;
    for (size_t i = 0; i < 2 * bulk_count; i++)
        data[i] = (float)i;
    return gemm;
}

START_TEST(asks_before_it_sends_a_large_body)
{
    const struct fake_act act = {.head = "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n"
                                         "Connection: close",
                                 .take_bytes = 0,
                                 .then = FAKE_CLOSE};
    float *data = malloc(3 * bulk_bytes);
    ck_assert_ptr_nonnull(data);
    struct gemmd_gemm gemm = bulk_gemm(data);
    struct fake_server *server = fake_start(&act, 1);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    struct gemmd_error_info error;
    ck_assert_int_eq(gemmd_gemm(client, &gemm, NULL, &error), GEMMD_ERR_TOO_LARGE);
    gemmd_client_free(client);
    fake_stop(server);
    ck_assert_ptr_nonnull(strstr(fake_request(server, 0)->head, "\r\nExpect: 100-continue\r\n"));
    fake_free(server);
    free(data);
}
END_TEST

/* The server may have refused a body that was not asked about, and the refusal been lost. */
START_TEST(asks_first_after_a_body_was_cut_off)
{
    char head[FAKE_HEAD_MAX];
    float *data = malloc(3 * bulk_bytes);
    ck_assert_ptr_nonnull(data);
    struct gemmd_gemm gemm = bulk_gemm(data);
    gemm.m = LOW_M;
    gemm.n = LOW_N;
    const struct fake_act acts[] = {{.take_bytes = 1000, .then = FAKE_RESET},
                                    {.head = fake_gemm_head(head, LOW_M, LOW_N, "f32", low_c_bytes),
                                     .echo = true,
                                     .payload_bytes = low_c_bytes,
                                     .take_bytes = FAKE_ALL}};
    struct fake_server *server = fake_start(acts, 2);
    struct gemmd_client *client = case_client(fake_url(server), 1);
    struct gemmd_error_info error;
    ck_assert_msg(gemmd_gemm(client, &gemm, NULL, &error) == GEMMD_OK, "%s", error.message);
    gemmd_client_free(client);
    fake_stop(server);
    ck_assert_ptr_null(strstr(fake_request(server, 0)->head, "Expect"));
    ck_assert_ptr_nonnull(strstr(fake_request(server, 1)->head, "\r\nExpect: 100-continue\r\n"));
    /* The repeat starts at the first byte. */
    ck_assert_mem_eq(fake_request(server, 1)->body, data, low_a_bytes);
    ck_assert_mem_eq(gemm.c, data, low_c_bytes);
    fake_free(server);
    free(data);
}
END_TEST

enum { LONG_K = 16384 };

/* The next piece of a body that this thread sends by itself, as large ones are, fails as if the
 * other side had gone. */
static _Thread_local bool break_body;

/* A small body goes out with its head (libcurl 8.7 and later) or after it. */
static bool is_head_alone(const char *data, size_t bytes)
{
    return bytes >= 4 && memcmp(data, "POST", 4) == 0 &&
           memcmp(data + bytes - 4, "\r\n\r\n", 4) == 0;
}

__attribute__((visibility("default"))) ssize_t send(int socket, const void *data, size_t bytes,
                                                    int flags)
{
    if (break_body && !is_head_alone(data, bytes)) {
        break_body = false;
        errno = EPIPE;
        return -1;
    }
    return sendto(socket, data, bytes, flags, NULL, 0);
}

/* The daemon gave up a connection just when it was to be used again: no failure, and no repeat. */
START_TEST(replaces_a_kept_connection_that_breaks)
{
    char head[FAKE_HEAD_MAX];
    const struct fake_act act = case_act(head);
    struct fake_server *server = fake_start(&act, 1);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    struct gemmd_gemm gemm = case_gemm();
    struct gemmd_error_info error;
    static const float a[CASE_M * LONG_K], b[LONG_K * CASE_N];
    float c[CASE_M * CASE_N];
    gemm.k = LONG_K;
    gemm.a = a;
    gemm.b = b;
    gemm.c = c;
    gemm.c_bytes = sizeof c;
    ck_assert_int_eq(gemmd_gemm(client, &gemm, NULL, &error), GEMMD_OK);
    break_body = true;
    ck_assert_msg(gemmd_gemm(client, &gemm, NULL, &error) == GEMMD_OK, "%s", error.message);
    ck_assert_msg(!break_body, "nothing was sent through send()");
    gemmd_client_free(client);
    /* On a new connection it is a failure. */
    client = case_client(fake_url(server), 0);
    break_body = true;
    ck_assert_int_eq(gemmd_gemm(client, &gemm, NULL, &error), GEMMD_ERR_CONNECTION);
    gemmd_client_free(client);
    fake_stop(server);
    size_t last = 0;
    for (size_t i = 0; i < fake_request_count(server); i++)
        if (fake_request(server, i)->body_bytes > 0)
            last = i;
    ck_assert_uint_eq(fake_request(server, 0)->connection, 0);
    ck_assert_uint_eq(fake_request(server, last)->connection, 1);
    ck_assert_ptr_null(strstr(fake_request(server, last)->head, "Expect"));
    fake_free(server);
}
END_TEST

static unsigned long timeout_of(const struct fake_request *request)
{
    const char *at = strstr(request->head, "timeout_ms=");
    ck_assert_ptr_nonnull(at);
    return strtoul(at + strlen("timeout_ms="), NULL, 10);
}

START_TEST(tells_the_daemon_what_time_is_left)
{
    char head[FAKE_HEAD_MAX];
    const struct fake_act acts[] = {
        {.head = "HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\nRetry-After: 1",
         .take_bytes = FAKE_ALL},
        case_act(head)};
    struct fake_server *server = fake_start(acts, 2);
    struct gemmd_client *client = case_client(fake_url(server), 1);
    struct gemmd_gemm gemm = case_gemm();
    struct gemmd_result result;
    gemmd_result_init(&result, sizeof result);
    gemm.timeout_ms = 60000;
    ck_assert_int_eq(gemmd_gemm(client, &gemm, &result, NULL), GEMMD_OK);
    gemmd_free(result.data);
    gemmd_client_free(client);
    fake_stop(server);
    unsigned long first = timeout_of(fake_request(server, 0));
    ck_assert_uint_le(first, 60000);
    ck_assert_uint_le(timeout_of(fake_request(server, 1)), first - 1000);
    fake_free(server);
}
END_TEST

/* The daemon's own deadline holds then; what is shorter is told as ever. */
START_TEST(does_not_tell_more_time_than_the_daemon_allows)
{
    static const char refusal[] =
        "{\"type\":\"urn:gemmd:error:malformed\",\"status\":400,\"field\":\"timeout_ms\"}";
    char head[FAKE_HEAD_MAX], refused[FAKE_HEAD_MAX];
    snprintf(refused, sizeof refused, "HTTP/1.1 400 Bad Request\r\nContent-Length: %zu",
             sizeof refusal - 1);
    const struct fake_act acts[] = {
        {.head = refused, refusal, sizeof refusal - 1, .take_bytes = FAKE_ALL}, case_act(head)};
    static const uint32_t timeouts_ms[] = {60000, 59000, 30000};
    struct fake_server *server = fake_start(acts, 2);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    struct gemmd_gemm gemm = case_gemm();
    float c[CASE_M * CASE_N];
    gemm.c = c;
    gemm.c_bytes = sizeof c;
    for (int i = 0; i < 3; i++) {
        gemm.timeout_ms = timeouts_ms[i];
        ck_assert_int_eq(gemmd_gemm(client, &gemm, NULL, NULL), GEMMD_OK);
    }
    gemmd_client_free(client);
    fake_stop(server);
    ck_assert_uint_eq(fake_request_count(server), 4);
    ck_assert_uint_gt(timeout_of(fake_request(server, 0)), 0);
    ck_assert_ptr_null(strstr(fake_request(server, 1)->head, "timeout_ms"));
    ck_assert_ptr_null(strstr(fake_request(server, 2)->head, "timeout_ms"));
    ck_assert_uint_le(timeout_of(fake_request(server, 3)), 30000);
    fake_free(server);
}
END_TEST

START_TEST(says_how_long_the_daemon_wants_to_rest)
{
    static const struct {
        const char *head;
        uint32_t retry_after_ms;
    } cases[] = {
        {"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nRetry-After: 7", 7000},
        {"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nRetry-After: 4294967", UINT32_MAX},
        {"HTTP/1.1 503 Busy\r\nContent-Length: 0", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct fake_act act = {.head = cases[i].head, .take_bytes = FAKE_ALL};
        struct gemmd_error_info error;
        fake_free(run_script(&act, 1, 0, &error));
        ck_assert_int_eq(error.http_status, 503);
        ck_assert_uint_eq(error.retry_after_ms, cases[i].retry_after_ms);
    }
}
END_TEST

START_TEST(names_the_field_of_a_result_that_is_wrong)
{
    const struct fake_act act = {
        .head = "HTTP/1.1 500 Wrong\r\nContent-Length: 0\r\nGemmd-Verify: fail; residual=9",
        .take_bytes = FAKE_ALL};
    struct gemmd_error_info error;
    fake_free(run_script(&act, 1, 0, &error));
    ck_assert_int_eq(error.http_status, 500);
    ck_assert_str_eq(error.field, "verify");
}
END_TEST

START_TEST(says_that_nobody_listens)
{
    const struct fake_act act = {.then = FAKE_CLOSE};
    struct fake_server *server = fake_start(&act, 1);
    char url[64];
    snprintf(url, sizeof url, "%s", fake_url(server));
    fake_stop(server);
    fake_free(server);
    struct gemmd_client *client = case_client(url, 1);
    struct gemmd_gemm gemm = case_gemm();
    struct gemmd_error_info error;
    struct gemmd_result result;
    gemmd_result_init(&result, sizeof result);
    ck_assert_int_eq(gemmd_gemm(client, &gemm, &result, &error), GEMMD_ERR_CONNECTION);
    ck_assert_uint_eq(error.attempts, 2);
    ck_assert_msg(strstr(error.message, url) != NULL, "%s", error.message);
    ck_assert_msg(strstr(error.message, ": Connection refused") != NULL, "%s", error.message);
    gemmd_client_free(client);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_repeat");
    TCase *tcase = tcase_create("client_repeat");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, repeats_a_refusal);
    tcase_add_test(tcase, gives_up_after_the_last_repeat);
    tcase_add_test(tcase, does_not_repeat_what_stays_wrong);
    tcase_add_test(tcase, waits_as_long_as_the_daemon_asks);
    tcase_add_test(tcase, does_not_wait_past_its_deadline);
    tcase_add_loop_test(tcase, repeats_after_a_lost_connection, 0,
                        sizeof losses / sizeof losses[0]);
    tcase_add_loop_test(tcase, says_that_a_connection_was_lost, 0,
                        sizeof losses / sizeof losses[0]);
    tcase_add_test(tcase, survives_a_connection_closed_while_idle);
    tcase_add_test(tcase, asks_before_it_sends_a_large_body);
    tcase_add_test(tcase, asks_first_after_a_body_was_cut_off);
    tcase_add_test(tcase, replaces_a_kept_connection_that_breaks);
    tcase_add_test(tcase, tells_the_daemon_what_time_is_left);
    tcase_add_test(tcase, does_not_tell_more_time_than_the_daemon_allows);
    tcase_add_test(tcase, says_how_long_the_daemon_wants_to_rest);
    tcase_add_test(tcase, names_the_field_of_a_result_that_is_wrong);
    tcase_add_test(tcase, says_that_nobody_listens);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
