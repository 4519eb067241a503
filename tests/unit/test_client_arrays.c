/* Reductions and softmaxes through libgemmd: the query and the body that are sent, the result that
 * is made of the answer, and requests that are refused before anything is sent. */
#include <check.h>
#include <gemmd/arrays.h>
#include <gemmd/gemmd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_http.h"
#include "product_case.h"

static const float x[6] = {1, 2, 3, 4, 5, 6}, y[6] = {0.5f, 1.5f, 2.5f, 3.5f, 4.5f, 5.5f};
static const int32_t lens[2] = {1, 3};

/* The answer to a reduction of 2 x 3 elements to 2, and to a softmax of 2 x 3. */
static const struct fake_act reduced = {
    .head = "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: 8\r\n"
            "Gemmd-Shape: 2\r\nGemmd-Dtype: f32\r\nGemmd-Kernel: tree",
    .payload = y,
    .payload_bytes = 8,
    .take_bytes = FAKE_ALL};
static const struct fake_act softened = {
    .head = "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: 24\r\n"
            "Gemmd-Shape: 2,3\r\nGemmd-Dtype: f32\r\nGemmd-Kernel: online",
    .payload = y,
    .payload_bytes = sizeof y,
    .take_bytes = FAKE_ALL};
static const struct fake_act stored = {
    .head = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 53\r\n"
            "Gemmd-Kernel: tree",
    .payload = "{\"name\":\"y\",\"dtype\":\"f32\",\"shape\":[2],\"etag\":\"\\\"e\\\"\"}",
    .payload_bytes = 53,
    .take_bytes = FAKE_ALL};
static const struct fake_act taken = {
    .head = "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nLocation: /jobs/job-1",
    .take_bytes = FAKE_ALL};

static struct gemmd_reduce reduce_case(void)
{
    struct gemmd_reduce reduce;
    gemmd_reduce_init(&reduce, sizeof reduce);
    reduce.rank = 2;
    reduce.dims[0] = 2;
    reduce.dims[1] = 3;
    reduce.x = x;
    return reduce;
}

static struct gemmd_softmax softmax_case(void)
{
    struct gemmd_softmax softmax;
    gemmd_softmax_init(&softmax, sizeof softmax);
    softmax.rank = 2;
    softmax.dims[0] = 2;
    softmax.dims[1] = 3;
    softmax.x = x;
    return softmax;
}

/* One of the two operations, so that the tests below are the same for both. */
struct call {
    const struct gemmd_reduce *reduce;
    const struct gemmd_softmax *softmax;
};

static enum gemmd_error run(struct gemmd_client *client, struct call call,
                            struct gemmd_result *result, struct gemmd_error_info *error)
{
    return call.reduce != NULL ? gemmd_reduce(client, call.reduce, result, error)
                               : gemmd_softmax(client, call.softmax, result, error);
}

/* Makes one request, of which the first line has to be `line` and the body `body`. The caller frees
 * the data of the result. */
static struct gemmd_result expect_request(const struct fake_act *act, struct call call,
                                          const char *line, const void *body, size_t bytes)
{
    struct fake_server *server = fake_start(act, 1);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    struct gemmd_error_info error;
    struct gemmd_result result;
    gemmd_result_init(&result, sizeof result);
    const enum gemmd_error code = run(client, call, &result, &error);
    ck_assert_msg(code == GEMMD_OK, "%s", error.message);
    gemmd_client_free(client);
    fake_stop(server);
    const struct fake_request *seen = fake_request(server, 0);
    ck_assert_msg(strncmp(seen->head, line, strlen(line)) == 0, "%s", seen->head);
    ck_assert_uint_eq(seen->body_bytes, bytes);
    ck_assert_mem_eq(seen->body, body, bytes);
    fake_free(server);
    return result;
}

START_TEST(a_reduction_sends_every_parameter)
{
    float out[2];
    struct gemmd_reduce reduce = reduce_case();
    reduce.op = GEMMD_REDUCE_NORM2;
    reduce.axis = 1;
    reduce.out = GEMMD_F32;
    reduce.kernel = "tree";
    reduce.priority = 9;
    reduce.y = out;
    reduce.y_bytes = sizeof out;
    const struct gemmd_result result = expect_request(
        &reduced, (struct call){.reduce = &reduce},
        "POST /reduce?shape=2,3&op=norm2&axis=1&dtype=f32&out=f32&kernel=tree&priority=9&"
        "timeout_ms=",
        x, sizeof x);
    ck_assert_ptr_eq(result.data, out);
    ck_assert_mem_eq(out, y, sizeof out);
    ck_assert_uint_eq(result.rank, 1);
    ck_assert_uint_eq(result.dims[0], 2);
    ck_assert_str_eq(result.kernel, "tree");
}
END_TEST

