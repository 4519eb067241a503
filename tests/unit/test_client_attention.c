/* An attention through libgemmd: what is sent, and what is made of answers with and without lse. */
#include <check.h>
#include <gemmd/gemmd.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/payload.h"
#include "fake_http.h"
#include "product_case.h"

/* 2 entries, 2 heads of Q on one of K and V, 1 query, 3 keys, heads of 2 and 1. */
enum { BATCH = 2, HEADS = 2, SKV = 3, D = 2, DV = 1, ROWS = BATCH * HEADS };

static const float q[ROWS * D] = {1, 2, 3, 4, 5, 6, 7, 8};
static const float k[BATCH * SKV * D] = {9, 10, 11};
static const float v[BATCH * SKV * DV] = {20, 21};
static const int32_t lens_q[BATCH] = {1, 0}, lens_kv[BATCH] = {3, 2};
static const float slopes[HEADS] = {0.5f, 0.25f}, sinks[HEADS] = {1, -1};
/* What the fake server answers. */
static const float o[ROWS * DV] = {0.5f, 1.5f, 2.5f, 3.5f}, lse[ROWS] = {-1, -2, -3, -4};

static struct gemmd_attention attention_case(void)
{
    struct gemmd_attention attention;
    gemmd_attention_init(&attention, sizeof attention);
    attention.batch = BATCH;
    attention.heads = HEADS;
    attention.kv_heads = 1;
    attention.sq = 1;
    attention.skv = SKV;
    attention.d = D;
    attention.dv = DV;
    attention.dtype = GEMMD_F32;
    attention.q = q;
    attention.k = k;
    attention.v = v;
    return attention;
}

#define SHAPE "Gemmd-Shape: 2,2,1,1\r\nGemmd-Dtype: f32\r\nGemmd-Kernel: tiled"

static const char plain_head[] = "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
                                 "Content-Length: 16\r\n" SHAPE;

#define LSE "\"lse\":{\"dtype\":\"F32\",\"shape\":[2,2,1],\"data_offsets\":[0,16]}"
#define O "\"o\":{\"dtype\":\"F32\",\"shape\":[2,2,1,1],\"data_offsets\":[16,32]}"

/* A safetensors file of that header, and the tensors lse and o; returns its length. */
static size_t write_file(const char *header, unsigned char out[512])
{
    const uint64_t length = strlen(header);
    memcpy(out, &length, 8);
    memcpy(out + 8, header, length);
    memcpy(out + 8 + length, lse, sizeof lse);
    memcpy(out + 8 + length + sizeof lse, o, sizeof o);
    return 8 + length + sizeof lse + sizeof o;
}

struct file_answer {
    unsigned char file[512];
    char head[FAKE_HEAD_MAX];
    struct fake_act act;
};

/* Such a file without its last `cut` bytes, and the act that answers it. */
static void answer_file(struct file_answer *answer, const char *header, size_t cut)
{
    const size_t bytes = write_file(header, answer->file) - cut;
    snprintf(answer->head, sizeof answer->head,
             "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.safetensors\r\n"
             "Content-Length: %zu\r\n" SHAPE,
             bytes);
    answer->act = (struct fake_act){.head = answer->head,
                                    .payload = answer->file,
                                    .payload_bytes = bytes,
                                    .take_bytes = FAKE_ALL};
}

/* One attention against one act; `seen` gets what was requested. */
static enum gemmd_error run(const struct fake_act *act, const struct gemmd_attention *attention,
                            struct gemmd_result *result, struct gemmd_error_info *error,
                            struct fake_request *seen)
{
    struct fake_server *server = fake_start(act, 1);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    enum gemmd_error code = gemmd_attention(client, attention, result, error);
    gemmd_client_free(client);
    fake_stop(server);
    if (seen != NULL) {
        *seen = *fake_request(server, 0);
        seen->body = malloc(seen->body_bytes + 1);
        ck_assert_ptr_nonnull(seen->body);
        memcpy(seen->body, fake_request(server, 0)->body, seen->body_bytes);
    }
    fake_free(server);
    return code;
}

