/*
 * libgemmd when memory runs out: every allocation of each function's way fails in turn, the
 * library's own, libcurl's and jansson's. Each time there must be a clean error or a right result,
 * nothing left allocated, and a client that works again.
 *
 * After jansson's test_chaos.c.
 */
#include <check.h>
#include <curl/curl.h>
#include <gemmd/gemmd.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "failing_calls.h"
#include "fake_http.h"
#include "product_case.h"

static struct gemmd_client *new_client(const char *url, struct gemmd_error_info *error)
{
    struct gemmd_options client_options;
    gemmd_options_init(&client_options, sizeof client_options);
    client_options.url = url;
    client_options.token = "secret";
    client_options.retries = 0;
    return gemmd_client_new(&client_options, error);
}

/* What is done with a client, and what right results are. Check allocates too, so nothing is
 * asserted in these. */
typedef enum gemmd_error (*action)(struct gemmd_client *client, float c[CASE_M * CASE_N],
                                   struct gemmd_error_info *error);

static enum gemmd_error take(enum gemmd_error code, struct gemmd_result *result,
                             float c[CASE_M * CASE_N])
{
    if (code == GEMMD_OK && result->data != NULL)
        memcpy(c, result->data, sizeof case_product);
    gemmd_free(result->data);
    return code;
}

static enum gemmd_error run_product(struct gemmd_client *client, float c[CASE_M * CASE_N],
                                    struct gemmd_error_info *error)
{
    struct gemmd_gemm gemm = case_gemm();
    struct gemmd_result result;
    gemmd_result_init(&result, sizeof result);
    return take(gemmd_gemm(client, &gemm, &result, error), &result, c);
}

/* O comes beside lse, each into memory of its own. */
static enum gemmd_error run_attention(struct gemmd_client *client, float c[CASE_M * CASE_N],
                                      struct gemmd_error_info *error)
{
    struct gemmd_attention attention;
    struct gemmd_result result;
    gemmd_attention_init(&attention, sizeof attention);
    attention.dtype = GEMMD_F32;
    attention.heads = CASE_M;
    attention.sq = 1;
    attention.d = CASE_N;
    attention.q = attention.k = attention.v = case_product;
    attention.with_lse = 1;
    gemmd_result_init(&result, sizeof result);
    enum gemmd_error code = take(gemmd_attention(client, &attention, &result, error), &result, c);
    gemmd_free(result.lse);
    return code;
}

static enum gemmd_error run_get(struct gemmd_client *client, float c[CASE_M * CASE_N],
                                struct gemmd_error_info *error)
{
    struct gemmd_result result;
    gemmd_result_init(&result, sizeof result);
    return take(gemmd_tensor_get(client, "w", NULL, &result, error), &result, c);
}

static enum gemmd_error run_put(struct gemmd_client *client, float c[CASE_M * CASE_N],
                                struct gemmd_error_info *error)
{
    struct gemmd_tensor_put put;
    gemmd_tensor_put_init(&put, sizeof put);
    put.name = "w";
    put.rank = 2;
    put.dims[0] = CASE_M;
    put.dims[1] = CASE_N;
    put.data = case_product;
    memcpy(c, case_product, sizeof case_product);
    return gemmd_tensor_put(client, &put, NULL, error);
}

static enum gemmd_error run_status(struct gemmd_client *client, float c[CASE_M * CASE_N],
                                   struct gemmd_error_info *error)
{
    struct gemmd_job job = {.size = sizeof job};
    memcpy(c, case_product, sizeof case_product);
    return gemmd_job_status(client, "1", NULL, &job, error);
}

static void count_tensor(const struct gemmd_tensor *tensor, void *user)
{
    (void)tensor;
    ++*(int *)user;
}

static enum gemmd_error run_list(struct gemmd_client *client, float c[CASE_M * CASE_N],
                                 struct gemmd_error_info *error)
{
    int count = 0;
    enum gemmd_error code = gemmd_tensor_list(client, count_tensor, &count, error);
    /* All of them, or an error and none. */
    if (count == (code == GEMMD_OK ? 2 : 0))
        memcpy(c, case_product, sizeof case_product);
    return code;
}

