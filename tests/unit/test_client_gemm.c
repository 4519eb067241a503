/* A product through libgemmd: what is sent, what is made of right and wrong answers. */
#include <check.h>
#include <gemmd/gemmd.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_http.h"
#include "product_case.h"

enum { M = CASE_M, N = CASE_N, K = CASE_K, C_BYTES = CASE_C_BYTES };

/* One product against one act. */
static enum gemmd_error run_gemm(const struct fake_act *act, const struct gemmd_gemm *gemm,
                                 struct gemmd_result *result, struct gemmd_error_info *error)
{
    struct fake_server *server = fake_start(act, 1);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    enum gemmd_error code = gemmd_gemm(client, gemm, result, error);
    gemmd_client_free(client);
    fake_stop(server);
    fake_free(server);
    return code;
}

static enum gemmd_error run_head(const char *head, struct gemmd_error_info *error)
{
    struct fake_act act = {.head = head,
                           .payload = case_product,
                           .payload_bytes = sizeof case_product,
                           .take_bytes = FAKE_ALL,
                           .then = FAKE_CLOSE};
    struct gemmd_gemm gemm = case_gemm();
    struct gemmd_result result;
    gemmd_result_init(&result, sizeof result);
    enum gemmd_error code = run_gemm(&act, &gemm, &result, error);
    if (code == GEMMD_OK)
        gemmd_free(result.data);
    return code;
}

START_TEST(sends_operands_in_order_and_takes_the_result)
{
    char head[FAKE_HEAD_MAX];
    struct fake_act act = {.head = fake_gemm_head(head, M, N, "f32", C_BYTES),
                           .payload = case_product,
                           .payload_bytes = sizeof case_product,
                           .take_bytes = FAKE_ALL};
    struct fake_server *server = fake_start(&act, 1);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    struct gemmd_gemm gemm = case_gemm();
    struct gemmd_error_info error;
    struct gemmd_result result;
    float c[M * N];
    gemm.c = c;
    gemm.c_bytes = sizeof c;
    gemm.bias = case_bias;
    gemm.c0 = case_c0;
    gemm.alpha = 0.5;
    gemm.beta = -2;
    gemm.transb = 1;
    gemm.act = GEMMD_ACT_GELU_TANH;
    gemm.precision = GEMMD_PRECISION_TF32;
    gemm.kernel = "tiled";
    gemm.priority = 7;
    gemm.request_id = "mine";
    gemm.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    gemmd_result_init(&result, sizeof result);
    enum gemmd_error code = gemmd_gemm(client, &gemm, &result, &error);
    ck_assert_msg(code == GEMMD_OK, "%s", error.message);
    ck_assert_int_eq(error.code, GEMMD_OK);
    ck_assert_mem_eq(c, case_product, sizeof case_product);
    ck_assert_ptr_eq(result.data, c);
    ck_assert_uint_eq(result.bytes, C_BYTES);
    ck_assert_uint_eq(result.rank, 2);
    ck_assert_uint_eq(result.dims[0], M);
    ck_assert_uint_eq(result.dims[1], N);
    ck_assert_int_eq(result.dtype, GEMMD_F32);
    ck_assert_str_eq(result.kernel, "naive");
    ck_assert_str_eq(result.request_id, "from-the-server");
    ck_assert_uint_eq(result.batch, 3);
    ck_assert_uint_eq(result.attempts, 1);
    ck_assert_double_eq(result.timing.kernel, 2);
    ck_assert_double_eq(result.timing.total, 3.5);
    gemmd_client_free(client);
    fake_stop(server);

    const struct fake_request *request = fake_request(server, 0);
    const char *line = "POST /gemm?m=2&n=3&k=4&dtype=f32&precision=tf32&transb=1&alpha=0.5&beta=-2"
                       "&bias=1&act=gelu_tanh&kernel=tiled&priority=7&timeout_ms=";
    ck_assert_msg(strncmp(request->head, line, strlen(line)) == 0, "%s", request->head);
    ck_assert_ptr_nonnull(strstr(request->head, "\r\nAuthorization: Bearer secret\r\n"));
    ck_assert_ptr_nonnull(strstr(request->head, "\r\nX-Request-Id: mine\r\n"));
    ck_assert_ptr_nonnull(strstr(request->head,
                                 "\r\ntraceparent: 00-0af7651916cd43dd8448eb211c80319c-"
                                 "b7ad6b7169203331-01\r\n"));
    ck_assert_ptr_nonnull(strstr(request->head, "\r\nContent-Type: application/octet-stream\r\n"));
    ck_assert_ptr_null(strstr(request->head, "Expect"));
    ck_assert_uint_eq(request->body_bytes,
                      sizeof case_a + sizeof case_b + sizeof case_bias + sizeof case_c0);
    const unsigned char *at = request->body;
    ck_assert_mem_eq(at, case_a, sizeof case_a);
    ck_assert_mem_eq(at + sizeof case_a, case_b, sizeof case_b);
    ck_assert_mem_eq(at + sizeof case_a + sizeof case_b, case_bias, sizeof case_bias);
    ck_assert_mem_eq(at + sizeof case_a + sizeof case_b + sizeof case_bias, case_c0,
                     sizeof case_c0);
    fake_free(server);
}
END_TEST

