/* Jobs: handed in, looked at, waited for, fetched, cancelled. */
#include <check.h>
#include <gemmd/gemmd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_http.h"
#include "product_case.h"

#define ID "0123456789abcdef0123456789abcdef"
#define NOT_YET "HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\nRetry-After: 1"

static const struct fake_act not_yet = {.head = NOT_YET};

static struct fake_act text_act(char head[FAKE_HEAD_MAX], const char *line, const char *text)
{
    snprintf(head, FAKE_HEAD_MAX, "%s\r\nContent-Length: %zu", line, strlen(text));
    return (struct fake_act){
        .head = head, .payload = text, .payload_bytes = strlen(text), .take_bytes = FAKE_ALL};
}

static enum gemmd_error hand_in(const struct fake_act *act, struct gemmd_gemm *gemm,
                                struct gemmd_result *result, struct gemmd_error_info *error,
                                char asked[4096])
{
    struct fake_server *server = fake_start(act, 1);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    gemmd_result_init(result, sizeof *result);
    gemm->job = 1;
    enum gemmd_error code = gemmd_gemm(client, gemm, result, error);
    gemmd_client_free(client);
    fake_stop(server);
    snprintf(asked, 4096, "%s", fake_request(server, 0)->head);
    fake_free(server);
    return code;
}

static const char *const locations[] = {"/jobs/" ID, "http://host:1/prefix/jobs/" ID};

START_TEST(hands_a_job_in)
{
    char head[FAKE_HEAD_MAX], asked[4096];
    struct gemmd_gemm gemm = case_gemm();
    struct gemmd_result result;
    struct gemmd_error_info error;
    gemm.timeout_ms = 86400000; /* longer than the client has for anything */
    snprintf(head, sizeof head, "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nLocation: %s",
             locations[_i]);
    const struct fake_act act = {.head = head, .take_bytes = FAKE_ALL};
    ck_assert_msg(hand_in(&act, &gemm, &result, &error, asked) == GEMMD_OK, "%s", error.message);
    ck_assert_str_eq(result.job, ID);
    ck_assert_ptr_null(result.data);
    ck_assert_uint_eq(result.bytes, 0);
    ck_assert_ptr_nonnull(strstr(asked, "\r\nPrefer: respond-async\r\n"));
    ck_assert_ptr_nonnull(strstr(asked, "&timeout_ms=86400000 HTTP"));
}
END_TEST

START_TEST(leaves_the_deadline_to_the_daemon)
{
    char asked[4096];
    struct gemmd_gemm gemm = case_gemm();
    struct gemmd_result result;
    const struct fake_act act = {
        .head = "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nLocation: /jobs/" ID,
        .take_bytes = FAKE_ALL};
    gemm.store = "c";
    ck_assert_int_eq(hand_in(&act, &gemm, &result, NULL, asked), GEMMD_OK);
    ck_assert_str_eq(result.job, ID);
    ck_assert_int_eq(result.put, GEMMD_PUT_NONE); /* not yet */
    ck_assert_ptr_null(strstr(asked, "timeout_ms"));
    ck_assert_ptr_nonnull(strstr(asked, "&store=c "));
}
END_TEST

static const char *const nameless[] = {
    "HTTP/1.1 202 Accepted\r\nContent-Length: 0",
    "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nLocation: /elsewhere",
    "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nLocation: /jobs/",
    "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nLocation: /jobs/a/result",
    "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nLocation: /jobs/a.b",
};

START_TEST(refuses_a_job_without_a_name)
{
    char asked[4096];
    struct gemmd_gemm gemm = case_gemm();
    struct gemmd_result result;
    struct gemmd_error_info error;
    const struct fake_act act = {.head = nameless[_i], .take_bytes = FAKE_ALL};
    ck_assert_int_eq(hand_in(&act, &gemm, &result, &error, asked), GEMMD_ERR_PROTOCOL);
    ck_assert_msg(strstr(error.message, "Location") != NULL, "%s", error.message);
    gemm.store = "c";
    ck_assert_int_eq(hand_in(&act, &gemm, &result, &error, asked), GEMMD_ERR_PROTOCOL);
}
END_TEST