START_TEST(a_reduction_of_a_resident_sends_no_body)
{
    struct gemmd_reduce reduce = reduce_case();
    reduce.x = NULL;
    reduce.x_tensor = "edges";
    const struct gemmd_result result = expect_request(
        &reduced, (struct call){.reduce = &reduce},
        "POST /reduce?shape=2,3&op=sum&axis=-1&dtype=f32&x=edges&timeout_ms=", "", 0);
    ck_assert_mem_eq(result.data, y, 8);
    gemmd_free(result.data);
}
END_TEST

START_TEST(the_reduced_dimension_can_stay)
{
    static const struct fake_act kept = {
        .head = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\nGemmd-Shape: 2,1\r\nGemmd-Dtype: i32",
        .payload = y,
        .payload_bytes = 8,
        .take_bytes = FAKE_ALL};
    struct gemmd_reduce reduce = reduce_case();
    reduce.op = GEMMD_REDUCE_ARGMAX;
    reduce.keepdims = 1;
    const struct gemmd_result result = expect_request(
        &kept, (struct call){.reduce = &reduce},
        "POST /reduce?shape=2,3&op=argmax&axis=-1&keepdims=1&dtype=f32&timeout_ms=", x, sizeof x);
    ck_assert_uint_eq(result.rank, 2);
    ck_assert_uint_eq(result.dims[1], 1);
    ck_assert_int_eq(result.dtype, GEMMD_I32);
    gemmd_free(result.data);
}
END_TEST

START_TEST(a_softmax_sends_every_parameter_and_the_lengths_first)
{
    unsigned char body[sizeof lens + sizeof x];
    float out[6];
    struct gemmd_softmax softmax = softmax_case();
    memcpy(body, lens, sizeof lens);
    memcpy(body + sizeof lens, x, sizeof x);
    softmax.out = GEMMD_F32;
    softmax.scale = 0.125;
    softmax.log = 1;
    softmax.lens = lens;
    softmax.lens_rank = 1;
    softmax.kernel = "online";
    softmax.priority = 9;
    softmax.y = out;
    softmax.y_bytes = sizeof out;
    const struct gemmd_result result = expect_request(
        &softened, (struct call){.softmax = &softmax},
        "POST /softmax?shape=2,3&dtype=f32&out=f32&scale=0.125&log=1&lens=1&kernel=online&"
        "priority=9&timeout_ms=",
        body, sizeof body);
    ck_assert_ptr_eq(result.data, out);
    ck_assert_mem_eq(out, y, sizeof out);
    ck_assert_uint_eq(result.rank, 2);
}
END_TEST

START_TEST(a_softmax_of_a_resident_sends_no_body)
{
    struct gemmd_softmax softmax = softmax_case();
    softmax.x = NULL;
    softmax.x_tensor = "edges";
    const struct gemmd_result result =
        expect_request(&softened, (struct call){.softmax = &softmax},
                       "POST /softmax?shape=2,3&dtype=f32&x=edges&timeout_ms=", "", 0);
    ck_assert_mem_eq(result.data, y, sizeof y);
    gemmd_free(result.data);
}
END_TEST

START_TEST(results_can_be_stored)
{
    struct gemmd_reduce reduce = reduce_case();
    struct gemmd_softmax softmax = softmax_case();
    reduce.store = softmax.store = "y";
    /* The size of a buffer that the result does not use is not checked. */
    float unused;
    reduce.y = softmax.y = &unused;
    reduce.y_bytes = softmax.y_bytes = sizeof unused;
    struct gemmd_result result = expect_request(
        &stored, (struct call){.reduce = &reduce},
        "POST /reduce?shape=2,3&op=sum&axis=-1&dtype=f32&store=y&timeout_ms=", x, sizeof x);
    ck_assert_int_eq(result.put, GEMMD_PUT_CREATED);
    ck_assert_str_eq(result.etag, "\"e\"");
    ck_assert_uint_eq(result.bytes, 8);
    result = expect_request(&stored, (struct call){.softmax = &softmax},
                            "POST /softmax?shape=2,3&dtype=f32&store=y&timeout_ms=", x, sizeof x);
    ck_assert_int_eq(result.put, GEMMD_PUT_CREATED);
    ck_assert_uint_eq(result.rank, 2);
}
END_TEST

START_TEST(jobs_have_their_deadline_in_the_query)
{
    struct gemmd_reduce reduce = reduce_case();
    struct gemmd_softmax softmax = softmax_case();
    reduce.job = softmax.job = 1;
    reduce.timeout_ms = softmax.timeout_ms = 86400000;
    struct gemmd_result result = expect_request(
        &taken, (struct call){.reduce = &reduce},
        "POST /reduce?shape=2,3&op=sum&axis=-1&dtype=f32&timeout_ms=86400000 HTTP", x, sizeof x);
    ck_assert_str_eq(result.job, "job-1");
    ck_assert_ptr_null(result.data);
    result =
        expect_request(&taken, (struct call){.softmax = &softmax},
                       "POST /softmax?shape=2,3&dtype=f32&timeout_ms=86400000 HTTP", x, sizeof x);
    ck_assert_str_eq(result.job, "job-1");
    reduce.timeout_ms = softmax.timeout_ms = 0;
    reduce.store = softmax.store = "y";
    result =
        expect_request(&taken, (struct call){.reduce = &reduce},
                       "POST /reduce?shape=2,3&op=sum&axis=-1&dtype=f32&store=y HTTP", x, sizeof x);
    ck_assert_str_eq(result.job, "job-1");
    result = expect_request(&taken, (struct call){.softmax = &softmax},
                            "POST /softmax?shape=2,3&dtype=f32&store=y HTTP", x, sizeof x);
    ck_assert_str_eq(result.job, "job-1");
}
END_TEST

