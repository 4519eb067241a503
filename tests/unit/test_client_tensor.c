/* Resident tensors: what is asked, what is uploaded, what is made of every answer. */
#include <check.h>
#include <gemmd/gemmd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_http.h"
#include "product_case.h"
#include "proto/safetensors.h"

/* Of "f32:2,3\n" and the bytes of case_product, by sha256sum. */
#define ETAG "\"9342b8ffbb0d238cac97495ae472cfc91ffdba7183fdf024be97fa47791fca1b\""
#define ETAG_IN_JSON "\\\"9342b8ffbb0d238cac97495ae472cfc91ffdba7183fdf024be97fa47791fca1b\\\""

static struct gemmd_tensor_put case_put(void)
{
    struct gemmd_tensor_put put;
    gemmd_tensor_put_init(&put, sizeof put);
    put.name = "w.0_a-B";
    put.rank = 2;
    put.dims[0] = CASE_M;
    put.dims[1] = CASE_N;
    put.data = case_product;
    return put;
}

/* A head with a length for `payload`. */
static struct fake_act act_with(char head[FAKE_HEAD_MAX], const char *lines, const char *payload)
{
    snprintf(head, FAKE_HEAD_MAX, "%s\r\nContent-Length: %zu", lines, strlen(payload));
    return (struct fake_act){
        .head = head, .payload = payload, .payload_bytes = strlen(payload), .take_bytes = FAKE_ALL};
}

/* A conversation: one server, one client. */
struct talk {
    struct fake_server *server;
    struct gemmd_client *client;
    struct gemmd_error_info error;
    struct gemmd_result result;
};

static struct talk talk_start(const struct fake_act *acts, size_t count)
{
    struct talk talk = {.server = fake_start(acts, count)};
    talk.client = case_client(fake_url(talk.server), 0);
    gemmd_result_init(&talk.result, sizeof talk.result);
    return talk;
}

/* What was asked can then be looked at. */
static void talk_stop(struct talk *talk)
{
    gemmd_client_free(talk->client);
    fake_stop(talk->server);
}

static void talk_end(struct talk *talk)
{
    talk_stop(talk);
    fake_free(talk->server);
}

static const struct {
    const char *lines, *document;
    enum gemmd_put put;
} uploads[] = {
    {"HTTP/1.1 201 Created\r\nETag: " ETAG, "", GEMMD_PUT_CREATED},
    {"HTTP/1.1 200 OK\r\nETag: " ETAG, "{}", GEMMD_PUT_REPLACED},
    {"HTTP/1.1 201 Created",
     "{\"name\":\"w.0_a-B\",\"dtype\":\"f32\",\"shape\":[2,3],\"etag\":\"" ETAG_IN_JSON "\"}",
     GEMMD_PUT_CREATED},
    {"HTTP/1.1 201 Created", "not JSON", GEMMD_PUT_CREATED},
};

START_TEST(uploads_a_tensor)
{
    char head[FAKE_HEAD_MAX];
    const struct fake_act act = act_with(head, uploads[_i].lines, uploads[_i].document);
    struct talk talk = talk_start(&act, 1);
    struct gemmd_tensor_put put = case_put();
    put.evictable = 1;
    put.contiguous = 1;
    put.request_id = "mine";
    enum gemmd_error code = gemmd_tensor_put(talk.client, &put, &talk.result, &talk.error);
    ck_assert_msg(code == GEMMD_OK, "%s", talk.error.message);
    ck_assert_int_eq(talk.result.put, uploads[_i].put);
    ck_assert_str_eq(talk.result.etag, ETAG);
    ck_assert_ptr_null(talk.result.data);
    ck_assert_uint_eq(talk.result.bytes, CASE_C_BYTES);
    ck_assert_uint_eq(talk.result.rank, 2);
    ck_assert_uint_eq(talk.result.dims[1], CASE_N);
    ck_assert_int_eq(talk.result.dtype, GEMMD_F32);
    talk_stop(&talk);
    const struct fake_request *request = fake_request(talk.server, 0);
    const char *line =
        "PUT /tensors/w.0_a-B?dtype=f32&shape=2,3&evictable=1&contiguous=1 HTTP/1.1\r\n";
    ck_assert_msg(strncmp(request->head, line, strlen(line)) == 0, "%s", request->head);
    ck_assert_ptr_nonnull(strstr(request->head, "\r\nExpect: 100-continue\r\n"));
    ck_assert_ptr_nonnull(strstr(request->head, "\r\nIf-None-Match: " ETAG "\r\n"));
    ck_assert_ptr_nonnull(strstr(request->head, "\r\nContent-Type: application/octet-stream\r\n"));
    ck_assert_ptr_nonnull(strstr(request->head, "\r\nAuthorization: Bearer secret\r\n"));
    ck_assert_ptr_nonnull(strstr(request->head, "\r\nX-Request-Id: mine\r\n"));
    ck_assert_uint_eq(request->body_bytes, sizeof case_product);
    ck_assert_mem_eq(request->body, case_product, sizeof case_product);
    fake_free(talk.server);
}
END_TEST