/* The preference is one that a daemon may pass over. */
START_TEST(takes_the_result_of_a_daemon_without_jobs)
{
    char head[FAKE_HEAD_MAX], asked[4096];
    struct gemmd_gemm gemm = case_gemm();
    struct gemmd_result result;
    struct fake_act act = case_act(head);
    ck_assert_int_eq(hand_in(&act, &gemm, &result, NULL, asked), GEMMD_OK);
    ck_assert_str_eq(result.job, "");
    ck_assert_mem_eq(result.data, case_product, sizeof case_product);
    gemmd_free(result.data);
    act = text_act(head, "HTTP/1.1 201 Created", "{}");
    gemm.store = "c";
    ck_assert_int_eq(hand_in(&act, &gemm, &result, NULL, asked), GEMMD_OK);
    ck_assert_str_eq(result.job, "");
    ck_assert_int_eq(result.put, GEMMD_PUT_CREATED);
}
END_TEST

static const struct {
    const char *text;
    enum gemmd_job_state state;
} descriptions[] = {
    {"{\"id\":\"" ID "\",\"state\":\"queued\",\"queued_ms\":1.5}", GEMMD_JOB_QUEUED},
    {"{\"id\":\"" ID "\",\"state\":\"running\",\"queued_ms\":1.5,\"running_ms\":2}",
     GEMMD_JOB_RUNNING},
    {"{\"id\":\"" ID
     "\",\"state\":\"done\",\"created\":\"2026-11-21T10:00:00.123Z\",\"status\":200,"
     "\"bytes\":24,\"expires\":\"2026-11-21T11:00:00.000Z\",\"request_id\":\"r\",\"queued_ms\":1."
     "5}",
     GEMMD_JOB_DONE},
    {"{\"id\":\"" ID "\",\"state\":\"failed\",\"queued_ms\":1.5}", GEMMD_JOB_FAILED},
    {"{\"id\":\"" ID "\",\"state\":\"cancelled\",\"queued_ms\":1.5}", GEMMD_JOB_CANCELLED},
    {"{\"id\":\"" ID "\",\"state\":\"paused\",\"queued_ms\":1.5}", GEMMD_JOB_UNKNOWN},
};

START_TEST(reads_a_status)
{
    char head[FAKE_HEAD_MAX];
    const struct fake_act act = text_act(head, "HTTP/1.1 200 OK", descriptions[_i].text);
    struct fake_server *server = fake_start(&act, 1);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    struct gemmd_job job = {.size = sizeof job};
    struct gemmd_error_info error;
    ck_assert_msg(gemmd_job_status(client, ID, NULL, &job, &error) == GEMMD_OK, "%s",
                  error.message);
    ck_assert_str_eq(job.id, ID);
    ck_assert_int_eq(job.state, descriptions[_i].state);
    ck_assert_double_eq(job.queued_ms, 1.5);
    ck_assert_double_eq(job.running_ms, job.state == GEMMD_JOB_RUNNING ? 2 : -1);
    if (job.state == GEMMD_JOB_DONE) {
        ck_assert_int_eq(job.http_status, 200);
        ck_assert_uint_eq(job.bytes, 24);
        ck_assert_str_eq(job.created, "2026-11-21T10:00:00.123Z");
        ck_assert_str_eq(job.expires, "2026-11-21T11:00:00.000Z");
        ck_assert_str_eq(job.request_id, "r");
    }
    gemmd_client_free(client);
    fake_stop(server);
    ck_assert_ptr_nonnull(strstr(fake_request(server, 0)->head, "GET /jobs/" ID " HTTP/1.1\r\n"));
    fake_free(server);
}
END_TEST