START_TEST(allocates_a_result)
{
    char head[FAKE_HEAD_MAX];
    struct fake_act act = {.head = fake_gemm_head(head, M, N, "f32", C_BYTES),
                           .payload = case_product,
                           .payload_bytes = sizeof case_product,
                           .take_bytes = FAKE_ALL};
    struct gemmd_gemm gemm = case_gemm();
    struct gemmd_error_info error;
    struct gemmd_result result;
    gemmd_result_init(&result, sizeof result);
    ck_assert_int_eq(run_gemm(&act, &gemm, &result, &error), GEMMD_OK);
    ck_assert_ptr_nonnull(result.data);
    ck_assert_mem_eq(result.data, case_product, sizeof case_product);
    gemmd_free(result.data);
}
END_TEST

START_TEST(keeps_connections_alive)
{
    char head[FAKE_HEAD_MAX];
    struct fake_act act = {.head = fake_gemm_head(head, M, N, "f32", C_BYTES),
                           .payload = case_product,
                           .payload_bytes = sizeof case_product,
                           .take_bytes = FAKE_ALL};
    struct fake_server *server = fake_start(&act, 1);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    struct gemmd_gemm gemm = case_gemm();
    struct gemmd_error_info error;
    float c[M * N];
    gemm.c = c;
    gemm.c_bytes = sizeof c;
    for (int i = 0; i < 5; i++)
        ck_assert_msg(gemmd_gemm(client, &gemm, NULL, &error) == GEMMD_OK, "%s", error.message);
    gemmd_client_free(client);
    fake_stop(server);
    ck_assert_uint_eq(fake_request_count(server), 5);
    ck_assert_uint_eq(fake_request(server, 4)->connection, 0);
    fake_free(server);
}
END_TEST

START_TEST(reads_problem_documents)
{
    const char *problem =
        "{\"type\":\"https://gemmd.example/problems/unsupported\",\"title\":\"x\","
        "\"status\":422,\"detail\":\"f64 is not for this device\","
        "\"field\":\"dtype\",\"error\":\"y\"}";
    char head[256];
    struct fake_act act = {
        .head = head, .payload = problem, .payload_bytes = strlen(problem), .take_bytes = FAKE_ALL};
    struct gemmd_gemm gemm = case_gemm();
    struct gemmd_result result;
    struct gemmd_error_info error;
    gemmd_result_init(&result, sizeof result);
    snprintf(head, sizeof head,
             "HTTP/1.1 422 Unprocessable\r\nContent-Type: application/problem+json\r\n"
             "Content-Length: %zu\r\nX-Request-Id: r-1",
             strlen(problem));
    ck_assert_int_eq(run_gemm(&act, &gemm, &result, &error), GEMMD_ERR_UNSUPPORTED);
    ck_assert_int_eq(error.code, GEMMD_ERR_UNSUPPORTED);
    ck_assert_int_eq(error.http_status, 422);
    ck_assert_int_eq(error.retriable, 0);
    ck_assert_uint_eq(error.attempts, 1);
    ck_assert_str_eq(error.message, "f64 is not for this device");
    ck_assert_str_eq(error.field, "dtype");
    ck_assert_str_eq(error.request_id, "r-1");
}
END_TEST

