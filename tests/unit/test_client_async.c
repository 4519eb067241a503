/* Many requests in flight from one thread, waits, cancelling, and times that run out. */
#include <check.h>
#include <gemmd/gemmd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "client/transfer.h"
#include "fake_http.h"
#include "product_case.h"

enum { MANY = 200, PLACES = 8, SIDE = 16, SIDE_BYTES = SIDE * SIDE * 4 };

static const struct fake_act hangs = {.take_bytes = FAKE_ALL, .then = FAKE_HANG};

static struct gemmd_client *client_with(const char *url, uint32_t total_ms, uint32_t stall_ms,
                                        uint32_t places)
{
    struct gemmd_options options;
    struct gemmd_error_info error;
    gemmd_options_init(&options, sizeof options);
    options.url = url;
    options.total_timeout_ms = total_ms;
    options.stall_timeout_ms = stall_ms;
    options.max_in_flight = places;
    options.retries = 0;
    struct gemmd_client *client = gemmd_client_new(&options, &error);
    ck_assert_msg(client != NULL, "%s", error.message);
    return client;
}

/* A product whose answer, by a server that echoes, is its A. */
struct echo_case {
    float a[SIDE * SIDE], b[SIDE * SIDE], c[SIDE * SIDE];
    bool done;
};

static struct gemmd_gemm echo_gemm(struct echo_case *echo, int seed)
{
    struct gemmd_gemm gemm = case_gemm();
    for (int i = 0; i < SIDE * SIDE; i++)
        echo->a[i] = (float)(seed * 1000 + i);
    memset(echo->b, 0, sizeof echo->b);
    memset(echo->c, 0xff, sizeof echo->c);
    gemm.m = gemm.n = gemm.k = SIDE;
    gemm.a = echo->a;
    gemm.b = echo->b;
    gemm.c = echo->c;
    gemm.c_bytes = SIDE_BYTES;
    gemm.user = echo;
    return gemm;
}

static struct fake_act echo_act(char head[FAKE_HEAD_MAX])
{
    return (struct fake_act){.head = fake_gemm_head(head, SIDE, SIDE, "f32", SIDE_BYTES),
                             .echo = true,
                             .payload_bytes = SIDE_BYTES,
                             .take_bytes = FAKE_ALL};
}

static void submit_all(struct gemmd_client *client, struct echo_case *cases)
{
    struct gemmd_error_info error;
    for (int i = 0; i < MANY; i++) {
        struct gemmd_gemm gemm = echo_gemm(&cases[i], i);
        ck_assert_msg(gemmd_gemm_submit(client, &gemm, &error) != NULL, "%s", error.message);
    }
}

static void wait_for_all(struct gemmd_client *client)
{
    struct gemmd_request *request;
    struct gemmd_error_info error;
    int count = 0;
    while ((request = gemmd_wait_any(client, -1)) != NULL) {
        struct echo_case *echo = gemmd_request_user(request);
        ck_assert_msg(gemmd_request_result(request, NULL, &error) == GEMMD_OK, "%s", error.message);
        ck_assert_msg(!echo->done, "a request was returned twice");
        ck_assert_mem_eq(echo->c, echo->a, SIDE_BYTES);
        echo->done = true;
        gemmd_request_free(request);
        count++;
    }
    ck_assert_int_eq(count, MANY);
}

START_TEST(keeps_many_in_flight_apart)
{
    char head[FAKE_HEAD_MAX];
    const struct fake_act act = echo_act(head);
    struct fake_server *server = fake_start(&act, 1);
    struct gemmd_client *client = client_with(fake_url(server), 0, 0, PLACES);
    struct echo_case *cases = calloc(MANY, sizeof *cases);
    ck_assert_ptr_nonnull(cases);
    submit_all(client, cases);
    ck_assert_uint_eq(gemmd_in_flight(client), MANY);
    wait_for_all(client);
    ck_assert_uint_eq(gemmd_in_flight(client), 0);
    gemmd_client_free(client);
    fake_stop(server);
    ck_assert_uint_eq(fake_request_count(server), MANY);
    for (size_t i = 0; i < MANY; i++)
        ck_assert_uint_lt(fake_request(server, i)->connection, PLACES);
    fake_free(server);
    free(cases);
}
END_TEST

static void *run_client(void *url)
{
    struct gemmd_client *client = client_with(url, 0, 0, PLACES);
    struct echo_case *cases = calloc(MANY, sizeof *cases);
    ck_assert_ptr_nonnull(cases);
    submit_all(client, cases);
    wait_for_all(client);
    gemmd_client_free(client);
    free(cases);
    return NULL;
}