static const struct {
    const char *text;
    int32_t http_status;
    double queued_ms;
} odd[] = {
    {"{\"id\":\"" ID "\",\"state\":\"done\",\"status\":99,\"bytes\":-1}", 0, -1},
    {"{\"id\":\"" ID "\",\"state\":\"done\",\"status\":600,\"queued_ms\":\"1\"}", 0, -1},
    {"{\"id\":\"" ID "\",\"state\":\"done\",\"status\":599,\"queued_ms\":2}", 599, 2},
};

START_TEST(leaves_out_numbers_that_mean_nothing)
{
    char head[FAKE_HEAD_MAX];
    const struct fake_act act = text_act(head, "HTTP/1.1 200 OK", odd[_i].text);
    struct fake_server *server = fake_start(&act, 1);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    struct gemmd_job job = {.size = sizeof job};
    ck_assert_int_eq(gemmd_job_status(client, ID, NULL, &job, NULL), GEMMD_OK);
    ck_assert_int_eq(job.http_status, odd[_i].http_status);
    ck_assert_uint_eq(job.bytes, 0);
    ck_assert_double_eq(job.queued_ms, odd[_i].queued_ms);
    gemmd_client_free(client);
    fake_stop(server);
    fake_free(server);
}
END_TEST

static const char *const undescribed[] = {"", "[]", "{\"id\":\"" ID "\"}", "{\"state\":\"done\"}"};

START_TEST(refuses_what_is_no_status)
{
    char head[FAKE_HEAD_MAX];
    const struct fake_act act = text_act(head, "HTTP/1.1 200 OK", undescribed[_i]);
    struct fake_server *server = fake_start(&act, 1);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    struct gemmd_job job = {.size = sizeof job};
    ck_assert_int_eq(gemmd_job_status(client, ID, NULL, &job, NULL), GEMMD_ERR_PROTOCOL);
    gemmd_client_free(client);
    fake_stop(server);
    fake_free(server);
}
END_TEST

struct seen_jobs {
    int count;
    struct gemmd_job last;
};

static void see_job(const struct gemmd_job *job, void *user)
{
    struct seen_jobs *seen = user;
    seen->count++;
    seen->last = *job;
}

START_TEST(lists_all_pages)
{
    char heads[2][FAKE_HEAD_MAX];
    const struct fake_act acts[] = {
        text_act(heads[0], "HTTP/1.1 200 OK",
                 "{\"jobs\":[{\"id\":\"" ID "\",\"state\":\"queued\",\"op\":\"gemm\"},"
                 "{\"state\":\"queued\",\"op\":\"gemm\"}],"
                 "\"next\":\"7\"}"),
        text_act(heads[1], "HTTP/1.1 200 OK",
                 "{\"jobs\":[{\"id\":\"1\",\"state\":\"done\",\"op\":\"attention\"}],"
                 "\"next\":null}")};
    struct fake_server *server = fake_start(acts, 2);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    struct gemmd_error_info error;
    struct seen_jobs seen = {0};
    ck_assert_msg(gemmd_job_list(client, see_job, &seen, &error) == GEMMD_OK, "%s", error.message);
    ck_assert_int_eq(seen.count, 3);
    ck_assert_uint_eq(seen.last.size, sizeof seen.last);
    ck_assert_str_eq(seen.last.id, "1");
    ck_assert_str_eq(seen.last.op, "attention");
    ck_assert_int_eq(seen.last.state, GEMMD_JOB_DONE);
    gemmd_client_free(client);
    fake_stop(server);
    ck_assert_ptr_nonnull(strstr(fake_request(server, 0)->head, "GET /jobs HTTP/1.1\r\n"));
    ck_assert_ptr_nonnull(strstr(fake_request(server, 1)->head, "GET /jobs?after=7 HTTP/1.1\r\n"));
    fake_free(server);
}
END_TEST

static const char *const wrong_lists[] = {
    "",
    "[]",
    "{\"jobs\":{}}",
    "{\"jobs\":[1]}",
    "{\"jobs\":[{\"id\":\"1\"}]}",
    "{\"jobs\":[{\"id\":1,\"state\":\"done\"}]}",
    "{\"jobs\":[],\"next\":7}",
    "{\"jobs\":[],\"next\":\"\"}",
    "{\"jobs\":[],\"next\":\"0\"}",
    "{\"jobs\":[],\"next\":\"7&limit=1\"}",
    "{\"jobs\":[],\"next\":\"18446744073709551615\"}",
};

