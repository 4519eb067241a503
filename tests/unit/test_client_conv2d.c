/* A convolution through libgemmd: what is sent, what is made of the answer, and what is refused
 * before anything is sent. */
#include <check.h>
#include <gemmd/gemmd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_http.h"
#include "product_case.h"

/* One image of 2 x 2 x 3, two filters of 2 x 1 x 2: Y is 2 x 2 x 2. */
static const float x[12] = {1, 2, 3, 4}, w[8] = {5, 6}, bias[2] = {7, 8};
static const float y[8] = {0.5f, 1.5f, 2.5f, 3.5f};

static const struct fake_act answer = {
    .head = "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: 32\r\n"
            "Gemmd-Shape: 1,2,2,2\r\nGemmd-Dtype: f32\r\nGemmd-Kernel: product",
    .payload = y,
    .payload_bytes = sizeof y,
    .take_bytes = FAKE_ALL};

static struct gemmd_conv2d conv2d_case(void)
{
    struct gemmd_conv2d conv2d;
    gemmd_conv2d_init(&conv2d, sizeof conv2d);
    conv2d.channels = 2;
    conv2d.height = 2;
    conv2d.width = 3;
    conv2d.filters = 2;
    conv2d.r = 1;
    conv2d.s = 2;
    conv2d.x = x;
    conv2d.w = w;
    return conv2d;
}

/* One convolution against the answer: the request's first line has to begin with `line`, and its
 * body has to be `body`. */
static void expect_request(const struct gemmd_conv2d *conv2d, const char *line, const void *body,
                           size_t bytes)
{
    struct fake_server *server = fake_start(&answer, 1);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    struct gemmd_error_info error;
    struct gemmd_result result;
    gemmd_result_init(&result, sizeof result);
    const enum gemmd_error code = gemmd_conv2d(client, conv2d, &result, &error);
    ck_assert_msg(code == GEMMD_OK, "%s", error.message);
    ck_assert_mem_eq(result.data, y, sizeof y);
    ck_assert_uint_eq(result.rank, 4);
    ck_assert_str_eq(result.kernel, "product");
    if (result.data != conv2d->y)
        gemmd_free(result.data);
    gemmd_client_free(client);
    fake_stop(server);
    const struct fake_request *seen = fake_request(server, 0);
    ck_assert_msg(strncmp(seen->head, line, strlen(line)) == 0, "%s", seen->head);
    ck_assert_uint_eq(seen->body_bytes, bytes);
    ck_assert_mem_eq(seen->body, body, bytes);
    fake_free(server);
}

START_TEST(sends_every_parameter_and_the_operands_in_order)
{
    unsigned char body[sizeof x + sizeof w + sizeof bias];
    float out[8];
    struct gemmd_conv2d conv2d = conv2d_case();
    memcpy(body, x, sizeof x);
    memcpy(body + sizeof x, w, sizeof w);
    memcpy(body + sizeof x + sizeof w, bias, sizeof bias);
    conv2d.stride_w = 3;
    conv2d.dilation_h = 2;
    conv2d.pad_right = 3;
    conv2d.layout = GEMMD_CONV_NCHW;
    conv2d.w_layout = GEMMD_CONV_KRSC;
    conv2d.out = GEMMD_F32;
    conv2d.precision = GEMMD_PRECISION_TF32;
    conv2d.alpha = -0.5;
    conv2d.act = GEMMD_ACT_SILU;
    conv2d.bias = bias;
    conv2d.kernel = "product";
    conv2d.priority = 9;
    conv2d.y = out;
    conv2d.y_bytes = sizeof out;
    expect_request(&conv2d,
                   "POST "
                   "/conv2d?channels=2&height=2&width=3&filters=2&filter_h=1&filter_w=2&stride=1,3"
                   "&dilation=2,1&padding=0,0,0,3&w_layout=krsc&dtype=f32&out=f32&precision=tf32"
                   "&alpha=-0.5&bias=1&act=silu&kernel=product&priority=9&timeout_ms=",
                   body, sizeof body);
    ck_assert_mem_eq(out, y, sizeof y);
}
END_TEST

START_TEST(leaves_out_what_is_resident_and_what_is_default)
{
    struct gemmd_conv2d conv2d = conv2d_case();
    conv2d.w = NULL;
    conv2d.w_tensor = "edges";
    expect_request(&conv2d,
                   "POST "
                   "/conv2d?channels=2&height=2&width=3&filters=2&filter_h=1&filter_w=2&"
                   "dtype=f32&w=edges"
                   "&timeout_ms=",
                   x, sizeof x);
    conv2d.x = NULL;
    conv2d.x_tensor = "layer";
    expect_request(&conv2d,
                   "POST "
                   "/conv2d?channels=2&height=2&width=3&filters=2&filter_h=1&filter_w=2&"
                   "dtype=f32&x=layer&w=edges"
                   "&timeout_ms=",
                   x, 0);
}
END_TEST