START_TEST(has_a_client_in_every_thread)
{
    char head[FAKE_HEAD_MAX], url[64];
    const struct fake_act act = echo_act(head);
    struct fake_server *server = fake_start(&act, 1);
    pthread_t threads[4];
    snprintf(url, sizeof url, "%s", fake_url(server));
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run_client, url), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    fake_stop(server);
    ck_assert_uint_eq(fake_request_count(server), (size_t)4 * MANY);
    fake_free(server);
}
END_TEST

enum { BURST = 100, BULK_BURST = 12, BULK_SIDE = 256 };

/* Has a burst of requests in flight, all of which are answered. */
static void burst(struct gemmd_client *client, int count, uint64_t side)
{
    float *operand = calloc(side * side, sizeof *operand);
    struct gemmd_gemm gemm = case_gemm();
    struct gemmd_request *request;
    ck_assert_ptr_nonnull(operand);
    gemm.m = gemm.n = gemm.k = side;
    gemm.a = gemm.b = operand;
    for (int i = 0; i < count; i++)
        ck_assert_ptr_nonnull(gemmd_gemm_submit(client, &gemm, NULL));
    while ((request = gemmd_wait_any(client, -1)) != NULL) {
        ck_assert_int_eq(gemmd_request_result(request, NULL, NULL), GEMMD_OK);
        gemmd_request_free(request);
    }
    free(operand);
}

START_TEST(keeps_few_idle_transfers)
{
    char small[FAKE_HEAD_MAX], bulk[FAKE_HEAD_MAX];
    enum { BULK_BYTES = BULK_SIDE * BULK_SIDE * 4 };
    struct fake_act acts[BURST + 1];
    for (int i = 0; i < BURST; i++)
        acts[i] = echo_act(small);
    acts[BURST] =
        (struct fake_act){.head = fake_gemm_head(bulk, BULK_SIDE, BULK_SIDE, "f32", BULK_BYTES),
                          .echo = true,
                          .payload_bytes = BULK_BYTES,
                          .take_bytes = FAKE_ALL};
    struct fake_server *server = fake_start(acts, BURST + 1);
    struct gemmd_client *client = client_with(fake_url(server), 0, 0, BURST);
    burst(client, BURST, SIDE);
    ck_assert_uint_eq(client->idle[false].count, TRANSFER_SMALL_MAX);
    burst(client, BULK_BURST, BULK_SIDE);
    ck_assert_uint_eq(client->idle[true].count, TRANSFER_BULK_MAX);
    gemmd_client_free(client);
    fake_stop(server);
    fake_free(server);
}
END_TEST

/* With Nagle's algorithm the end of a body that follows its header would wait for the daemon's
 * acknowledgement. */
START_TEST(sends_at_once)
{
    char head[FAKE_HEAD_MAX];
    const struct fake_act act = echo_act(head);
    struct fake_server *server = fake_start(&act, 1);
    struct gemmd_client *client = client_with(fake_url(server), 0, 0, PLACES);
    int connections = 0;
    burst(client, PLACES, SIDE);
    for (uint32_t fd = 0; fd < client->loop.watch_room; fd++) {
        int no_delay = 0;
        socklen_t bytes = sizeof no_delay;
        if (!client->loop.watches[fd].ours)
            continue;
        ck_assert_int_eq(getsockopt((int)fd, IPPROTO_TCP, TCP_NODELAY, &no_delay, &bytes), 0);
        ck_assert_int_ne(no_delay, 0);
        connections++;
    }
    ck_assert_int_eq(connections, PLACES);
    gemmd_client_free(client);
    fake_stop(server);
    fake_free(server);
}
END_TEST