/* Of "i8:2,3\n", the bytes 1 to 6, "scale:2\n" and the f32 numbers 0.5 and 2, by sha256sum. */
#define SCALED_ETAG "\"81cc3c2036b9eaa7399516f973fbbfe52c47917e804e817e9561c24d1fea5475\""

START_TEST(uploads_a_tensor_with_scales)
{
    static const signed char data[] = {1, 2, 3, 4, 5, 6};
    static const float scale[] = {0.5f, 2};
    char head[FAKE_HEAD_MAX];
    const struct fake_act act = act_with(head, "HTTP/1.1 201 Created\r\nETag: " SCALED_ETAG, "");
    struct talk talk = talk_start(&act, 1);
    struct gemmd_tensor_put put = case_put();
    struct safetensors_entry entries[2];
    struct fault fault;
    uint32_t count = 0;
    put.dtype = GEMMD_I8;
    put.data = data;
    put.scale = scale;
    put.scale_rank = 1;
    put.scale_dims[0] = 2;
    enum gemmd_error code = gemmd_tensor_put(talk.client, &put, &talk.result, &talk.error);
    ck_assert_msg(code == GEMMD_OK, "%s", talk.error.message);
    ck_assert_str_eq(talk.result.etag, SCALED_ETAG);
    ck_assert_uint_eq(talk.result.bytes, sizeof data);
    talk_stop(&talk);
    const struct fake_request *request = fake_request(talk.server, 0);
    ck_assert_ptr_nonnull(
        strstr(request->head, "\r\nContent-Type: application/vnd.safetensors\r\n"));
    ck_assert_ptr_nonnull(strstr(request->head, "\r\nIf-None-Match: " SCALED_ETAG "\r\n"));
    ck_assert_int_eq(
        safetensors_decode(request->body, request->body_bytes, entries, 2, &count, &fault),
        GEMMD_OK);
    ck_assert_uint_eq(count, 2);
    ck_assert_str_eq(entries[0].name, "scale");
    ck_assert_uint_eq(entries[0].tensor.dims[0], 2);
    ck_assert_int_eq(memcmp(entries[0].tensor.data, scale, sizeof scale), 0);
    ck_assert_str_eq(entries[1].name, "tensor");
    ck_assert_int_eq(entries[1].tensor.dtype, GEMMD_I8);
    ck_assert_int_eq(memcmp(entries[1].tensor.data, data, sizeof data), 0);
    fake_free(talk.server);
}
END_TEST

START_TEST(uploads_nothing_that_is_there)
{
    static const char problem[] = "{\"type\":\"urn:gemmd:error:precondition-failed\"}";
    char head[FAKE_HEAD_MAX];
    struct fake_act act = act_with(head, "HTTP/1.1 412 Precondition Failed", problem);
    act.take_bytes = 0;
    act.then = FAKE_CLOSE;
    struct talk talk = talk_start(&act, 1);
    struct gemmd_tensor_put put = case_put();
    enum gemmd_error code = gemmd_tensor_put(talk.client, &put, &talk.result, &talk.error);
    ck_assert_msg(code == GEMMD_OK, "%s", talk.error.message);
    ck_assert_int_eq(talk.result.put, GEMMD_PUT_UNCHANGED);
    ck_assert_str_eq(talk.result.etag, ETAG);
    ck_assert_uint_eq(talk.result.bytes, CASE_C_BYTES);
    talk_stop(&talk);
    ck_assert_uint_eq(fake_request_count(talk.server), 1);
    ck_assert_uint_eq(fake_request(talk.server, 0)->body_bytes, 0);
    fake_free(talk.server);
}
END_TEST

/* What the daemon has is not what was sent. */
START_TEST(notices_bytes_that_went_astray)
{
    char head[FAKE_HEAD_MAX];
    const struct fake_act act = act_with(head, "HTTP/1.1 201 Created\r\nETag: \"other\"", "{}");
    struct talk talk = talk_start(&act, 1);
    struct gemmd_tensor_put put = case_put();
    ck_assert_int_eq(gemmd_tensor_put(talk.client, &put, NULL, NULL), GEMMD_ERR_PROTOCOL);
    talk_end(&talk);
}
END_TEST

START_TEST(takes_an_etag_that_is_known)
{
    char head[FAKE_HEAD_MAX];
    const struct fake_act act = act_with(head, "HTTP/1.1 201 Created\r\nETag: \"mine\"", "");
    struct talk talk = talk_start(&act, 1);
    struct gemmd_tensor_put put = case_put();
    put.etag = "\"mine\"";
    ck_assert_int_eq(gemmd_tensor_put(talk.client, &put, &talk.result, NULL), GEMMD_OK);
    ck_assert_str_eq(talk.result.etag, "\"mine\"");
    talk_stop(&talk);
    ck_assert_ptr_nonnull(
        strstr(fake_request(talk.server, 0)->head, "If-None-Match: \"mine\"\r\n"));
    fake_free(talk.server);
}
END_TEST