static enum gemmd_error run_unchanged(struct gemmd_client *client, float c[CASE_M * CASE_N],
                                      struct gemmd_error_info *error)
{
    struct gemmd_result result;
    gemmd_result_init(&result, sizeof result);
    memcpy(c, case_product, sizeof case_product);
    return gemmd_tensor_stat(client, "w", NULL, &result, error);
}

static enum gemmd_error run_delete(struct gemmd_client *client, float c[CASE_M * CASE_N],
                                   struct gemmd_error_info *error)
{
    memcpy(c, case_product, sizeof case_product);
    return gemmd_tensor_delete(client, "w", NULL, error);
}

/* A text is whole, or there is none. */
static enum gemmd_error run_text(struct gemmd_client *client, float c[CASE_M * CASE_N],
                                 struct gemmd_error_info *error)
{
    char *text = NULL;
    const enum gemmd_error code = gemmd_info(client, &text, error);
    if (code == GEMMD_OK ? text != NULL && strcmp(text, "{}") == 0 : text == NULL)
        memcpy(c, case_product, sizeof case_product);
    gemmd_free(text);
    return code;
}

static enum gemmd_error run_ready(struct gemmd_client *client, float c[CASE_M * CASE_N],
                                  struct gemmd_error_info *error)
{
    char *text = NULL;
    const enum gemmd_error code = gemmd_ready(client, &text, error);
    memcpy(c, case_product, sizeof case_product);
    gemmd_free(text);
    return code;
}

static enum gemmd_error run_job(struct gemmd_client *client, float c[CASE_M * CASE_N],
                                struct gemmd_error_info *error)
{
    struct gemmd_gemm gemm = case_gemm();
    struct gemmd_result result;
    gemm.job = 1;
    gemmd_result_init(&result, sizeof result);
    const enum gemmd_error code = gemmd_gemm(client, &gemm, &result, error);
    if (code != GEMMD_OK || strcmp(result.job, "1") == 0)
        memcpy(c, case_product, sizeof case_product);
    gemmd_free(result.data);
    return code;
}

static enum gemmd_error run_wait(struct gemmd_client *client, float c[CASE_M * CASE_N],
                                 struct gemmd_error_info *error)
{
    struct gemmd_result result;
    gemmd_result_init(&result, sizeof result);
    memcpy(c, case_product, sizeof case_product);
    return gemmd_job_wait(client, "1", NULL, &result, error);
}

static enum gemmd_error run_result(struct gemmd_client *client, float c[CASE_M * CASE_N],
                                   struct gemmd_error_info *error)
{
    struct gemmd_result result;
    gemmd_result_init(&result, sizeof result);
    return take(gemmd_job_result(client, "1", NULL, &result, error), &result, c);
}

static enum gemmd_error run_cancel(struct gemmd_client *client, float c[CASE_M * CASE_N],
                                   struct gemmd_error_info *error)
{
    memcpy(c, case_product, sizeof case_product);
    return gemmd_job_cancel(client, "1", NULL, error);
}

static void count_job(const struct gemmd_job *job, void *user)
{
    (void)job;
    ++*(int *)user;
}

static enum gemmd_error run_jobs(struct gemmd_client *client, float c[CASE_M * CASE_N],
                                 struct gemmd_error_info *error)
{
    int count = 0;
    const enum gemmd_error code = gemmd_job_list(client, count_job, &count, error);
    if (count == (code == GEMMD_OK ? 2 : 0))
        memcpy(c, case_product, sizeof case_product);
    return code;
}

/* Three products in flight at once, of which one is cancelled and one is released before its end.
 * What the others' failures are is not told apart: the first counts. */
static enum gemmd_error run_submitted(struct gemmd_client *client, float c[CASE_M * CASE_N],
                                      struct gemmd_error_info *error)
{
    const struct gemmd_gemm gemm = case_gemm();
    struct gemmd_result result;
    struct gemmd_request *requests[3] = {NULL};
    enum gemmd_error code = GEMMD_OK;
    for (int i = 0; i < 3 && code == GEMMD_OK; i++) {
        requests[i] = gemmd_gemm_submit(client, &gemm, error);
        code = requests[i] != NULL ? GEMMD_OK : error->code;
    }
    if (code == GEMMD_OK) {
        gemmd_cancel(requests[1]);
        gemmd_request_free(requests[2]);
        requests[2] = NULL;
        (void)gemmd_wait(requests[0], -1);
        gemmd_result_init(&result, sizeof result);
        code = take(gemmd_request_result(requests[0], &result, error), &result, c);
    }
    for (int i = 0; i < 3; i++)
        gemmd_request_free(requests[i]);
    return code;
}