START_TEST(waits_for_one_and_does_not_return_it_again)
{
    char head[FAKE_HEAD_MAX];
    const struct fake_act act = echo_act(head);
    struct fake_server *server = fake_start(&act, 1);
    struct gemmd_client *client = client_with(fake_url(server), 0, 0, 0);
    struct echo_case cases[2] = {0};
    struct gemmd_gemm first = echo_gemm(&cases[0], 1), second = echo_gemm(&cases[1], 2);
    struct gemmd_request *one = gemmd_gemm_submit(client, &first, NULL);
    struct gemmd_request *two = gemmd_gemm_submit(client, &second, NULL);
    ck_assert_ptr_nonnull(one);
    ck_assert_ptr_nonnull(two);
    ck_assert_int_eq(gemmd_request_result(one, NULL, NULL), GEMMD_ERR_CONFLICT);
    ck_assert_int_eq(gemmd_wait(two, -1), 1);
    ck_assert_ptr_eq(gemmd_wait_any(client, -1), one);
    ck_assert_ptr_null(gemmd_wait_any(client, -1));
    ck_assert_int_eq(gemmd_wait(one, 0), 1);
    ck_assert_int_eq(gemmd_request_result(one, NULL, NULL), GEMMD_OK);
    struct gemmd_progress progress;
    gemmd_request_progress(two, &progress);
    ck_assert_uint_eq(progress.sent, (size_t)2 * SIDE_BYTES);
    ck_assert_uint_eq(progress.to_send, (size_t)2 * SIDE_BYTES);
    ck_assert_uint_eq(progress.received, SIDE_BYTES);
    ck_assert_uint_eq(progress.to_receive, SIDE_BYTES);
    gemmd_request_free(one);
    gemmd_client_free(client); /* with `two` not released */
    fake_stop(server);
    fake_free(server);
}
END_TEST

START_TEST(hands_over_a_result_it_allocated)
{
    char head[FAKE_HEAD_MAX];
    const struct fake_act act = case_act(head);
    struct fake_server *server = fake_start(&act, 1);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    struct gemmd_gemm gemm = case_gemm();
    struct gemmd_result result;
    struct gemmd_request *taken = gemmd_gemm_submit(client, &gemm, NULL);
    struct gemmd_request *left = gemmd_gemm_submit(client, &gemm, NULL);
    ck_assert_ptr_nonnull(taken);
    ck_assert_ptr_nonnull(left);
    ck_assert_int_eq(gemmd_wait(taken, -1), 1);
    ck_assert_int_eq(gemmd_wait(left, -1), 1);
    gemmd_result_init(&result, sizeof result);
    ck_assert_int_eq(gemmd_request_result(taken, &result, NULL), GEMMD_OK);
    gemmd_client_free(client);
    ck_assert_mem_eq(result.data, case_product, sizeof case_product);
    gemmd_free(result.data);
    fake_stop(server);
    fake_free(server);
}
END_TEST

START_TEST(cancels_what_runs_and_what_waits)
{
    struct fake_server *server = fake_start(&hangs, 1);
    struct gemmd_client *client = client_with(fake_url(server), 0, 0, 1);
    struct gemmd_gemm gemm = case_gemm();
    struct gemmd_error_info error;
    struct gemmd_request *runs = gemmd_gemm_submit(client, &gemm, NULL);
    struct gemmd_request *waits = gemmd_gemm_submit(client, &gemm, NULL);
    ck_assert_ptr_nonnull(runs);
    ck_assert_ptr_nonnull(waits);
    ck_assert_int_eq(gemmd_wait(runs, 0), 0);
    ck_assert_int_eq(gemmd_wait(runs, 50), 0);
    gemmd_cancel(waits);
    ck_assert_uint_eq(gemmd_in_flight(client), 1);
    gemmd_cancel(runs);
    ck_assert_uint_eq(gemmd_in_flight(client), 0);
    ck_assert_int_eq(gemmd_request_result(runs, NULL, &error), GEMMD_ERR_CANCELLED);
    ck_assert_uint_eq(error.attempts, 1);
    ck_assert_int_eq(gemmd_request_result(waits, NULL, &error), GEMMD_ERR_CANCELLED);
    ck_assert_uint_eq(error.attempts, 0);
    ck_assert_ptr_eq(gemmd_wait_any(client, 0), waits);
    ck_assert_ptr_eq(gemmd_wait_any(client, 0), runs);
    gemmd_client_free(client);
    fake_stop(server);
    fake_free(server);
}
END_TEST

START_TEST(goes_on_after_a_cancelled_request)
{
    char head[FAKE_HEAD_MAX];
    const struct fake_act acts[] = {hangs, case_act(head)};
    struct fake_server *server = fake_start(acts, 2);
    struct gemmd_client *client = client_with(fake_url(server), 0, 0, 1);
    struct gemmd_gemm gemm = case_gemm();
    struct gemmd_result result;
    struct gemmd_error_info error;
    struct gemmd_request *request = gemmd_gemm_submit(client, &gemm, NULL);
    ck_assert_ptr_nonnull(request);
    do
        ck_assert_int_eq(gemmd_wait(request, 20), 0);
    while (fake_request_count(server) == 0);
    gemmd_request_free(request);
    gemmd_result_init(&result, sizeof result);
    ck_assert_msg(gemmd_gemm(client, &gemm, &result, &error) == GEMMD_OK, "%s", error.message);
    gemmd_free(result.data);
    gemmd_client_free(client);
    fake_stop(server);
    fake_free(server);
}
END_TEST