START_TEST(sends_every_parameter_and_the_operands_in_order)
{
    const struct fake_act act = {
        .head = "HTTP/1.1 200 OK\r\nContent-Length: 16\r\nGemmd-Shape: 2,1,2,1\r\n"
                "Gemmd-Dtype: f32\r\nGemmd-Kernel: tiled",
        .payload = o,
        .payload_bytes = sizeof o,
        .take_bytes = FAKE_ALL};
    struct gemmd_attention attention = attention_case();
    struct gemmd_error_info error;
    struct gemmd_result result;
    struct fake_request seen;
    float out[ROWS * DV];
    attention.layout = GEMMD_LAYOUT_BSHD;
    attention.causal = 1;
    attention.window = 0;
    attention.window_right = 7;
    attention.scale = -0.5;
    attention.softcap = 30;
    attention.lens_q = lens_q;
    attention.lens_kv = lens_kv;
    attention.slopes = slopes;
    attention.sinks = sinks;
    attention.kernel = "tiled";
    attention.priority = 9;
    attention.request_id = "mine";
    attention.o = out;
    attention.o_bytes = sizeof out;
    gemmd_result_init(&result, sizeof result);
    enum gemmd_error code = run(&act, &attention, &result, &error, &seen);
    ck_assert_msg(code == GEMMD_OK, "%s", error.message);
    ck_assert_mem_eq(out, o, sizeof o);
    ck_assert_ptr_eq(result.data, out);
    ck_assert_uint_eq(result.rank, 4);
    ck_assert_uint_eq(result.bytes, sizeof o);
    ck_assert_ptr_null(result.lse);
    const char *line = "POST /attention?batch=2&heads=2&kv_heads=1&sq=1&skv=3&d=2&dv=1&layout=bshd"
                       "&dtype=f32&causal=1&window=0&window_right=7&scale=-0.5&softcap=30&lens=1"
                       "&alibi=1&sinks=1&kernel=tiled&priority=9&timeout_ms=";
    ck_assert_msg(strncmp(seen.head, line, strlen(line)) == 0, "%s", seen.head);
    ck_assert_ptr_nonnull(strstr(seen.head, "\r\nX-Request-Id: mine\r\n"));
    ck_assert_ptr_nonnull(strstr(seen.head, "\r\nAccept: application/octet-stream\r\n"));
    const struct {
        const void *data;
        size_t bytes;
    } parts[] = {{lens_q, sizeof lens_q},
                 {lens_kv, sizeof lens_kv},
                 {slopes, sizeof slopes},
                 {sinks, sizeof sinks},
                 {q, sizeof q},
                 {k, sizeof k},
                 {v, sizeof v}};
    size_t at = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        ck_assert_uint_le(at + parts[i].bytes, seen.body_bytes);
        ck_assert_mem_eq(seen.body + at, parts[i].data, parts[i].bytes);
        at += parts[i].bytes;
    }
    ck_assert_uint_eq(seen.body_bytes, at);
    free(seen.body);
}
END_TEST

/* Two entries, whose rows are those that attention_case has for one. */
START_TEST(ragged_entries_have_one_more_length)
{
    static const int32_t first_q[] = {0, 1, 1}, first_kv[] = {0, 0, 3};
    const struct fake_act act = {
        .head = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\nGemmd-Shape: 1,2,1,1\r\n"
                "Gemmd-Dtype: f32\r\nGemmd-Kernel: tiled",
        .payload = o,
        .payload_bytes = 8,
        .take_bytes = FAKE_ALL};
    struct gemmd_attention attention = attention_case();
    struct gemmd_error_info error;
    struct gemmd_result result;
    struct fake_request seen;
    attention.ragged = 1;
    attention.lens_q = first_q;
    attention.lens_kv = first_kv;
    gemmd_result_init(&result, sizeof result);
    const enum gemmd_error code = run(&act, &attention, &result, &error, &seen);
    ck_assert_msg(code == GEMMD_OK, "%s", error.message);
    ck_assert_uint_eq(result.dims[0], 1);
    ck_assert_ptr_nonnull(strstr(seen.head, "&lens=ragged"));
    ck_assert_uint_eq(seen.body_bytes,
                      sizeof first_q + sizeof first_kv + (sizeof q + sizeof k + sizeof v) / BATCH);
    ck_assert_int_eq(memcmp(seen.body, first_q, sizeof first_q), 0);
    ck_assert_int_eq(memcmp(seen.body + sizeof first_q, first_kv, sizeof first_kv), 0);
    gemmd_free(result.data);
    free(seen.body);
}
END_TEST