/* A right head, with one line of it replaced. */
static const struct {
    const char *line, *with, *says;
} wrong_heads[] = {
    {"Gemmd-Shape: 2,3", "Gemmd-Shape: 3,2", "Gemmd-Shape"},
    {"Gemmd-Shape: 2,3", "Gemmd-Shape: 2,3,1", "Gemmd-Shape"},
    {"Gemmd-Shape: 2,3", "X-Nothing: here", "Gemmd-Shape"},
    {"Gemmd-Dtype: f32", "Gemmd-Dtype: f64", "Gemmd-Dtype"},
    {"Gemmd-Dtype: f32", "Gemmd-Dtype: f99", "Gemmd-Dtype"},
    {"Content-Length: 24", "Content-Length: 20", "20 bytes"},
    {"Content-Length: 24", "Content-Length: 28", "28 bytes"},
    {"Gemmd-Batch: 3", "Content-Encoding: gzip", "compressed"},
    {"HTTP/1.1 200 OK", "HTTP/1.1 204 No Content", "204"},
    {"HTTP/1.1 200 OK", "HTTP/1.1 302 Found", "302"},
};

START_TEST(refuses_an_answer_that_is_not_the_result)
{
    char head[FAKE_HEAD_MAX], wrong[FAKE_HEAD_MAX * 2];
    struct gemmd_error_info error;
    fake_gemm_head(head, M, N, "f32", C_BYTES);
    const char *at = strstr(head, wrong_heads[_i].line);
    ck_assert_ptr_nonnull(at);
    snprintf(wrong, sizeof wrong, "%.*s%s%s", (int)(at - head), head, wrong_heads[_i].with,
             at + strlen(wrong_heads[_i].line));
    ck_assert_int_eq(run_head(wrong, &error), GEMMD_ERR_PROTOCOL);
    ck_assert_msg(strstr(error.message, wrong_heads[_i].says) != NULL, "%s", error.message);
}
END_TEST

/* Without a length, the result's own decides; and nothing is written past it. */
START_TEST(refuses_a_body_of_another_length)
{
    struct gemmd_error_info error;
    const char *head = "HTTP/1.1 200 OK\r\nGemmd-Shape: 2,3\r\nGemmd-Dtype: f32";
    unsigned char bytes[C_BYTES + 1] = {0};
    struct {
        unsigned char c[C_BYTES], after[8];
    } room;
    const size_t sent = C_BYTES - 1 + (size_t)_i;
    struct fake_act act = {.head = head,
                           .payload = bytes,
                           .payload_bytes = sent,
                           .take_bytes = FAKE_ALL,
                           .then = FAKE_CLOSE};
    struct gemmd_gemm gemm = case_gemm();
    memset(&room, 0xee, sizeof room);
    gemm.c = room.c;
    gemm.c_bytes = C_BYTES;
    enum gemmd_error code = run_gemm(&act, &gemm, NULL, &error);
    ck_assert_msg(code == (sent == C_BYTES ? GEMMD_OK : GEMMD_ERR_PROTOCOL), "%s", error.message);
    for (size_t i = 0; i < sizeof room.after; i++)
        ck_assert_uint_eq(room.after[i], 0xee);
}
END_TEST

START_TEST(wants_a_verified_result_if_it_asked_for_one)
{
    char head[FAKE_HEAD_MAX], verified[FAKE_HEAD_MAX * 2];
    fake_gemm_head(head, M, N, "f32", C_BYTES);
    snprintf(verified, sizeof verified, "%s\r\nGemmd-Verify: pass; residual=0.125", head);
    struct fake_act plain = {.head = head,
                             .payload = case_product,
                             .payload_bytes = sizeof case_product,
                             .take_bytes = FAKE_ALL};
    struct fake_act passed = plain;
    passed.head = verified;
    struct gemmd_gemm gemm = case_gemm();
    struct gemmd_result result;
    struct gemmd_error_info error;
    gemm.verify = GEMMD_VERIFY_FREIVALDS;
    gemmd_result_init(&result, sizeof result);
    ck_assert_int_eq(run_gemm(&plain, &gemm, &result, &error), GEMMD_ERR_PROTOCOL);
    ck_assert_int_eq(run_gemm(&passed, &gemm, &result, &error), GEMMD_OK);
    ck_assert_int_eq(result.verified, 1);
    ck_assert_double_eq(result.residual, 0.125);
    gemmd_free(result.data);
}
END_TEST