START_TEST(refuses_what_is_no_list)
{
    char head[FAKE_HEAD_MAX];
    const struct fake_act act = text_act(head, "HTTP/1.1 200 OK", wrong_lists[_i]);
    struct fake_server *server = fake_start(&act, 1);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    struct seen_jobs seen = {0};
    ck_assert_int_eq(gemmd_job_list(client, see_job, &seen, NULL), GEMMD_ERR_PROTOCOL);
    ck_assert_int_eq(seen.count, 0);
    gemmd_client_free(client);
    fake_stop(server);
    fake_free(server);
}
END_TEST

/* The fake server gives the same page for ever. */
START_TEST(follows_no_list_in_circles)
{
    char head[FAKE_HEAD_MAX];
    const struct fake_act act = text_act(head, "HTTP/1.1 200 OK", "{\"jobs\":[],\"next\":\"7\"}");
    struct fake_server *server = fake_start(&act, 1);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    struct seen_jobs seen = {0};
    ck_assert_int_eq(gemmd_job_list(client, see_job, &seen, NULL), GEMMD_ERR_PROTOCOL);
    gemmd_client_free(client);
    fake_stop(server);
    ck_assert_uint_eq(fake_request_count(server), 2);
    fake_free(server);
}
END_TEST

START_TEST(names_states)
{
    ck_assert_str_eq(gemmd_job_state_name(GEMMD_JOB_CANCELLED), "cancelled");
    ck_assert_str_eq(gemmd_job_state_name((enum gemmd_job_state)99), "unknown");
}
END_TEST

/* Asked again, however few repeats there are, and with the time that is left. */
START_TEST(waits_for_a_result)
{
    char head[FAKE_HEAD_MAX];
    const struct fake_act acts[] = {not_yet, not_yet, case_act(head)};
    struct fake_server *server = fake_start(acts, 3);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    struct gemmd_result result;
    /* An error of before is gone. */
    struct gemmd_error_info error = {.code = GEMMD_ERR_CONFLICT, .message = "of before"};
    gemmd_result_init(&result, sizeof result);
    struct gemmd_request *request = gemmd_job_result_submit(client, ID, NULL, &error);
    ck_assert_ptr_nonnull(request);
    ck_assert_int_eq(error.code, GEMMD_OK);
    ck_assert_str_eq(error.message, "");
    ck_assert_int_eq(gemmd_wait(request, -1), 1);
    ck_assert_msg(gemmd_request_result(request, &result, &error) == GEMMD_OK, "%s", error.message);
    gemmd_request_free(request);
    ck_assert_mem_eq(result.data, case_product, sizeof case_product);
    ck_assert_str_eq(result.kernel, "naive");
    ck_assert_uint_eq(result.attempts, 3);
    gemmd_free(result.data);
    gemmd_client_free(client);
    fake_stop(server);
    const char *asked = fake_request(server, 2)->head;
    ck_assert_msg(strstr(asked, "GET /jobs/" ID "/result?wait_ms=30000 HTTP") != NULL, "%s", asked);
    ck_assert_ptr_nonnull(strstr(asked, "\r\nAccept: application/octet-stream\r\n"));
    fake_free(server);
}
END_TEST

START_TEST(waits_without_fetching)
{
    char head[FAKE_HEAD_MAX];
    struct fake_act done = case_act(head);
    done.payload_bytes = 0;
    const struct fake_act acts[] = {
        not_yet, done, {.head = "HTTP/1.1 201 Created\r\nContent-Length: 90"}};
    struct fake_server *server = fake_start(acts, 3);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    struct gemmd_result result;
    gemmd_result_init(&result, sizeof result);
    ck_assert_int_eq(gemmd_job_wait(client, ID, NULL, &result, NULL), GEMMD_OK);
    ck_assert_ptr_null(result.data);
    ck_assert_uint_eq(result.bytes, CASE_C_BYTES);
    ck_assert_int_eq(gemmd_job_wait(client, ID, NULL, NULL, NULL), GEMMD_OK);
    gemmd_client_free(client);
    fake_stop(server);
    ck_assert_ptr_nonnull(
        strstr(fake_request(server, 0)->head, "HEAD /jobs/" ID "/result?wait_ms="));
    fake_free(server);
}
END_TEST