START_TEST(says_what_a_content_is_called)
{
    const uint64_t dims[] = {CASE_M, CASE_N}, three[] = {3}, huge[] = {UINT64_MAX, 2};
    const signed char bytes[] = {1, 2, 3};
    char etag[72];
    gemmd_tensor_etag(GEMMD_F32, 2, dims, case_product, etag);
    ck_assert_str_eq(etag, ETAG);
    gemmd_tensor_etag(GEMMD_I8, 1, three, bytes, etag);
    ck_assert_str_eq(etag, "\"abff01ebb3df0fa16e1430b3942b85675a07a4c990494237f8a3014c1ea33d7f\"");
    gemmd_tensor_etag(GEMMD_F32, 2, huge, case_product, etag);
    ck_assert_str_eq(etag, "");
    gemmd_tensor_etag(GEMMD_F32, 0, dims, case_product, etag);
    ck_assert_str_eq(etag, "");
    gemmd_tensor_etag(GEMMD_DTYPE_COUNT, 1, dims, case_product, etag);
    ck_assert_str_eq(etag, "");
}
END_TEST

/* Nothing is sent: the client has no daemon to send to. */
START_TEST(refuses_what_is_no_tensor)
{
    struct gemmd_client *client = case_client("http://127.0.0.1:1", 0);
    struct gemmd_tensor_put puts[10];
    static const char *const fields[] = {"name", "name", "name", "dtype", "rank",
                                         "rank", "dims", "dims", "data",  "etag"};
    char name[130], etag[80];
    memset(name, 'x', sizeof name);
    name[129] = '\0';
    memset(etag, 'x', sizeof etag);
    etag[79] = '\0';
    for (size_t i = 0; i < 10; i++)
        puts[i] = case_put();
    puts[0].name = NULL;
    puts[1].name = "a/b";
    puts[2].name = name;
    puts[3].dtype = GEMMD_DTYPE_COUNT;
    puts[4].rank = 0;
    puts[5].rank = 9;
    puts[6].dims[1] = 0;
    puts[7].dims[0] = UINT64_MAX;
    puts[8].data = NULL;
    puts[9].etag = etag;
    for (size_t i = 0; i < 10; i++) {
        struct gemmd_error_info error;
        ck_assert_int_eq(gemmd_tensor_put(client, &puts[i], NULL, &error), GEMMD_ERR_USAGE);
        ck_assert_msg(strcmp(error.field, fields[i]) == 0, "%zu: %s", i, error.message);
    }
    struct gemmd_tensor_put put = case_put();
    put.size = 8;
    ck_assert_int_eq(gemmd_tensor_put(client, &put, NULL, NULL), GEMMD_ERR_USAGE);
    put = case_put();
    put.request_id = "two words";
    ck_assert_int_eq(gemmd_tensor_put(client, &put, NULL, NULL), GEMMD_ERR_USAGE);
    struct gemmd_call call = {.size = 8};
    ck_assert_int_eq(gemmd_tensor_get(client, "w", &call, NULL, NULL), GEMMD_ERR_USAGE);
    ck_assert_int_eq(gemmd_tensor_stat(client, "", NULL, NULL, NULL), GEMMD_ERR_USAGE);
    ck_assert_int_eq(gemmd_tensor_delete(client, "a?b", NULL, NULL), GEMMD_ERR_USAGE);
    gemmd_client_free(client);
}
END_TEST

static const struct {
    int status;
    const char *slug;
    enum gemmd_error code;
} refusals[] = {
    {403, "forbidden", GEMMD_ERR_FORBIDDEN},
    {404, "not-found", GEMMD_ERR_NOT_FOUND},
    {413, "too-large", GEMMD_ERR_TOO_LARGE},
    {507, "no-room", GEMMD_ERR_NO_ROOM},
};

START_TEST(passes_refusals_on)
{
    char head[FAKE_HEAD_MAX], lines[64], problem[128];
    snprintf(lines, sizeof lines, "HTTP/1.1 %d No", refusals[_i].status);
    snprintf(problem, sizeof problem, "{\"type\":\"urn:gemmd:error:%s\",\"detail\":\"so it is\"}",
             refusals[_i].slug);
    const struct fake_act act = act_with(head, lines, problem);
    struct talk talk = talk_start(&act, 1);
    struct gemmd_tensor_put put = case_put();
    ck_assert_int_eq(gemmd_tensor_put(talk.client, &put, NULL, &talk.error), refusals[_i].code);
    ck_assert_str_eq(talk.error.message, "so it is");
    ck_assert_int_eq(gemmd_tensor_get(talk.client, "w", NULL, NULL, &talk.error),
                     refusals[_i].code);
    ck_assert_int_eq(gemmd_tensor_delete(talk.client, "w", NULL, &talk.error), refusals[_i].code);
    ck_assert_str_eq(talk.error.message, "so it is");
    talk_end(&talk);
}
END_TEST

