/* Experts through libgemmd: what is sent, what is made of the answer, and what is refused before
 * anything is sent. */
#include <check.h>
#include <gemmd/gemmd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_http.h"
#include "product_case.h"

/* Two rows of 3, two experts of 3 x 2, two places: C is 2 x 2. */
static const float a[6] = {1, 2, 3, 4}, w[12] = {5, 6}, bias[4] = {7, 8}, weights[4] = {0.5f};
static const int32_t numbers[4] = {0, 1, -1, 1};
static const float c[4] = {0.5f, 1.5f, 2.5f, 3.5f};

static const struct fake_act answer = {
    .head = "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: 16\r\n"
            "Gemmd-Shape: 2,2\r\nGemmd-Dtype: f32\r\nGemmd-Kernel: gathered",
    .payload = c,
    .payload_bytes = sizeof c,
    .take_bytes = FAKE_ALL};

static struct gemmd_experts experts_case(void)
{
    struct gemmd_experts experts;
    gemmd_experts_init(&experts, sizeof experts);
    experts.m = 2;
    experts.n = 2;
    experts.k = 3;
    experts.count = 2;
    experts.topk = 2;
    experts.a = a;
    experts.w = w;
    experts.experts = numbers;
    return experts;
}

/* One request against the answer: the request's first line has to begin with `line`, and its body
 * has to be `body`. */
static void expect_request(const struct gemmd_experts *experts, const char *line, const void *body,
                           size_t bytes)
{
    struct fake_server *server = fake_start(&answer, 1);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    struct gemmd_error_info error;
    struct gemmd_result result;
    gemmd_result_init(&result, sizeof result);
    const enum gemmd_error code = gemmd_experts(client, experts, &result, &error);
    ck_assert_msg(code == GEMMD_OK, "%s", error.message);
    ck_assert_mem_eq(result.data, c, sizeof c);
    ck_assert_uint_eq(result.rank, 2);
    ck_assert_str_eq(result.kernel, "gathered");
    if (result.data != experts->c)
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
    unsigned char body[sizeof a + sizeof w + sizeof numbers + sizeof weights + sizeof bias];
    unsigned char *at = body;
    float out[4];
    struct gemmd_experts experts = experts_case();
    at = mempcpy(at, a, sizeof a);
    at = mempcpy(at, w, sizeof w);
    at = mempcpy(at, numbers, sizeof numbers);
    at = mempcpy(at, weights, sizeof weights);
    memcpy(at, bias, sizeof bias);
    experts.weights = weights;
    experts.bias = bias;
    experts.transb = 1;
    experts.out = GEMMD_F32;
    experts.precision = GEMMD_PRECISION_TF32;
    experts.act = GEMMD_ACT_SILU;
    experts.kernel = "gathered";
    experts.priority = 9;
    experts.c = out;
    experts.c_bytes = sizeof out;
    expect_request(&experts,
                   "POST /experts?m=2&n=2&k=3&count=2&topk=2&dtype=f32&out=f32&transb=1&"
                   "precision=tf32&act=silu&weights=1&bias=1&kernel=gathered&priority=9&"
                   "timeout_ms=",
                   body, sizeof body);
    ck_assert_mem_eq(out, c, sizeof c);
}
END_TEST

START_TEST(leaves_out_what_is_resident_and_what_is_default)
{
    struct gemmd_experts experts = experts_case();
    unsigned char body[sizeof a + sizeof numbers];
    memcpy(body, a, sizeof a);
    memcpy(body + sizeof a, numbers, sizeof numbers);
    experts.w = NULL;
    experts.w_tensor = "stack";
    experts.glu = 1;
    expect_request(&experts,
                   "POST /experts?m=2&n=2&k=3&count=2&topk=2&dtype=f32&glu=1&w=stack&timeout_ms=",
                   body, sizeof body);
    experts.a = NULL;
    experts.a_tensor = "rows";
    expect_request(
        &experts,
        "POST /experts?m=2&n=2&k=3&count=2&topk=2&dtype=f32&glu=1&a=rows&w=stack&timeout_ms=",
        numbers, sizeof numbers);
}
END_TEST

/* Refused before anything is sent, with the field at fault. */
START_TEST(refuses_what_is_wrong)
{
    struct gemmd_client *client = case_client("http://127.0.0.1:1", 0);
    struct gemmd_error_info error;
    float out[3];
    struct gemmd_experts cases[6];
    static const char *const fields[] = {"a", "w", "experts", "count", "c_bytes", "out"};
    for (int i = 0; i < 6; i++)
        cases[i] = experts_case();
    cases[0].a = NULL;
    cases[1].w_tensor = "stack";
    cases[2].experts = NULL;
    cases[3].count = 0;
    cases[4].c = out;
    cases[4].c_bytes = sizeof out;
    cases[5].out = GEMMD_F64;
    for (int i = 0; i < 6; i++) {
        ck_assert_ptr_null(gemmd_experts_submit(client, &cases[i], &error));
        ck_assert_int_ne(error.code, GEMMD_OK);
        ck_assert_msg(strcmp(error.field, fields[i]) == 0, "%s: %s", error.field, error.message);
    }
    gemmd_client_free(client);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_experts");
    TCase *tests = tcase_create("client_experts");
    tcase_add_test(tests, sends_every_parameter_and_the_operands_in_order);
    tcase_add_test(tests, leaves_out_what_is_resident_and_what_is_default);
    tcase_add_test(tests, refuses_what_is_wrong);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