START_TEST(leaves_out_what_is_resident_and_what_is_default)
{
    const struct fake_act act = {
        .head = plain_head, .payload = o, .payload_bytes = sizeof o, .take_bytes = FAKE_ALL};
    struct gemmd_attention attention = attention_case();
    struct gemmd_error_info error;
    struct gemmd_result result;
    struct fake_request seen;
    attention.k = attention.v = NULL;
    attention.k_tensor = "keys";
    attention.v_tensor = "values";
    gemmd_result_init(&result, sizeof result);
    enum gemmd_error code = run(&act, &attention, &result, &error, &seen);
    ck_assert_msg(code == GEMMD_OK, "%s", error.message);
    ck_assert_mem_eq(result.data, o, sizeof o);
    gemmd_free(result.data);
    const char *line = "POST /attention?batch=2&heads=2&kv_heads=1&sq=1&skv=3&d=2&dv=1&dtype=f32"
                       "&k=keys&v=values&timeout_ms=";
    ck_assert_msg(strncmp(seen.head, line, strlen(line)) == 0, "%s", seen.head);
    ck_assert_uint_eq(seen.body_bytes, sizeof q);
    free(seen.body);
}
END_TEST

/* Into the caller's buffers (0) or new ones (1). */
START_TEST(takes_lse_beside_the_result)
{
    struct file_answer answer;
    struct gemmd_attention attention = attention_case();
    struct gemmd_error_info error;
    struct gemmd_result result;
    struct fake_request seen;
    float out[ROWS * DV], out_lse[ROWS];
    answer_file(&answer, "{" LSE "," O "}", 0);
    attention.with_lse = 1;
    if (_i == 0) {
        attention.o = out;
        attention.o_bytes = sizeof out;
        attention.lse = out_lse;
        attention.lse_bytes = sizeof out_lse;
    }
    gemmd_result_init(&result, sizeof result);
    enum gemmd_error code = run(&answer.act, &attention, &result, &error, &seen);
    ck_assert_msg(code == GEMMD_OK, "%s", error.message);
    ck_assert_mem_eq(result.data, o, sizeof o);
    ck_assert_mem_eq(result.lse, lse, sizeof lse);
    ck_assert_uint_eq(result.bytes, sizeof o);
    ck_assert_uint_eq(result.lse_bytes, sizeof lse);
    const uint64_t dims[] = {2, 2, 1};
    ck_assert_uint_eq(result.lse_rank, 3);
    ck_assert_mem_eq(result.lse_dims, dims, sizeof dims);
    ck_assert_uint_eq((result.data == out), (_i == 0));
    ck_assert_uint_eq((result.lse == out_lse), (_i == 0));
    ck_assert_ptr_nonnull(strstr(seen.head, "&lse=1&"));
    ck_assert_ptr_nonnull(strstr(seen.head, "\r\nAccept: application/vnd.safetensors\r\n"));
    free(seen.body);
    if (_i == 1) {
        gemmd_free(result.data);
        gemmd_free(result.lse);
    }
}
END_TEST

/* A caller of before there was lse cannot release it. */
START_TEST(an_older_result_has_no_lse)
{
    struct file_answer answer;
    answer_file(&answer, "{" LSE "," O "}", 0);
    struct fake_server *server = fake_start(&answer.act, 1);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    struct gemmd_error_info error;
    struct gemmd_result result;
    memset(&result, 0xee, sizeof result);
    gemmd_result_init(&result, offsetof(struct gemmd_result, lse));
    enum gemmd_error code = gemmd_job_result(client, "1", NULL, &result, &error);
    ck_assert_msg(code == GEMMD_OK, "%s", error.message);
    ck_assert_mem_eq(result.data, o, sizeof o);
    for (size_t i = 0; i < sizeof result.lse; i++)
        ck_assert_uint_eq(((const unsigned char *)&result.lse)[i], 0xee);
    gemmd_free(result.data);
    gemmd_client_free(client);
    fake_stop(server);
    fake_free(server);
}
END_TEST

/* Bytes come as they come: in pieces of every length, the tensors in any order. */
START_TEST(a_file_is_taken_apart_in_pieces_of_any_length)
{
    static const char *const headers[] = {
        "{" LSE "," O "}",
        "{\"o\":{\"dtype\":\"F32\",\"shape\":[2,2,1,1],\"data_offsets\":[0,16]},"
        "\"lse\":{\"dtype\":\"F32\",\"shape\":[2,2,1],\"data_offsets\":[16,32]}}",
    };
    static struct transfer transfer;
    unsigned char file[512];
    const size_t bytes = write_file(headers[_i], file);
    for (size_t step = 1; step <= bytes; step++) {
        struct gemmd_request request = {
            .expected = {.bytes = sizeof o, .dtype = GEMMD_F32, .lse_bytes = sizeof lse}};
        transfer =
            (struct transfer){.request = &request, .answer = {.has_length = true, .length = bytes}};
        unpack_begin(&request.sink);
        for (size_t at = 0; at < bytes; at += step)
            ck_assert_msg(unpack_take(&transfer, (const char *)file + at,
                                      bytes - at < step ? bytes - at : step) == GEMMD_OK,
                          "%s", request.error.message);
        ck_assert_int_eq(unpack_end(&request), GEMMD_OK);
        ck_assert_mem_eq(request.sink.data.data, _i == 0 ? o : lse, sizeof o);
        ck_assert_mem_eq(request.sink.lse.data, _i == 0 ? lse : o, sizeof lse);
        free(request.sink.data.data);
        free(request.sink.lse.data);
    }
}
END_TEST