/* To HEAD, nothing says why. */
START_TEST(looks_for_what_is_not_there)
{
    const struct fake_act act = {.head = "HTTP/1.1 404 Not Found\r\nContent-Length: 100"};
    struct talk talk = talk_start(&act, 1);
    ck_assert_int_eq(gemmd_tensor_stat(talk.client, "w", NULL, NULL, &talk.error),
                     GEMMD_ERR_NOT_FOUND);
    talk_end(&talk);
}
END_TEST

#define MATRIX                                                                                     \
    "HTTP/1.1 200 OK\r\nContent-Length: 24\r\nGemmd-Shape: 2,3\r\nGemmd-Dtype: f32\r\nETag: " ETAG

static const struct fake_act matrix = {
    .head = MATRIX, .payload = case_product, .payload_bytes = sizeof case_product};

START_TEST(fetches_into_memory_of_either_side)
{
    struct talk talk = talk_start(&matrix, 1);
    struct gemmd_call call;
    float room[CASE_M * CASE_N + 1];
    ck_assert_int_eq(gemmd_tensor_get(talk.client, "w", NULL, &talk.result, NULL), GEMMD_OK);
    ck_assert_mem_eq(talk.result.data, case_product, sizeof case_product);
    ck_assert_str_eq(talk.result.etag, ETAG);
    ck_assert_uint_eq(talk.result.bytes, sizeof case_product);
    ck_assert_int_eq(talk.result.put, GEMMD_PUT_NONE);
    gemmd_free(talk.result.data);
    gemmd_call_init(&call, sizeof call);
    call.data = room;
    call.bytes = sizeof room;
    ck_assert_int_eq(gemmd_tensor_get(talk.client, "w", &call, &talk.result, NULL), GEMMD_OK);
    ck_assert_ptr_eq(talk.result.data, room);
    ck_assert_mem_eq(room, case_product, sizeof case_product);
    call.bytes = sizeof case_product - 1;
    ck_assert_int_eq(gemmd_tensor_get(talk.client, "w", &call, NULL, &talk.error), GEMMD_ERR_USAGE);
    ck_assert_str_eq(talk.error.field, "bytes");
    talk_stop(&talk);
    const char *line = "GET /tensors/w HTTP/1.1\r\n";
    const char *asked = fake_request(talk.server, 0)->head;
    ck_assert_msg(strncmp(asked, line, strlen(line)) == 0, "%s", asked);
    ck_assert_ptr_nonnull(strstr(asked, "\r\nAccept: */*\r\n"));
    fake_free(talk.server);
}
END_TEST

/* Answers a GET with the tensor of uploads_a_tensor_with_scales, as a safetensors file. */
#define SCALED_HEAD                                                                                \
    "HTTP/1.1 200 OK\r\nGemmd-Shape: 2,3\r\nGemmd-Dtype: i8\r\nETag: " SCALED_ETAG                 \
    "\r\nContent-Type: application/vnd.safetensors\r\n"
#define SCALED_TENSOR "\"tensor\":{\"dtype\":\"I8\",\"shape\":[2,3],\"data_offsets\":[0,6]}"
static const signed char scaled_data[] = {1, 2, 3, 4, 5, 6};
static const float scaled_scale[] = {0.5f, 2};

struct scaled_answer {
    char head[FAKE_HEAD_MAX], payload[512];
    struct fake_act act;
};

static void answer_scaled(struct scaled_answer *answer, const char *header, bool has_scale)
{
    const uint64_t length = strlen(header);
    size_t at = 8 + length;
    memcpy(answer->payload, &length, 8);
    memcpy(answer->payload + 8, header, length);
    memcpy(answer->payload + at, scaled_data, sizeof scaled_data);
    at += sizeof scaled_data;
    if (has_scale)
        memcpy(answer->payload + at, scaled_scale, sizeof scaled_scale);
    at += has_scale ? sizeof scaled_scale : 0;
    snprintf(answer->head, FAKE_HEAD_MAX, SCALED_HEAD "Content-Length: %zu", at);
    answer->act = (struct fake_act){.head = answer->head,
                                    .payload = answer->payload,
                                    .payload_bytes = at,
                                    .take_bytes = FAKE_ALL};
}

