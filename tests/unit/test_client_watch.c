/* Learning that requests are done: callbacks, a descriptor in a loop of one's own, libuv. */
#include <check.h>
#include <gemmd/adapters/uv.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "fake_http.h"
#include "product_case.h"

enum {
    MANY = 300,
    PLACES = 4,
    STALL_MS = 3600000,
    NEVER_MS = 60000, /* a client that says nothing for so long says nothing */
};

static struct gemmd_client *client_with(const char *url, uint32_t total_ms)
{
    struct gemmd_options options;
    gemmd_options_init(&options, sizeof options);
    options.url = url;
    options.total_timeout_ms = total_ms;
    options.stall_timeout_ms = STALL_MS;
    options.max_in_flight = PLACES;
    options.retries = 0;
    struct gemmd_client *client = gemmd_client_new(&options, NULL);
    ck_assert_ptr_nonnull(client);
    return client;
}

/* Products that make the next one when they are done, until `left` is used up. */
struct chain {
    struct gemmd_client *client;
    struct gemmd_uv *adapter; /* detached at the end */
    uint32_t left, submitted, called;
    enum gemmd_error expected;
};

static struct gemmd_request *submit(struct chain *chain);

static void on_done(struct gemmd_request *request, void *user)
{
    struct chain *chain = user;
    struct gemmd_result result;
    struct gemmd_error_info error;
    gemmd_result_init(&result, sizeof result);
    enum gemmd_error code = gemmd_request_result(request, &result, &error);
    ck_assert_msg(code == chain->expected, "%s", error.message);
    if (code == GEMMD_OK)
        ck_assert_mem_eq(result.data, case_product, sizeof case_product);
    gemmd_free(result.data);
    gemmd_request_free(request);
    chain->called++;
    if (chain->left > 0)
        gemmd_on_done(submit(chain), on_done);
    else if (chain->adapter != NULL && chain->called == chain->submitted)
        gemmd_uv_detach(chain->adapter, NULL);
}

static struct gemmd_request *submit(struct chain *chain)
{
    struct gemmd_gemm gemm = case_gemm();
    gemm.user = chain;
    chain->left--;
    chain->submitted++;
    struct gemmd_request *request = gemmd_gemm_submit(chain->client, &gemm, NULL);
    ck_assert_ptr_nonnull(request);
    return request;
}

static void begin(struct chain *chain, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        gemmd_on_done(submit(chain), on_done);
}

START_TEST(calls_back)
{
    char head[FAKE_HEAD_MAX];
    const struct fake_act act = case_act(head);
    struct fake_server *server = fake_start(&act, 1);
    struct chain chain = {.client = client_with(fake_url(server), 0), .left = MANY};
    begin(&chain, 2 * PLACES);
    while (gemmd_advance(chain.client, -1) > 0)
        continue;
    ck_assert_uint_eq(chain.called, MANY);
    ck_assert_uint_eq(gemmd_advance(chain.client, -1), 0);
    ck_assert_ptr_null(gemmd_wait_any(chain.client, -1));
    gemmd_client_free(chain.client);
    fake_stop(server);
    fake_free(server);
}
END_TEST

/* Also while the caller waits for something else. */
START_TEST(calls_back_from_a_wait)
{
    char head[FAKE_HEAD_MAX];
    const struct fake_act act = case_act(head);
    struct fake_server *server = fake_start(&act, 1);
    struct chain chain = {.client = client_with(fake_url(server), 0), .left = PLACES * 2};
    struct gemmd_gemm gemm = case_gemm();
    begin(&chain, PLACES * 2);
    ck_assert_int_eq(gemmd_gemm(chain.client, &gemm, NULL, NULL), GEMMD_OK);
    ck_assert_ptr_null(gemmd_wait_any(chain.client, -1));
    ck_assert_uint_eq(chain.called, PLACES * 2);
    gemmd_client_free(chain.client);
    fake_stop(server);
    fake_free(server);
}
END_TEST