/* A product whose operands and result lie in the library's shared memory, over a connection that
 * cannot share memory. */
static enum gemmd_error run_shared(struct gemmd_client *client, float c[CASE_M * CASE_N],
                                   struct gemmd_error_info *error)
{
    struct gemmd_gemm gemm = case_gemm();
    float *to = gemmd_memory_alloc(client, CASE_C_BYTES, error);
    if (to == NULL)
        return error->code;
    gemm.c = to;
    gemm.c_bytes = CASE_C_BYTES;
    const enum gemmd_error code = gemmd_gemm(client, &gemm, NULL, error);
    if (code == GEMMD_OK)
        memcpy(c, to, sizeof case_product);
    gemmd_memory_free(client, to);
    return code;
}

static enum gemmd_error run_watched(struct gemmd_client *client, float c[CASE_M * CASE_N],
                                    struct gemmd_error_info *error)
{
    (void)gemmd_fd(client);
    return run_product(client, c, error);
}

/* Runs with the 1st, 2nd, 3rd ... allocation failing until one run has none that failed. Returns
 * how many there are. */
static long fail_each(const char *url, action run, enum gemmd_error right)
{
    long number = 0;
    bool failed;
    do {
        struct gemmd_error_info error = {.message = ""};
        float c[CASE_M * CASE_N] = {0};
        const long live_before = calls_live_blocks();
        calls_fail(++number);
        struct gemmd_client *client = new_client(url, &error);
        enum gemmd_error code = client != NULL ? run(client, c, &error) : error.code;
        gemmd_client_free(client);
        failed = calls_end();
        ck_assert_msg(calls_live_blocks() == live_before, "allocation %ld: %ld blocks are left",
                      number, calls_live_blocks() - live_before);
        ck_assert_int_eq(error.code, code);
        if (code == GEMMD_OK)
            ck_assert_mem_eq(c, case_product, sizeof case_product);
        else
            ck_assert_msg(error.message[0] != '\0', "allocation %ld: no sentence", number);
        if (!failed)
            ck_assert_msg(code == right, "%s", error.message);
    } while (failed);
    return number;
}

START_TEST(every_allocation_of_a_product_fails)
{
    char head[FAKE_HEAD_MAX];
    const struct fake_act act = case_act(head);
    struct fake_server *server = fake_start(&act, 1);
    ck_assert_int_gt(fail_each(fake_url(server), run_product, GEMMD_OK), 20);
    fake_stop(server);
    fake_free(server);
}
END_TEST

START_TEST(every_allocation_of_a_refusal_fails)
{
    static const char problem[] = "{\"type\":\"x/unsupported\",\"detail\":\"d\",\"field\":\"m\"}";
    const struct fake_act act = {.head = "HTTP/1.1 422 Unprocessable\r\nConnection: close\r\n"
                                         "Content-Type: application/problem+json",
                                 .payload = problem,
                                 .payload_bytes = sizeof problem - 1,
                                 .take_bytes = FAKE_ALL,
                                 .then = FAKE_CLOSE};
    struct fake_server *server = fake_start(&act, 1);
    ck_assert_int_gt(fail_each(fake_url(server), run_product, GEMMD_ERR_UNSUPPORTED), 20);
    fake_stop(server);
    fake_free(server);
}
END_TEST

static const char list[] = "{\"tensors\":[{\"name\":\"a\",\"dtype\":\"f32\",\"shape\":[1]},"
                           "{\"name\":\"b\",\"dtype\":\"f32\",\"shape\":[2]}],\"next\":null}";
static const char jobs[] = "{\"jobs\":[{\"id\":\"1\",\"state\":\"done\"},"
                           "{\"id\":\"2\",\"state\":\"queued\"}],\"next\":null}";
static const char status[] = "{\"id\":\"1\",\"state\":\"done\"}";