static void expect_refusal(struct call call, const char *field)
{
    struct gemmd_client *client = case_client("http://127.0.0.1:1", 0);
    struct gemmd_error_info error;
    struct gemmd_result result;
    gemmd_result_init(&result, sizeof result);
    ck_assert_uint_eq(run(client, call, &result, &error), GEMMD_ERR_USAGE);
    ck_assert_msg(strcmp(error.field, field) == 0, "%s: %s", error.field, error.message);
    ck_assert_uint_eq(run(client, call, &result, NULL), GEMMD_ERR_USAGE);
    gemmd_client_free(client);
}

START_TEST(refuses_reductions_before_anything_is_sent)
{
    float out[2];
    struct gemmd_reduce reduce = reduce_case();
    const struct call call = {.reduce = &reduce};
    reduce.y = out;
    reduce.y_bytes = sizeof out - 1;
    expect_refusal(call, "y_bytes");
    reduce.y_bytes = sizeof out;
    reduce.x = NULL;
    expect_refusal(call, "x");
    reduce.x_tensor = "edges";
    reduce.x = x;
    expect_refusal(call, "x");
    reduce.x_tensor = NULL;
    reduce.axis = 2;
    expect_refusal(call, "axis");
    reduce.axis = -1;
    reduce.rank = 9;
    expect_refusal(call, "rank");
    reduce.rank = 0;
    expect_refusal(call, "rank");
    reduce.rank = 3;
    reduce.dims[0] = reduce.dims[1] = reduce.dims[2] = INT32_MAX;
    expect_refusal(call, "dims");
    reduce.x = NULL;
    reduce.x_tensor = "edges";
    reduce.rank = 4;
    reduce.dims[3] = INT32_MAX;
    expect_refusal(call, "dims"); /* the result alone is too large */
    reduce = reduce_case();
    reduce.op = (enum gemmd_reduce_op)99;
    expect_refusal(call, "op");
    reduce.op = GEMMD_REDUCE_SUM;
    reduce.request_id = "a b";
    expect_refusal(call, "request_id");
    reduce.request_id = NULL;
    reduce.size = 1;
    expect_refusal(call, "size");
}
END_TEST

START_TEST(refuses_softmaxes_before_anything_is_sent)
{
    float out[6];
    struct gemmd_softmax softmax = softmax_case();
    const struct call call = {.softmax = &softmax};
    softmax.y = out;
    softmax.y_bytes = sizeof out - 1;
    expect_refusal(call, "y_bytes");
    softmax.y_bytes = sizeof out;
    softmax.x = NULL;
    expect_refusal(call, "x");
    softmax.x = x;
    softmax.lens = lens;
    expect_refusal(call, "lens_rank");
    softmax.lens_rank = 2;
    expect_refusal(call, "lens");
    softmax.lens = NULL;
    softmax.lens_rank = 1;
    expect_refusal(call, "lens_rank");
    softmax.lens_rank = 0;
    softmax.dtype = GEMMD_I8;
    expect_refusal(call, "dtype");
    softmax.dtype = GEMMD_F32;
    softmax.rank = 0;
    expect_refusal(call, "rank");
    softmax.x = NULL;
    softmax.x_tensor = "edges";
    softmax.rank = 3;
    softmax.dims[0] = softmax.dims[1] = softmax.dims[2] = INT32_MAX;
    expect_refusal(call, "dims"); /* the result alone is too large */
    softmax = softmax_case();
    softmax.request_id = "";
    expect_refusal(call, "request_id");
    softmax.request_id = NULL;
    softmax.size = 1;
    expect_refusal(call, "size");
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("client_arrays");
    tcase_add_test(tests, a_reduction_sends_every_parameter);
    tcase_add_test(tests, a_reduction_of_a_resident_sends_no_body);
    tcase_add_test(tests, the_reduced_dimension_can_stay);
    tcase_add_test(tests, a_softmax_sends_every_parameter_and_the_lengths_first);
    tcase_add_test(tests, a_softmax_of_a_resident_sends_no_body);
    tcase_add_test(tests, results_can_be_stored);
    tcase_add_test(tests, jobs_have_their_deadline_in_the_query);
    tcase_add_test(tests, refuses_reductions_before_anything_is_sent);
    tcase_add_test(tests, refuses_softmaxes_before_anything_is_sent);
    Suite *suite = suite_create("client_arrays");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