static const struct {
    const char *header, *says;
    size_t cut; /* bytes that the answer lacks at its end, its Content-Length too */
} wrong_files[] = {
    {"{" O "}", "safetensors", 0},
    {"{" LSE "}", "safetensors", 0},
    {"{" LSE ",\"o\":{\"dtype\":\"F16\",\"shape\":[2,2,2,1],\"data_offsets\":[16,32]}}", "result",
     0},
    {"{\"lse\":{\"dtype\":\"F16\",\"shape\":[2,2,2],\"data_offsets\":[0,16]}," O "}", "lse", 0},
    {"{\"lse\":{\"dtype\":\"F32\",\"shape\":[2,1,1],\"data_offsets\":[0,8]},"
     "\"o\":{\"dtype\":\"F32\",\"shape\":[2,3,1,1],\"data_offsets\":[8,32]}}",
     "another type or size", 0},
    {"{\"p\":{\"dtype\":\"F32\",\"shape\":[2,2,1,1],\"data_offsets\":[0,16]}," O "}", "one result",
     0},
    {"no JSON", "JSON", 0},
    {"{" LSE "," O "}", "safetensors", 1},
    {"{" LSE "," O "}", "ends in its header", 40},
};

START_TEST(refuses_a_file_that_is_not_the_answer)
{
    struct file_answer answer;
    struct gemmd_attention attention = attention_case();
    struct gemmd_error_info error;
    struct gemmd_result result;
    answer_file(&answer, wrong_files[_i].header, wrong_files[_i].cut);
    answer.act.then = FAKE_CLOSE;
    attention.with_lse = 1;
    gemmd_result_init(&result, sizeof result);
    ck_assert_int_eq(run(&answer.act, &attention, &result, &error, NULL), GEMMD_ERR_PROTOCOL);
    ck_assert_msg(strstr(error.message, wrong_files[_i].says) != NULL, "%s", error.message);
}
END_TEST

START_TEST(wants_lse_if_it_asked_for_it)
{
    const struct fake_act act = {
        .head = plain_head, .payload = o, .payload_bytes = sizeof o, .take_bytes = FAKE_ALL};
    struct gemmd_attention attention = attention_case();
    struct gemmd_error_info error;
    struct gemmd_result result;
    attention.with_lse = 1;
    gemmd_result_init(&result, sizeof result);
    ck_assert_int_eq(run(&act, &attention, &result, &error, NULL), GEMMD_ERR_PROTOCOL);
    ck_assert_msg(strstr(error.message, "lse") != NULL, "%s", error.message);
}
END_TEST

START_TEST(hands_in_a_job)
{
    const struct fake_act act = {.head = "HTTP/1.1 202 Accepted\r\nLocation: /jobs/j-1\r\n"
                                         "Content-Length: 2",
                                 .payload = "{}",
                                 .payload_bytes = 2,
                                 .take_bytes = FAKE_ALL};
    struct gemmd_attention attention = attention_case();
    struct gemmd_error_info error;
    struct gemmd_result result;
    struct fake_request seen;
    attention.job = 1;
    attention.with_lse = 1;
    attention.timeout_ms = 7000;
    gemmd_result_init(&result, sizeof result);
    enum gemmd_error code = run(&act, &attention, &result, &error, &seen);
    ck_assert_msg(code == GEMMD_OK, "%s", error.message);
    ck_assert_str_eq(result.job, "j-1");
    ck_assert_ptr_null(result.data);
    ck_assert_ptr_nonnull(strstr(seen.head, "&timeout_ms=7000 "));
    ck_assert_ptr_nonnull(strstr(seen.head, "\r\nPrefer: respond-async\r\n"));
    free(seen.body);
}
END_TEST