/* Whether the daemon waits or says at once that it is not there. */
START_TEST(waits_no_longer_than_it_may)
{
    static const struct fake_act hangs = {.then = FAKE_HANG};
    struct fake_server *server = fake_start(_i == 0 ? &not_yet : &hangs, 1);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    struct gemmd_error_info error;
    struct gemmd_call call;
    gemmd_call_init(&call, sizeof call);
    call.timeout_ms = 300;
    ck_assert_int_eq(gemmd_job_result(client, ID, &call, NULL, &error), GEMMD_ERR_TIMEOUT);
    ck_assert_msg(strstr(error.message, "300 ms") != NULL, "%s", error.message);
    gemmd_client_free(client);
    fake_stop(server);
    fake_free(server);
}
END_TEST

START_TEST(asks_once_if_told_so)
{
    struct fake_server *server = fake_start(&not_yet, 1);
    struct gemmd_client *client = case_client(fake_url(server), 4);
    struct gemmd_error_info error;
    struct gemmd_call call;
    gemmd_call_init(&call, sizeof call);
    call.no_wait = 1;
    ck_assert_int_eq(gemmd_job_result(client, ID, &call, NULL, &error), GEMMD_ERR_CONFLICT);
    ck_assert_int_eq(error.retriable, 1);
    ck_assert_uint_eq(error.retry_after_ms, 1000);
    gemmd_client_free(client);
    fake_stop(server);
    ck_assert_uint_eq(fake_request_count(server), 1);
    ck_assert_ptr_nonnull(strstr(fake_request(server, 0)->head, "GET /jobs/" ID "/result HTTP"));
    fake_free(server);
}
END_TEST

START_TEST(learns_what_a_stored_result_is)
{
    char head[FAKE_HEAD_MAX];
    const struct fake_act acts[] = {
        text_act(head, "HTTP/1.1 201 Created",
                 "{\"name\":\"c\",\"dtype\":\"f64\",\"shape\":[5,7],\"etag\":\"\\\"e\\\"\"}"),
        {.head = "HTTP/1.1 201 Created\r\nContent-Length: 0"}};
    struct fake_server *server = fake_start(acts, 2);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    struct gemmd_result result;
    gemmd_result_init(&result, sizeof result);
    ck_assert_int_eq(gemmd_job_result(client, ID, NULL, &result, NULL), GEMMD_OK);
    ck_assert_ptr_null(result.data);
    ck_assert_uint_eq(result.bytes, 280);
    ck_assert_int_eq(result.dtype, GEMMD_F64);
    ck_assert_str_eq(result.etag, "\"e\"");
    ck_assert_int_eq(gemmd_job_result(client, ID, NULL, &result, NULL), GEMMD_ERR_PROTOCOL);
    gemmd_client_free(client);
    fake_stop(server);
    fake_free(server);
}
END_TEST

static const struct {
    int status;
    enum gemmd_error code;
} refusals[] = {{403, GEMMD_ERR_FORBIDDEN}, {404, GEMMD_ERR_NOT_FOUND}, {410, GEMMD_ERR_GONE}};