/* The stall's time is shorter, but nothing has to move while the daemon computes. */
START_TEST(ends_at_its_deadline)
{
    struct fake_server *server = fake_start(&hangs, 1);
    struct gemmd_client *client = client_with(fake_url(server), 4000, 3000, 1);
    struct gemmd_gemm gemm = case_gemm();
    struct gemmd_error_info error;
    struct gemmd_request *runs = gemmd_gemm_submit(client, &gemm, NULL);
    struct gemmd_request *waits = gemmd_gemm_submit(client, &gemm, NULL);
    ck_assert_int_eq(gemmd_wait(runs, -1), 1);
    ck_assert_int_eq(gemmd_request_result(runs, NULL, &error), GEMMD_ERR_TIMEOUT);
    ck_assert_msg(strstr(error.message, "4000 ms") != NULL, "%s", error.message);
    ck_assert_int_eq(gemmd_wait(waits, -1), 1);
    ck_assert_int_eq(gemmd_request_result(waits, NULL, &error), GEMMD_ERR_TIMEOUT);
    gemmd_client_free(client);
    fake_stop(server);
    fake_free(server);
}
END_TEST

START_TEST(notices_a_server_that_stops_reading)
{
    enum { LARGE = 3000 };
    const struct fake_act act = {.take_bytes = 1, .then = FAKE_HANG};
    struct fake_server *server = fake_start(&act, 1);
    struct gemmd_client *client = client_with(fake_url(server), 0, 300, 1);
    struct gemmd_gemm gemm = case_gemm();
    struct gemmd_error_info error;
    struct gemmd_result result;
    float *data = calloc((size_t)LARGE * LARGE, sizeof *data);
    ck_assert_ptr_nonnull(data);
    gemm.m = gemm.n = gemm.k = LARGE;
    gemm.a = gemm.b = data;
    gemmd_result_init(&result, sizeof result);
    ck_assert_int_eq(gemmd_gemm(client, &gemm, &result, &error), GEMMD_ERR_TIMEOUT);
    ck_assert_msg(strstr(error.message, "no byte was sent to or received") != NULL, "%s",
                  error.message);
    gemmd_client_free(client);
    fake_stop(server);
    fake_free(server);
    free(data);
}
END_TEST

START_TEST(notices_an_answer_that_stops)
{
    const struct fake_act act = {
        .head = "HTTP/1.1 200 OK\r\nContent-Length: 24\r\nGemmd-Shape: 2,3\r\nGemmd-Dtype: f32",
        .payload = case_product,
        .payload_bytes = 10,
        .take_bytes = FAKE_ALL,
        .then = FAKE_HANG};
    struct fake_server *server = fake_start(&act, 1);
    struct gemmd_client *client = client_with(fake_url(server), 0, 200, 1);
    struct gemmd_gemm gemm = case_gemm();
    struct gemmd_error_info error;
    struct gemmd_result result;
    gemmd_result_init(&result, sizeof result);
    ck_assert_int_eq(gemmd_gemm(client, &gemm, &result, &error), GEMMD_ERR_TIMEOUT);
    ck_assert_msg(strstr(error.message, "no byte was sent to or received") != NULL, "%s",
                  error.message);
    gemmd_client_free(client);
    fake_stop(server);
    fake_free(server);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_async");
    TCase *tcase = tcase_create("client_async");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, keeps_many_in_flight_apart);
    tcase_add_test(tcase, has_a_client_in_every_thread);
    tcase_add_test(tcase, keeps_few_idle_transfers);
    tcase_add_test(tcase, sends_at_once);
    tcase_add_test(tcase, waits_for_one_and_does_not_return_it_again);
    tcase_add_test(tcase, hands_over_a_result_it_allocated);
    tcase_add_test(tcase, cancels_what_runs_and_what_waits);
    tcase_add_test(tcase, goes_on_after_a_cancelled_request);
    tcase_add_test(tcase, ends_at_its_deadline);
    tcase_add_test(tcase, notices_a_server_that_stops_reading);
    tcase_add_test(tcase, notices_an_answer_that_stops);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