START_TEST(calls_back_for_what_is_done_or_cancelled_already)
{
    char head[FAKE_HEAD_MAX];
    const struct fake_act act = case_act(head);
    struct fake_server *server = fake_start(&act, 1);
    struct chain chain = {.client = client_with(fake_url(server), 0), .left = 2};
    struct gemmd_request *done = submit(&chain), *seen = submit(&chain);
    while (gemmd_in_flight(chain.client) > 0)
        gemmd_advance(chain.client, -1);
    ck_assert_int_eq(gemmd_wait(seen, 0), 1);
    gemmd_on_done(done, on_done);
    gemmd_on_done(seen, on_done); /* the caller knows of it */
    ck_assert_uint_eq(chain.called, 0);
    gemmd_advance(chain.client, 0);
    ck_assert_uint_eq(chain.called, 1);
    gemmd_request_free(seen);

    chain.left = 1;
    chain.expected = GEMMD_ERR_CANCELLED;
    struct gemmd_request *cancelled = submit(&chain);
    gemmd_on_done(cancelled, on_done);
    gemmd_cancel(cancelled);
    ck_assert_uint_eq(chain.called, 1);
    gemmd_advance(chain.client, -1);
    ck_assert_uint_eq(chain.called, 2);
    gemmd_client_free(chain.client);
    fake_stop(server);
    fake_free(server);
}
END_TEST

START_TEST(calls_nobody_for_what_is_released)
{
    static const struct fake_act hangs = {.take_bytes = FAKE_ALL, .then = FAKE_HANG};
    struct fake_server *server = fake_start(&hangs, 1);
    struct chain chain = {.client = client_with(fake_url(server), 0), .left = 2};
    struct gemmd_request *request = submit(&chain), *other = submit(&chain);
    gemmd_on_done(request, on_done);
    gemmd_on_done(other, on_done);
    gemmd_cancel(request);
    gemmd_request_free(request);
    gemmd_client_free(chain.client); /* and `other` */
    ck_assert_uint_eq(chain.called, 0);
    fake_stop(server);
    fake_free(server);
}
END_TEST

/* Nothing is done until the descriptor says so, and it always does. */
static void drive(struct chain *chain)
{
    struct pollfd ready = {.fd = gemmd_fd(chain->client), .events = POLLIN};
    ck_assert_int_ge(ready.fd, 0);
    ck_assert_int_eq(gemmd_fd(chain->client), ready.fd);
    do
        ck_assert_int_eq(poll(&ready, 1, NEVER_MS), 1);
    while (gemmd_advance(chain->client, 0) > 0);
}

START_TEST(says_when_there_is_something_to_do)
{
    char head[FAKE_HEAD_MAX];
    const struct fake_act act = case_act(head);
    struct fake_server *server = fake_start(&act, 1);
    struct chain chain = {.client = client_with(fake_url(server), 0), .left = MANY};
    struct pollfd ready = {.fd = gemmd_fd(chain.client), .events = POLLIN};
    begin(&chain, 2 * PLACES);
    drive(&chain);
    ck_assert_uint_eq(chain.called, MANY);
    ck_assert_int_eq(poll(&ready, 1, 0), 0);
    gemmd_client_free(chain.client);
    fake_stop(server);
    fake_free(server);
}
END_TEST

START_TEST(says_when_a_deadline_has_come)
{
    static const struct fake_act hangs = {.take_bytes = FAKE_ALL, .then = FAKE_HANG};
    struct fake_server *server = fake_start(&hangs, 1);
    struct chain chain = {.client = client_with(fake_url(server), 200),
                          .left = 2 * PLACES,
                          .expected = GEMMD_ERR_TIMEOUT};
    begin(&chain, 2 * PLACES);
    drive(&chain);
    ck_assert_uint_eq(chain.called, 2 * PLACES);
    gemmd_client_free(chain.client);
    fake_stop(server);
    fake_free(server);
}
END_TEST

/* Of a request that waits for a place, while nothing is to be done for those that have one. */
START_TEST(says_when_the_deadline_of_a_waiting_request_has_come)
{
    static const struct fake_act hangs = {.take_bytes = FAKE_ALL, .then = FAKE_HANG};
    struct fake_server *server = fake_start(&hangs, 1);
    struct chain chain = {.client = client_with(fake_url(server), 0), .left = PLACES};
    struct pollfd ready = {.fd = gemmd_fd(chain.client), .events = POLLIN};
    struct gemmd_gemm gemm = case_gemm();
    struct gemmd_error_info error;
    for (int i = 0; i < PLACES; i++)
        submit(&chain);
    do /* libcurl's last timer of a connection is that for a second address, 200 ms */
        gemmd_advance(chain.client, 0);
    while (fake_request_count(server) < PLACES || poll(&ready, 1, 500) != 0);
    gemm.timeout_ms = 100;
    struct gemmd_request *waits = gemmd_gemm_submit(chain.client, &gemm, NULL);
    ck_assert_int_eq(poll(&ready, 1, NEVER_MS), 1);
    while (gemmd_advance(chain.client, 0) > PLACES)
        ck_assert_int_eq(poll(&ready, 1, NEVER_MS), 1);
    ck_assert_int_eq(gemmd_request_result(waits, NULL, &error), GEMMD_ERR_TIMEOUT);
    gemmd_client_free(chain.client);
    fake_stop(server);
    fake_free(server);
}
END_TEST