static void break_heads(struct gemmd_attention *attention)
{
    attention->heads = 0;
}
static void break_kv_heads(struct gemmd_attention *attention)
{
    attention->kv_heads = 3;
}
static void break_q(struct gemmd_attention *attention)
{
    attention->q = NULL;
}
static void break_k(struct gemmd_attention *attention)
{
    attention->k_tensor = "keys";
}
static void break_v(struct gemmd_attention *attention)
{
    attention->v = NULL;
}
static void break_dtype(struct gemmd_attention *attention)
{
    attention->dtype = GEMMD_F64;
}
static void break_window(struct gemmd_attention *attention)
{
    attention->window = -2;
}
static void break_scale(struct gemmd_attention *attention)
{
    attention->scale = 1e301;
}
static void break_layout(struct gemmd_attention *attention)
{
    attention->layout = (enum gemmd_layout)2;
}
static void break_lens(struct gemmd_attention *attention)
{
    attention->lens_q = lens_q;
}
static void break_lens_kv(struct gemmd_attention *attention)
{
    attention->lens_kv = lens_q;
}
static void break_ragged(struct gemmd_attention *attention)
{
    attention->ragged = 1;
}
static void break_window_right(struct gemmd_attention *attention)
{
    attention->window_right = -2;
}
static void break_lse(struct gemmd_attention *attention)
{
    static float buffer[ROWS];
    attention->lse = buffer;
}
static void break_lse_bytes(struct gemmd_attention *attention)
{
    static float buffer[ROWS];
    attention->lse = buffer;
    attention->lse_bytes = sizeof buffer - 1;
    attention->with_lse = 1;
}
static void break_o_bytes(struct gemmd_attention *attention)
{
    static float buffer[ROWS * DV];
    attention->o = buffer;
    attention->o_bytes = sizeof buffer - 1;
}
static void break_record(struct gemmd_attention *attention)
{
    attention->size = 8;
}

static const struct {
    void (*apply)(struct gemmd_attention *attention);
    const char *field;
} breaks[] = {
    {break_heads, "heads"},
    {break_kv_heads, "kv_heads"},
    {break_q, "q"},
    {break_k, "k"},
    {break_v, "v"},
    {break_dtype, "dtype"},
    {break_window, "window"},
    {break_scale, "scale"},
    {break_layout, "layout"},
    {break_lens, "lens_kv"},
    {break_lens_kv, "lens_q"},
    {break_ragged, "ragged"},
    {break_window_right, "window_right"},
    {break_lse, "lse"},
    {break_lse_bytes, "lse_bytes"},
    {break_o_bytes, "o_bytes"},
    {break_record, "size"},
};

START_TEST(refuses_bad_arguments_before_sending)
{
    struct gemmd_attention attention = attention_case();
    struct gemmd_error_info error;
    struct gemmd_client *client = case_client("unix:/nowhere", 0);
    breaks[_i].apply(&attention);
    ck_assert_ptr_null(gemmd_attention_submit(client, &attention, &error));
    ck_assert_int_eq(error.code, GEMMD_ERR_USAGE);
    ck_assert_str_eq(error.field, breaks[_i].field);
    ck_assert_uint_gt(strlen(error.message), 10);
    ck_assert_int_eq(gemmd_attention(client, &attention, NULL, NULL), GEMMD_ERR_USAGE);
    ck_assert_uint_eq(gemmd_in_flight(client), 0);
    gemmd_client_free(client);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_attention");
    TCase *tcase = tcase_create("client_attention");
    tcase_add_test(tcase, sends_every_parameter_and_the_operands_in_order);
    tcase_add_test(tcase, ragged_entries_have_one_more_length);
    tcase_add_test(tcase, leaves_out_what_is_resident_and_what_is_default);
    tcase_add_loop_test(tcase, takes_lse_beside_the_result, 0, 2);
    tcase_add_test(tcase, an_older_result_has_no_lse);
    tcase_add_loop_test(tcase, a_file_is_taken_apart_in_pieces_of_any_length, 0, 2);
    tcase_add_loop_test(tcase, refuses_a_file_that_is_not_the_answer, 0,
                        sizeof wrong_files / sizeof wrong_files[0]);
    tcase_add_test(tcase, wants_lse_if_it_asked_for_it);
    tcase_add_test(tcase, hands_in_a_job);
    tcase_add_loop_test(tcase, refuses_bad_arguments_before_sending, 0,
                        sizeof breaks / sizeof breaks[0]);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