START_TEST(does_not_speak_with_what_is_no_http_server)
{
    struct gemmd_error_info error;
    ck_assert_int_eq(run_head("SSH-2.0-OpenSSH", &error), GEMMD_ERR_PROTOCOL);
}
END_TEST

static void break_m(struct gemmd_gemm *gemm)
{
    gemm->m = 0;
}
static void break_k(struct gemmd_gemm *gemm)
{
    gemm->k = UINT64_C(1) << 31;
}
static void break_size(struct gemmd_gemm *gemm)
{
    gemm->m = gemm->n = gemm->k = gemm->batch = INT32_MAX;
}
static void break_dtype(struct gemmd_gemm *gemm)
{
    gemm->dtype = GEMMD_DTYPE_COUNT;
}
static void break_out(struct gemmd_gemm *gemm)
{
    gemm->out = GEMMD_I32;
}
static void break_act(struct gemmd_gemm *gemm)
{
    gemm->act = (enum gemmd_act)99;
}
static void break_transa(struct gemmd_gemm *gemm)
{
    gemm->transa = 2;
}
static void break_alpha(struct gemmd_gemm *gemm)
{
    gemm->alpha = strtod("nan", NULL);
}
static void break_beta(struct gemmd_gemm *gemm)
{
    gemm->beta = 1;
}
static void break_kernel(struct gemmd_gemm *gemm)
{
    gemm->kernel = "tiled&m=1";
}
static void break_traceparent(struct gemmd_gemm *gemm)
{
    gemm->traceparent = "00-00000000000000000000000000000000-b7ad6b7169203331-01";
}

static void break_request_id(struct gemmd_gemm *gemm)
{
    gemm->request_id = "two\r\nlines";
}
static void break_long_request_id(struct gemmd_gemm *gemm)
{
    static char id[512];
    memset(id, 'x', sizeof id - 1);
    gemm->request_id = id;
}
static void break_control_request_id(struct gemmd_gemm *gemm)
{
    gemm->request_id = "delete\x7f";
}
static void break_no_scale(struct gemmd_gemm *gemm)
{
    gemm->dtype = GEMMD_F8_E4M3;
    gemm->scales = GEMMD_SCALES_ROWCOL;
}
static void break_scale(struct gemmd_gemm *gemm)
{
    gemm->b_scale = case_bias;
}
static void break_a(struct gemmd_gemm *gemm)
{
    gemm->a = NULL;
}
static void break_c_bytes(struct gemmd_gemm *gemm)
{
    static float room[M * N];
    gemm->c = room;
    gemm->c_bytes = C_BYTES - 1;
}
static void break_record(struct gemmd_gemm *gemm)
{
    gemm->size = 8;
}

static const struct {
    void (*apply)(struct gemmd_gemm *gemm);
    const char *field;
} breaks[] = {
    {break_m, "m"},
    {break_k, "k"},
    {break_size, "m"},
    {break_dtype, "dtype"},
    {break_out, "out"},
    {break_act, "act"},
    {break_transa, "transa"},
    {break_alpha, "alpha"},
    {break_beta, "c0"},
    {break_kernel, "kernel"},
    {break_a, "a"},
    {break_request_id, "request_id"},
    {break_long_request_id, "request_id"},
    {break_control_request_id, "request_id"},
    {break_no_scale, "a_scale"},
    {break_scale, "b_scale"},
    {break_traceparent, "traceparent"},
    {break_record, "size"},
    {break_c_bytes, "c_bytes"},
};