/* A safetensors file: length, header, lse [1,2,1], o [1,2,1,3]. */
static const struct {
    uint64_t length;
    char header[128];
    float lse[CASE_M], o[CASE_M * CASE_N];
} file = {
    .length = sizeof file.header,
    .header = "{\"lse\":{\"dtype\":\"F32\",\"shape\":[1,2,1],\"data_offsets\":[0,8]},"
              "\"o\":{\"dtype\":\"F32\",\"shape\":[1,2,1,3],\"data_offsets\":[8,32]}}"
              "        ",
    .o = {0.5f, 1.5f, 2.5f, 3.5f, 4.5f, 5.5f},
};

static const struct {
    action run;
    const char *head;
    const void *payload;
    size_t payload_bytes;
} others[] = {
    {run_put, "HTTP/1.1 201 Created\r\nContent-Length: 2", "{}", 2},
    {run_get, "HTTP/1.1 200 OK\r\nContent-Length: 24\r\nGemmd-Shape: 2,3\r\nGemmd-Dtype: f32",
     case_product, sizeof case_product},
    {run_attention,
     "HTTP/1.1 200 OK\r\nContent-Length: 168\r\nContent-Type: application/vnd.safetensors\r\n"
     "Gemmd-Shape: 1,2,1,3\r\nGemmd-Dtype: f32",
     &file, sizeof file},
    {run_status, "HTTP/1.1 200 OK\r\nConnection: close", status, sizeof status - 1},
    {run_list, "HTTP/1.1 200 OK\r\nConnection: close", list, sizeof list - 1},
    {run_unchanged,
     "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nGemmd-Shape: 2,3\r\nGemmd-Dtype: f32\r\n"
     "ETag: \"1\"",
     "", 0},
    {run_delete, "HTTP/1.1 204 No Content", "", 0},
    {run_text, "HTTP/1.1 200 OK\r\nContent-Length: 2", "{}", 2},
    {run_ready, "HTTP/1.1 200 OK\r\nContent-Length: 2", "{}", 2},
    {run_job, "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nLocation: /jobs/1", "", 0},
    {run_wait, "HTTP/1.1 200 OK\r\nContent-Length: 24\r\nGemmd-Shape: 2,3\r\nGemmd-Dtype: f32", "",
     0},
    {run_result, "HTTP/1.1 200 OK\r\nContent-Length: 24\r\nGemmd-Shape: 2,3\r\nGemmd-Dtype: f32",
     case_product, sizeof case_product},
    {run_cancel, "HTTP/1.1 204 No Content", "", 0},
    {run_jobs, "HTTP/1.1 200 OK\r\nConnection: close", jobs, sizeof jobs - 1},
    {run_submitted, "HTTP/1.1 200 OK\r\nContent-Length: 24\r\nGemmd-Shape: 2,3\r\nGemmd-Dtype: f32",
     case_product, sizeof case_product},
    {run_shared, "HTTP/1.1 200 OK\r\nContent-Length: 24\r\nGemmd-Shape: 2,3\r\nGemmd-Dtype: f32",
     case_product, sizeof case_product},
    {run_watched, "HTTP/1.1 200 OK\r\nContent-Length: 24\r\nGemmd-Shape: 2,3\r\nGemmd-Dtype: f32",
     case_product, sizeof case_product},
};

START_TEST(every_allocation_of_other_requests_fails)
{
    const struct fake_act act = {.head = others[_i].head,
                                 .payload = others[_i].payload,
                                 .payload_bytes = others[_i].payload_bytes,
                                 .take_bytes = FAKE_ALL,
                                 .then = strstr(others[_i].head, "close") != NULL ? FAKE_CLOSE
                                                                                  : FAKE_KEEP};
    struct fake_server *server = fake_start(&act, 1);
    ck_assert_int_gt(fail_each(fake_url(server), others[_i].run, GEMMD_OK), 20);
    fake_stop(server);
    fake_free(server);
}
END_TEST

int main(void)
{
    /* Before the library does; libcurl keeps the first functions it is given. */
    if (curl_global_init_mem(CURL_GLOBAL_DEFAULT, malloc, free, realloc, strdup, calloc) !=
        CURLE_OK)
        return EXIT_FAILURE;
    json_set_alloc_funcs(malloc, free);
    Suite *suite = suite_create("client_memory");
    TCase *tcase = tcase_create("client_memory");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, every_allocation_of_a_product_fails);
    tcase_add_test(tcase, every_allocation_of_a_refusal_fails);
    tcase_add_loop_test(tcase, every_allocation_of_other_requests_fails, 0,
                        sizeof others / sizeof others[0]);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