START_TEST(passes_refusals_on)
{
    char head[FAKE_HEAD_MAX], line[32];
    snprintf(line, sizeof line, "HTTP/1.1 %d No", refusals[_i].status);
    const struct fake_act act = text_act(head, line, "");
    struct fake_server *server = fake_start(&act, 1);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    struct gemmd_job job = {.size = sizeof job};
    enum gemmd_error code = refusals[_i].code;
    ck_assert_int_eq(gemmd_job_status(client, ID, NULL, &job, NULL), code);
    ck_assert_int_eq(gemmd_job_wait(client, ID, NULL, NULL, NULL), code);
    ck_assert_int_eq(gemmd_job_result(client, ID, NULL, NULL, NULL), code);
    ck_assert_int_eq(gemmd_job_cancel(client, ID, NULL, NULL), code);
    gemmd_client_free(client);
    fake_stop(server);
    fake_free(server);
}
END_TEST

START_TEST(cancels)
{
    char head[FAKE_HEAD_MAX];
    const struct fake_act act = text_act(head, "HTTP/1.1 200 OK", "{}");
    struct fake_server *server = fake_start(&act, 1);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    ck_assert_int_eq(gemmd_job_cancel(client, ID, NULL, NULL), GEMMD_OK);
    gemmd_client_free(client);
    fake_stop(server);
    ck_assert_ptr_nonnull(
        strstr(fake_request(server, 0)->head, "DELETE /jobs/" ID " HTTP/1.1\r\n"));
    fake_free(server);
}
END_TEST

START_TEST(refuses_what_is_no_id)
{
    struct gemmd_client *client = case_client("http://127.0.0.1:1", 0);
    static const char *const ids[] = {NULL, "", "a/b", "a?b", "..", "a b"};
    struct gemmd_job job = {.size = sizeof job};
    struct gemmd_error_info error;
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        ck_assert_int_eq(gemmd_job_status(client, ids[i], NULL, &job, &error), GEMMD_ERR_USAGE);
        ck_assert_str_eq(error.field, "id");
        ck_assert_int_eq(gemmd_job_wait(client, ids[i], NULL, NULL, NULL), GEMMD_ERR_USAGE);
        ck_assert_int_eq(gemmd_job_result(client, ids[i], NULL, NULL, NULL), GEMMD_ERR_USAGE);
        ck_assert_int_eq(gemmd_job_cancel(client, ids[i], NULL, NULL), GEMMD_ERR_USAGE);
    }
    struct gemmd_call call = {.size = 3};
    ck_assert_int_eq(gemmd_job_wait(client, ID, &call, NULL, NULL), GEMMD_ERR_USAGE);
    struct gemmd_request *request = gemmd_job_cancel_submit(client, ID, NULL, NULL);
    ck_assert_ptr_nonnull(request);
    ck_assert_int_eq(gemmd_request_job(request, &job, NULL), GEMMD_ERR_USAGE);
    gemmd_client_free(client);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_job");
    TCase *tcase = tcase_create("client_job");
    tcase_add_loop_test(tcase, hands_a_job_in, 0, 2);
    tcase_add_test(tcase, leaves_the_deadline_to_the_daemon);
    tcase_add_loop_test(tcase, refuses_a_job_without_a_name, 0, 5);
    tcase_add_test(tcase, takes_the_result_of_a_daemon_without_jobs);
    tcase_add_loop_test(tcase, reads_a_status, 0, 6);
    tcase_add_loop_test(tcase, leaves_out_numbers_that_mean_nothing, 0, 3);
    tcase_add_loop_test(tcase, refuses_what_is_no_status, 0, 4);
    tcase_add_test(tcase, names_states);
    tcase_add_test(tcase, lists_all_pages);
    tcase_add_loop_test(tcase, refuses_what_is_no_list, 0,
                        sizeof wrong_lists / sizeof wrong_lists[0]);
    tcase_add_test(tcase, follows_no_list_in_circles);
    tcase_add_test(tcase, waits_for_a_result);
    tcase_add_test(tcase, waits_without_fetching);
    tcase_add_loop_test(tcase, waits_no_longer_than_it_may, 0, 2);
    tcase_add_test(tcase, asks_once_if_told_so);
    tcase_add_test(tcase, learns_what_a_stored_result_is);
    tcase_add_loop_test(tcase, passes_refusals_on, 0, 3);
    tcase_add_test(tcase, cancels);
    tcase_add_test(tcase, refuses_what_is_no_id);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