START_TEST(refuses_bad_arguments_before_sending)
{
    struct gemmd_gemm gemm = case_gemm();
    struct gemmd_error_info error;
    struct gemmd_options options;
    gemmd_options_init(&options, sizeof options);
    options.url = "unix:/nowhere";
    struct gemmd_client *client = gemmd_client_new(&options, NULL);
    ck_assert_ptr_nonnull(client);
    breaks[_i].apply(&gemm);
    ck_assert_ptr_null(gemmd_gemm_submit(client, &gemm, &error));
    const bool is_unsupported = breaks[_i].apply == break_out;
    ck_assert_int_eq(error.code, is_unsupported ? GEMMD_ERR_UNSUPPORTED : GEMMD_ERR_USAGE);
    ck_assert_int_eq(error.http_status, 0);
    ck_assert_str_eq(error.field, breaks[_i].field);
    ck_assert_uint_gt(strlen(error.message), 10);
    ck_assert_uint_eq(gemmd_in_flight(client), 0);
    gemmd_client_free(client);
}
END_TEST

START_TEST(refuses_residents_that_contradict)
{
    struct gemmd_client *client = case_client("http://127.0.0.1:1", 0);
    struct gemmd_error_info error;
    struct gemmd_gemm gemm = case_gemm();
    gemm.a_tensor = "x";
    ck_assert_ptr_null(gemmd_gemm_submit(client, &gemm, &error));
    ck_assert_str_eq(error.field, "a");
    gemm = case_gemm();
    gemm.b_tensor = "x";
    ck_assert_ptr_null(gemmd_gemm_submit(client, &gemm, &error));
    ck_assert_str_eq(error.field, "b");
    gemm = case_gemm();
    gemm.b = NULL;
    gemm.b_tensor = "a b";
    ck_assert_ptr_null(gemmd_gemm_submit(client, &gemm, &error));
    ck_assert_str_eq(error.field, "b");
    gemm = case_gemm();
    gemm.store = "";
    ck_assert_ptr_null(gemmd_gemm_submit(client, &gemm, &error));
    ck_assert_str_eq(error.field, "store");
    gemmd_client_free(client);
}
END_TEST

/* A program that was compiled before there were residents. */
START_TEST(takes_products_without_the_later_members)
{
    char head[FAKE_HEAD_MAX];
    const struct fake_act act = case_act(head);
    struct gemmd_gemm gemm;
    struct gemmd_result result;
    float c[M * N];
    memset(&gemm, 0xff, sizeof gemm);
    gemmd_gemm_init(&gemm, offsetof(struct gemmd_gemm, a_tensor));
    gemm.m = M;
    gemm.n = N;
    gemm.k = K;
    gemm.a = case_a;
    gemm.b = case_b;
    gemm.c = c;
    gemm.c_bytes = sizeof c;
    memset(&result, 0xff, sizeof result);
    gemmd_result_init(&result, offsetof(struct gemmd_result, job));
    ck_assert_int_eq(run_gemm(&act, &gemm, &result, NULL), GEMMD_OK);
    ck_assert_uint_eq((unsigned char)result.job[0], 0xff);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_gemm");
    TCase *tcase = tcase_create("client_gemm");
    tcase_add_test(tcase, sends_operands_in_order_and_takes_the_result);
    tcase_add_test(tcase, allocates_a_result);
    tcase_add_test(tcase, keeps_connections_alive);
    tcase_add_test(tcase, reads_problem_documents);
    tcase_add_loop_test(tcase, refuses_an_answer_that_is_not_the_result, 0,
                        sizeof wrong_heads / sizeof wrong_heads[0]);
    tcase_add_loop_test(tcase, refuses_a_body_of_another_length, 0, 3);
    tcase_add_test(tcase, wants_a_verified_result_if_it_asked_for_one);
    tcase_add_test(tcase, does_not_speak_with_what_is_no_http_server);
    tcase_add_test(tcase, refuses_residents_that_contradict);
    tcase_add_test(tcase, takes_products_without_the_later_members);
    tcase_add_loop_test(tcase, refuses_bad_arguments_before_sending, 0,
                        sizeof breaks / sizeof breaks[0]);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