START_TEST(fetches_scales_beside_the_tensor)
{
    struct scaled_answer answers[2];
    struct gemmd_call call;
    char room[sizeof scaled_data];
    answer_scaled(&answers[0],
                  "{" SCALED_TENSOR
                  ",\"scale\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[6,14]}}",
                  true);
    answer_scaled(&answers[1], "{" SCALED_TENSOR "}", false);
    const struct fake_act acts[] = {answers[0].act, answers[0].act, answers[1].act};
    struct talk talk = talk_start(acts, 3);
    gemmd_call_init(&call, sizeof call);
    call.scales = 1;
    call.data = room;
    call.bytes = sizeof room;
    enum gemmd_error code = gemmd_tensor_get(talk.client, "w", &call, &talk.result, &talk.error);
    ck_assert_msg(code == GEMMD_OK, "%s", talk.error.message);
    ck_assert_ptr_eq(talk.result.data, room);
    ck_assert_mem_eq(room, scaled_data, sizeof scaled_data);
    ck_assert_uint_eq(talk.result.bytes, sizeof scaled_data);
    ck_assert_uint_eq(talk.result.scale_bytes, sizeof scaled_scale);
    ck_assert_mem_eq(talk.result.scale, scaled_scale, sizeof scaled_scale);
    ck_assert_uint_eq(talk.result.scale_rank, 1);
    ck_assert_uint_eq(talk.result.scale_dims[0], 2);
    ck_assert_str_eq(talk.result.etag, SCALED_ETAG);
    ck_assert_ptr_null(talk.result.lse);
    gemmd_free(talk.result.scale);

    /* A caller of before there were scales cannot release them. */
    struct gemmd_result older;
    memset(&older, 0xee, sizeof older);
    gemmd_result_init(&older, offsetof(struct gemmd_result, scale));
    code = gemmd_tensor_get(talk.client, "w", &call, &older, &talk.error);
    ck_assert_msg(code == GEMMD_OK, "%s", talk.error.message);
    for (size_t i = 0; i < sizeof older.scale; i++)
        ck_assert_uint_eq(((const unsigned char *)&older.scale)[i], 0xee);

    code = gemmd_tensor_get(talk.client, "w", &call, &talk.result, &talk.error);
    ck_assert_msg(code == GEMMD_OK, "%s", talk.error.message);
    ck_assert_ptr_null(talk.result.scale);
    ck_assert_uint_eq(talk.result.scale_rank, 0);
    talk_stop(&talk);
    ck_assert_ptr_nonnull(
        strstr(fake_request(talk.server, 0)->head, "\r\nAccept: application/vnd.safetensors\r\n"));
    fake_free(talk.server);
}
END_TEST

static const struct {
    const char *header, *says;
} wrong_scales[] = {
    {"{" SCALED_TENSOR ",\"scale\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[6,14]}}",
     "scales are not of type f32"},
    {"{" SCALED_TENSOR ",\"other\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[6,14]}}",
     "another type or size"},
};

START_TEST(refuses_wrong_scales)
{
    struct scaled_answer answer;
    struct gemmd_call call;
    answer_scaled(&answer, wrong_scales[_i].header, true);
    answer.act.then = FAKE_CLOSE;
    struct talk talk = talk_start(&answer.act, 1);
    gemmd_call_init(&call, sizeof call);
    call.scales = 1;
    ck_assert_int_eq(gemmd_tensor_get(talk.client, "w", &call, NULL, &talk.error),
                     GEMMD_ERR_PROTOCOL);
    ck_assert_msg(strstr(talk.error.message, wrong_scales[_i].says) != NULL, "%s",
                  talk.error.message);
    talk_stop(&talk);
    fake_free(talk.server);
}
END_TEST

START_TEST(wants_a_file_if_it_asked_for_scales)
{
    struct talk talk = talk_start(&matrix, 1);
    struct gemmd_call call;
    gemmd_call_init(&call, sizeof call);
    call.scales = 1;
    ck_assert_int_eq(gemmd_tensor_get(talk.client, "w", &call, NULL, &talk.error),
                     GEMMD_ERR_PROTOCOL);
    ck_assert_msg(strstr(talk.error.message, "asked for scales") != NULL, "%s", talk.error.message);
    talk_stop(&talk);
    fake_free(talk.server);
}
END_TEST