START_TEST(says_when_a_repeat_is_due)
{
    char head[FAKE_HEAD_MAX];
    const struct fake_act acts[] = {
        {.head = "HTTP/1.1 503 Later\r\nContent-Length: 0", .take_bytes = FAKE_ALL},
        {.take_bytes = FAKE_ALL, .then = FAKE_RESET},
        case_act(head)};
    struct fake_server *server = fake_start(acts, 3);
    struct chain chain = {.client = case_client(fake_url(server), 2), .left = 1};
    begin(&chain, 1);
    drive(&chain);
    ck_assert_uint_eq(chain.called, 1);
    gemmd_client_free(chain.client);
    fake_stop(server);
    ck_assert_uint_eq(fake_request_count(server), 3);
    fake_free(server);
}
END_TEST

/* The daemon closes what is idle: the descriptor that was watched is let go, and nothing spins. */
START_TEST(lets_go_of_a_closed_connection)
{
    char head[FAKE_HEAD_MAX];
    struct fake_act act = case_act(head);
    act.then = FAKE_CLOSE;
    struct fake_server *server = fake_start(&act, 1);
    struct chain chain = {.client = client_with(fake_url(server), 0), .left = 1};
    struct pollfd ready = {.fd = gemmd_fd(chain.client), .events = POLLIN};
    begin(&chain, 1);
    drive(&chain);
    fake_stop(server);
    for (int turns = 0; poll(&ready, 1, 0) != 0; turns++) {
        ck_assert_int_lt(turns, 100);
        gemmd_advance(chain.client, 0);
    }
    gemmd_client_free(chain.client);
    fake_free(server);
}
END_TEST

START_TEST(lives_in_a_libuv_loop)
{
    char head[FAKE_HEAD_MAX];
    const struct fake_act act = case_act(head);
    struct fake_server *server = fake_start(&act, 1);
    struct gemmd_uv adapter;
    struct chain chain = {
        .client = client_with(fake_url(server), 0), .adapter = &adapter, .left = MANY};
    uv_loop_t loop;
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(gemmd_uv_attach(&adapter, chain.client, &loop), 0);
    begin(&chain, 2 * PLACES);
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    ck_assert_uint_eq(chain.called, MANY);
    gemmd_client_free(chain.client);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    fake_stop(server);
    fake_free(server);
}
END_TEST

static void note_closed(struct gemmd_uv *adapter)
{
    ck_assert_ptr_null(adapter->client);
    adapter->client = (struct gemmd_client *)adapter;
}

/* The client is free to go before the loop has heard of it. */
START_TEST(leaves_a_libuv_loop)
{
    static const struct fake_act hangs = {.take_bytes = FAKE_ALL, .then = FAKE_HANG};
    struct fake_server *server = fake_start(&hangs, 1);
    struct chain chain = {.client = client_with(fake_url(server), 0), .left = 1};
    struct gemmd_uv adapter;
    uv_loop_t loop;
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(gemmd_uv_attach(&adapter, chain.client, &loop), 0);
    begin(&chain, 1);
    uv_run(&loop, UV_RUN_NOWAIT);
    gemmd_uv_detach(&adapter, note_closed);
    gemmd_client_free(chain.client);
    adapter.client = NULL;
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    ck_assert_ptr_eq(adapter.client, (struct gemmd_client *)&adapter);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    ck_assert_uint_eq(chain.called, 0);
    fake_stop(server);
    fake_free(server);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_watch");
    TCase *tcase = tcase_create("client_watch");
    tcase_add_test(tcase, calls_back);
    tcase_add_test(tcase, calls_back_from_a_wait);
    tcase_add_test(tcase, calls_back_for_what_is_done_or_cancelled_already);
    tcase_add_test(tcase, calls_nobody_for_what_is_released);
    tcase_add_test(tcase, says_when_there_is_something_to_do);
    tcase_add_test(tcase, says_when_a_deadline_has_come);
    tcase_add_test(tcase, says_when_the_deadline_of_a_waiting_request_has_come);
    tcase_add_test(tcase, says_when_a_repeat_is_due);
    tcase_add_test(tcase, lets_go_of_a_closed_connection);
    tcase_add_test(tcase, lives_in_a_libuv_loop);
    tcase_add_test(tcase, leaves_a_libuv_loop);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