/* The answer describes the tensor, or names the job that will make the tensor. */
START_TEST(stores_the_result)
{
    static const char document[] =
        "{\"name\":\"y\",\"dtype\":\"f32\",\"shape\":[1,2,2,2],\"etag\":null}";
    char head[128];
    snprintf(head, sizeof head, "HTTP/1.1 201 Created\r\nContent-Length: %zu", sizeof document - 1);
    const struct fake_act acts[] = {
        {.head = head,
         .payload = document,
         .payload_bytes = sizeof document - 1,
         .take_bytes = FAKE_ALL},
        {.head = "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nLocation: /jobs/a1",
         .take_bytes = FAKE_ALL}};
    struct fake_server *server = fake_start(acts, 2);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    struct gemmd_conv2d conv2d = conv2d_case();
    struct gemmd_error_info error;
    struct gemmd_result result;
    conv2d.store = "y";
    gemmd_result_init(&result, sizeof result);
    ck_assert_msg(gemmd_conv2d(client, &conv2d, &result, &error) == GEMMD_OK, "%s", error.message);
    ck_assert_ptr_null(result.data);
    ck_assert_int_eq(result.put, GEMMD_PUT_CREATED);
    ck_assert_uint_eq(result.dims[1], 2);
    conv2d.job = 1;
    ck_assert_msg(gemmd_conv2d(client, &conv2d, &result, &error) == GEMMD_OK, "%s", error.message);
    ck_assert_str_eq(result.job, "a1");
    gemmd_client_free(client);
    fake_stop(server);
    ck_assert_ptr_nonnull(strstr(fake_request(server, 0)->head, "&store=y&timeout_ms="));
    ck_assert_ptr_nonnull(strstr(fake_request(server, 1)->head, "&store=y "));
    ck_assert_ptr_nonnull(strstr(fake_request(server, 1)->head, "Prefer: respond-async"));
    fake_free(server);
}
END_TEST

START_TEST(names_layouts_padding_and_a_deadline)
{
    static const struct fake_act taken = {
        .head = "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nLocation: /jobs/job-1",
        .take_bytes = FAKE_ALL};
    static const char *const lines[] = {
        "POST /conv2d?channels=2&height=2&width=3&filters=2&filter_h=1&filter_w=2&"
        "padding=same&layout=nhwc&dtype=f32&timeout_ms=5000 HTTP",
        "POST /conv2d?channels=2&height=2&width=3&filters=2&filter_h=1&filter_w=2&"
        "padding=same&layout=nhwc&dtype=f32 HTTP"};
    struct gemmd_conv2d conv2d = conv2d_case();
    conv2d.layout = GEMMD_CONV_NHWC;
    conv2d.w_layout = GEMMD_CONV_KCRS;
    conv2d.pad_same = 1;
    conv2d.job = 1;
    for (int i = 0; i < 2; i++) {
        struct fake_server *server = fake_start(&taken, 1);
        struct gemmd_client *client = case_client(fake_url(server), 0);
        struct gemmd_result result;
        gemmd_result_init(&result, sizeof result);
        conv2d.timeout_ms = i == 0 ? 5000 : 0;
        ck_assert_int_eq(gemmd_conv2d(client, &conv2d, &result, NULL), GEMMD_OK);
        ck_assert_str_eq(result.job, "job-1");
        gemmd_client_free(client);
        fake_stop(server);
        const char *head = fake_request(server, 0)->head;
        ck_assert_msg(strncmp(head, lines[i], strlen(lines[i])) == 0, "%s", head);
        fake_free(server);
    }
}
END_TEST

static void expect_refusal(const struct gemmd_conv2d *conv2d, const char *field)
{
    struct gemmd_client *client = case_client("http://127.0.0.1:1", 0);
    struct gemmd_error_info error;
    ck_assert_uint_eq(gemmd_conv2d(client, conv2d, NULL, &error), GEMMD_ERR_USAGE);
    ck_assert_str_eq(error.field, field);
    gemmd_client_free(client);
}

START_TEST(refuses_before_anything_is_sent)
{
    float out[8];
    struct gemmd_conv2d conv2d = conv2d_case();
    conv2d.y = out;
    conv2d.y_bytes = sizeof out - 1;
    expect_refusal(&conv2d, "y_bytes");
    conv2d.y_bytes = sizeof out;
    conv2d.x = NULL;
    expect_refusal(&conv2d, "x");
    conv2d.x = x;
    conv2d.x_tensor = "layer";
    expect_refusal(&conv2d, "x");
    conv2d.x_tensor = NULL;
    conv2d.w_tensor = "edges";
    expect_refusal(&conv2d, "w");
    conv2d.w_tensor = NULL;
    conv2d.r = 3;
    expect_refusal(&conv2d, "filter_h");
    conv2d.r = 1;
    conv2d.groups = 3;
    expect_refusal(&conv2d, "groups");
    conv2d.groups = 1;
    conv2d.store = "";
    expect_refusal(&conv2d, "store");
    conv2d.store = NULL;
    conv2d.request_id = "two words";
    expect_refusal(&conv2d, "request_id");
    conv2d.request_id = NULL;
    conv2d.size = 1;
    expect_refusal(&conv2d, "size");
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("client_conv2d");
    tcase_add_test(tests, sends_every_parameter_and_the_operands_in_order);
    tcase_add_test(tests, leaves_out_what_is_resident_and_what_is_default);
    tcase_add_test(tests, stores_the_result);
    tcase_add_test(tests, names_layouts_padding_and_a_deadline);
    tcase_add_test(tests, refuses_before_anything_is_sent);
    Suite *suite = suite_create("client_conv2d");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