START_TEST(asks_for_some_rows)
{
    static const struct {
        uint64_t row, rows;
        const char *target;
    } cases[] = {{0, 0, "GET /tensors/w HTTP"},
                 {3, 0, "GET /tensors/w?row=3 HTTP"},
                 {0, 2, "GET /tensors/w?rows=2 HTTP"},
                 {UINT64_MAX, 2, "GET /tensors/w?row=18446744073709551615&rows=2 HTTP"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct talk talk = talk_start(&matrix, 1);
        struct gemmd_call call;
        gemmd_call_init(&call, sizeof call);
        call.row = cases[i].row;
        call.rows = cases[i].rows;
        ck_assert_int_eq(gemmd_tensor_get(talk.client, "w", &call, NULL, NULL), GEMMD_OK);
        talk_stop(&talk);
        ck_assert_ptr_nonnull(strstr(fake_request(talk.server, 0)->head, cases[i].target));
        fake_free(talk.server);
    }
}
END_TEST

START_TEST(fetches_no_scales_of_some_rows)
{
    struct gemmd_client *client = gemmd_client_new(NULL, NULL); /* nothing is sent */
    struct gemmd_error_info error;
    struct gemmd_call call;
    gemmd_call_init(&call, sizeof call);
    call.scales = 1;
    call.rows = 1;
    ck_assert_int_eq(gemmd_tensor_get(client, "w", &call, NULL, &error), GEMMD_ERR_USAGE);
    ck_assert_str_eq(error.field, "scales");
    gemmd_client_free(client);
}
END_TEST

/* Names that a path would swallow. */
START_TEST(asks_for_any_name)
{
    struct talk talk = talk_start(&matrix, 1);
    ck_assert_int_eq(gemmd_tensor_get(talk.client, "..", NULL, NULL, NULL), GEMMD_OK);
    talk_stop(&talk);
    ck_assert_ptr_nonnull(strstr(fake_request(talk.server, 0)->head, "GET /tensors/.. HTTP"));
    fake_free(talk.server);
}
END_TEST

static const char *const wrong_heads[] = {
    "HTTP/1.1 200 OK\r\nContent-Length: 24\r\nGemmd-Dtype: f32",
    "HTTP/1.1 200 OK\r\nContent-Length: 24\r\nGemmd-Shape: 2,3",
    "HTTP/1.1 200 OK\r\nContent-Length: 24\r\nGemmd-Shape: 2,2\r\nGemmd-Dtype: f32",
    ("HTTP/1.1 200 OK\r\nContent-Length: 24\r\nGemmd-Shape: 18446744073709551615,2\r\n"
     "Gemmd-Dtype: f32"),
    "HTTP/1.1 206 Partial Content\r\nContent-Length: 24\r\nGemmd-Shape: 2,3\r\nGemmd-Dtype: f32",
};

START_TEST(refuses_an_answer_that_is_no_tensor)
{
    struct fake_act act = matrix;
    act.head = wrong_heads[_i];
    struct talk talk = talk_start(&act, 1);
    ck_assert_int_eq(gemmd_tensor_get(talk.client, "w", NULL, NULL, NULL), GEMMD_ERR_PROTOCOL);
    talk_end(&talk);
}
END_TEST

/* A second attempt finds another tensor of that name. */
START_TEST(starts_anew_after_a_broken_answer)
{
    const struct fake_act acts[] = {
        {.head = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\nGemmd-Shape: 2\r\nGemmd-Dtype: f32",
         .payload = case_product,
         .payload_bytes = 4,
         .then = FAKE_RESET},
        matrix};
    struct fake_server *server = fake_start(acts, 2);
    struct gemmd_client *client = case_client(fake_url(server), 1);
    struct gemmd_result result;
    struct gemmd_error_info error;
    gemmd_result_init(&result, sizeof result);
    ck_assert_msg(gemmd_tensor_get(client, "w", NULL, &result, &error) == GEMMD_OK, "%s",
                  error.message);
    ck_assert_uint_eq(result.attempts, 2);
    ck_assert_mem_eq(result.data, case_product, sizeof case_product);
    gemmd_free(result.data);
    gemmd_client_free(client);
    fake_stop(server);
    fake_free(server);
}
END_TEST

/* One handle makes requests of every method, one after another, on one connection. */
START_TEST(looks_puts_fetches_and_deletes)
{
    const struct fake_act acts[] = {
        {.head = MATRIX},
        matrix,
        {.head = "HTTP/1.1 204 No Content"},
        {.head = "HTTP/1.1 201 Created\r\nContent-Length: 0", .take_bytes = FAKE_ALL},
        {.head = MATRIX},
    };
    static const char *const methods[] = {"HEAD ", "GET ", "DELETE ", "PUT ", "HEAD "};
    struct talk talk = talk_start(acts, 5);
    struct gemmd_tensor_put put = case_put();
    ck_assert_int_eq(gemmd_tensor_stat(talk.client, "w", NULL, &talk.result, NULL), GEMMD_OK);
    ck_assert_ptr_null(talk.result.data);
    ck_assert_uint_eq(talk.result.bytes, sizeof case_product);
    ck_assert_str_eq(talk.result.etag, ETAG);
    ck_assert_int_eq(gemmd_tensor_get(talk.client, "w", NULL, NULL, NULL), GEMMD_OK);
    ck_assert_int_eq(gemmd_tensor_delete(talk.client, "w", NULL, NULL), GEMMD_OK);
    ck_assert_int_eq(gemmd_tensor_put(talk.client, &put, NULL, NULL), GEMMD_OK);
    ck_assert_int_eq(gemmd_tensor_stat(talk.client, "w", NULL, NULL, NULL), GEMMD_OK);
    talk_stop(&talk);
    for (size_t i = 0; i < 5; i++) {
        const struct fake_request *request = fake_request(talk.server, i);
        ck_assert_msg(strncmp(request->head, methods[i], strlen(methods[i])) == 0, "%s",
                      request->head);
        ck_assert_uint_eq(request->connection, 0);
    }
    fake_free(talk.server);
}
END_TEST

/* ---- Lists ---- */

struct seen {
    int count;
    struct gemmd_tensor all[5];
};

static void see(const struct gemmd_tensor *tensor, void *user)
{
    struct seen *seen = user;
    if (seen->count < 5)
        seen->all[seen->count] = *tensor;
    seen->count++;
}

START_TEST(lists_all_pages)
{
    static const char first[] =
        "{\"tensors\":[{\"name\":\"a\",\"dtype\":\"i8\",\"shape\":[7],\"bytes\":7},"
        "{\"name\":\"b\",\"dtype\":\"f64\",\"shape\":[1,1],\"etag\":null,\"evictable\":true}],"
        "\"next\":\"b\"}";
    static const char second[] =
        "{\"tensors\":[{\"name\":\"c\",\"dtype\":\"bf16\",\"shape\":[2,3,4],\"etag\":\"\\\"x\\\"\","
        "\"evictable\":true,\"later\":1},"
        "{\"name\":\"d\",\"dtype\":\"i8\",\"shape\":[64,8],\"format\":\"gptq\",\"bytes\":530},"
        "{\"name\":\"e\",\"dtype\":\"u4\",\"shape\":[64,16],\"bytes\":600}],\"next\":null}";
    char heads[2][FAKE_HEAD_MAX];
    const struct fake_act acts[] = {act_with(heads[0], "HTTP/1.1 200 OK", first),
                                    act_with(heads[1], "HTTP/1.1 200 OK", second)};
    struct talk talk = talk_start(acts, 2);
    struct seen seen = {0};
    ck_assert_int_eq(gemmd_tensor_list(talk.client, see, &seen, &talk.error), GEMMD_OK);
    ck_assert_int_eq(seen.count, 5);
    const struct gemmd_tensor *c = &seen.all[2];
    ck_assert_uint_eq(c->size, sizeof *c);
    ck_assert_str_eq(c->name, "c");
    ck_assert_str_eq(c->etag, "\"x\"");
    ck_assert_int_eq(c->dtype, GEMMD_BF16);
    ck_assert_uint_eq(c->rank, 3);
    ck_assert_uint_eq(c->bytes, 48);
    ck_assert_int_eq(c->evictable, 1);
    /* Packed weights, and a type that the library does not know. */
    for (int i = 3; i < 5; i++) {
        ck_assert_int_eq(seen.all[i].dtype, GEMMD_DTYPE_COUNT);
        ck_assert_uint_eq(seen.all[i].dims[0], 64);
        ck_assert_uint_eq(seen.all[i].bytes, i == 3 ? 530 : 600);
    }
    talk_stop(&talk);
    ck_assert_ptr_nonnull(strstr(fake_request(talk.server, 0)->head, "GET /tensors HTTP"));
    ck_assert_ptr_nonnull(strstr(fake_request(talk.server, 1)->head, "GET /tensors?after=b HTTP"));
    fake_free(talk.server);
}
END_TEST

static const char *const wrong_lists[] = {
    "",
    "[]",
    "{\"tensors\":{}}",
    "{\"tensors\":[1]}",
    "{\"tensors\":[{\"name\":\"a\",\"dtype\":\"f99\",\"shape\":[7]}]}",
    "{\"tensors\":[{\"name\":\"a\",\"dtype\":\"f32\",\"shape\":[]}]}",
    "{\"tensors\":[{\"name\":\"a\",\"dtype\":\"f32\",\"shape\":[1,1,1,1,1,1,1,1,1]}]}",
    "{\"tensors\":[{\"name\":\"a\",\"dtype\":\"f32\",\"shape\":[0]}]}",
    "{\"tensors\":[{\"name\":\"a\\u0000b\",\"dtype\":\"f32\",\"shape\":[1]}]}",
    "{\"tensors\":[],\"next\":\"a/b\"}",
};

START_TEST(refuses_what_is_no_list)
{
    char head[FAKE_HEAD_MAX];
    const struct fake_act act = act_with(head, "HTTP/1.1 200 OK", wrong_lists[_i]);
    struct talk talk = talk_start(&act, 1);
    struct seen seen = {0};
    ck_assert_int_eq(gemmd_tensor_list(talk.client, see, &seen, NULL), GEMMD_ERR_PROTOCOL);
    ck_assert_int_eq(seen.count, 0);
    talk_end(&talk);
}
END_TEST

START_TEST(follows_no_list_in_circles)
{
    char head[FAKE_HEAD_MAX];
    const struct fake_act act =
        act_with(head, "HTTP/1.1 200 OK", "{\"tensors\":[],\"next\":\"b\"}");
    struct talk talk = talk_start(&act, 1);
    ck_assert_int_eq(gemmd_tensor_list(talk.client, see, NULL, NULL), GEMMD_ERR_PROTOCOL);
    talk_stop(&talk);
    ck_assert_uint_eq(fake_request_count(talk.server), 2);
    fake_free(talk.server);
}
END_TEST

START_TEST(passes_a_refused_list_on)
{
    char head[FAKE_HEAD_MAX];
    const struct fake_act act = act_with(head, "HTTP/1.1 401 No", "");
    struct talk talk = talk_start(&act, 1);
    ck_assert_int_eq(gemmd_tensor_list(talk.client, see, NULL, NULL), GEMMD_ERR_UNAUTHORIZED);
    talk_end(&talk);
}
END_TEST

/* ---- Products of residents, and stored ones ---- */

START_TEST(computes_with_residents)
{
    char head[FAKE_HEAD_MAX];
    const struct fake_act act = case_act(head);
    struct talk talk = talk_start(&act, 1);
    struct gemmd_gemm gemm = case_gemm();
    float c[CASE_M * CASE_N];
    gemm.c = c;
    gemm.c_bytes = sizeof c;
    gemm.b = NULL;
    gemm.b_tensor = "weights";
    ck_assert_msg(gemmd_gemm(talk.client, &gemm, NULL, &talk.error) == GEMMD_OK, "%s",
                  talk.error.message);
    gemm.a = NULL;
    gemm.a_tensor = "x";
    ck_assert_msg(gemmd_gemm(talk.client, &gemm, NULL, &talk.error) == GEMMD_OK, "%s",
                  talk.error.message);
    talk_stop(&talk);
    const struct fake_request *one = fake_request(talk.server, 0),
                              *both = fake_request(talk.server, 1);
    ck_assert_ptr_nonnull(strstr(one->head, "&b=weights&timeout_ms="));
    ck_assert_uint_eq(one->body_bytes, sizeof case_a);
    ck_assert_mem_eq(one->body, case_a, sizeof case_a);
    ck_assert_ptr_nonnull(strstr(both->head, "&a=x&b=weights&"));
    ck_assert_ptr_nonnull(strstr(both->head, "\r\nContent-Length: 0\r\n"));
    fake_free(talk.server);
}
END_TEST

START_TEST(stores_a_product)
{
    static const char document[] =
        "{\"name\":\"c\",\"dtype\":\"f32\",\"shape\":[2,3],\"etag\":\"\\\"e\\\"\"}";
    char heads[2][FAKE_HEAD_MAX];
    const struct fake_act acts[] = {
        act_with(heads[0], "HTTP/1.1 201 Created\r\nGemmd-Kernel: tiled", document),
        act_with(heads[1], "HTTP/1.1 200 OK", ""),
    };
    struct talk talk = talk_start(acts, 2);
    struct gemmd_gemm gemm = case_gemm();
    gemm.store = "c";
    ck_assert_msg(gemmd_gemm(talk.client, &gemm, &talk.result, &talk.error) == GEMMD_OK, "%s",
                  talk.error.message);
    ck_assert_ptr_null(talk.result.data);
    ck_assert_int_eq(talk.result.put, GEMMD_PUT_CREATED);
    ck_assert_str_eq(talk.result.etag, "\"e\"");
    ck_assert_str_eq(talk.result.kernel, "tiled");
    ck_assert_uint_eq(talk.result.bytes, CASE_C_BYTES);
    ck_assert_int_eq(gemmd_gemm(talk.client, &gemm, &talk.result, NULL), GEMMD_OK);
    ck_assert_int_eq(talk.result.put, GEMMD_PUT_REPLACED);
    talk_stop(&talk);
    ck_assert_ptr_nonnull(strstr(fake_request(talk.server, 0)->head, "&store=c&timeout_ms="));
    fake_free(talk.server);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_tensor");
    TCase *tcase = tcase_create("client_tensor");
    tcase_add_loop_test(tcase, uploads_a_tensor, 0, sizeof uploads / sizeof uploads[0]);
    tcase_add_test(tcase, uploads_a_tensor_with_scales);
    tcase_add_test(tcase, uploads_nothing_that_is_there);
    tcase_add_test(tcase, notices_bytes_that_went_astray);
    tcase_add_test(tcase, takes_an_etag_that_is_known);
    tcase_add_test(tcase, says_what_a_content_is_called);
    tcase_add_test(tcase, refuses_what_is_no_tensor);
    tcase_add_loop_test(tcase, passes_refusals_on, 0, sizeof refusals / sizeof refusals[0]);
    tcase_add_test(tcase, looks_for_what_is_not_there);
    tcase_add_test(tcase, fetches_into_memory_of_either_side);
    tcase_add_test(tcase, fetches_scales_beside_the_tensor);
    tcase_add_loop_test(tcase, refuses_wrong_scales, 0,
                        sizeof wrong_scales / sizeof wrong_scales[0]);
    tcase_add_test(tcase, wants_a_file_if_it_asked_for_scales);
    tcase_add_test(tcase, asks_for_some_rows);
    tcase_add_test(tcase, fetches_no_scales_of_some_rows);
    tcase_add_test(tcase, asks_for_any_name);
    tcase_add_loop_test(tcase, refuses_an_answer_that_is_no_tensor, 0,
                        sizeof wrong_heads / sizeof wrong_heads[0]);
    tcase_add_test(tcase, starts_anew_after_a_broken_answer);
    tcase_add_test(tcase, looks_puts_fetches_and_deletes);
    tcase_add_test(tcase, lists_all_pages);
    tcase_add_loop_test(tcase, refuses_what_is_no_list, 0,
                        sizeof wrong_lists / sizeof wrong_lists[0]);
    tcase_add_test(tcase, follows_no_list_in_circles);
    tcase_add_test(tcase, passes_a_refused_list_on);
    tcase_add_test(tcase, computes_with_residents);
    tcase_add_test(tcase, stores_a_product);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
