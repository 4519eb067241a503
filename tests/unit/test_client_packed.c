/* Packed weights of libgemmd: the file that is put, the file that is fetched, and their types. */
#include <check.h>
#include <gemmd/gemmd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_http.h"
#include "product_case.h"
#include "proto/safetensors.h"

/* A file of gptq with k=32 and n=8: qweight of 4 x 8 words whose bytes are 0 to 127, scales of
 * 1 x 8 elements of F16 that are 1, and qzeros of one word that is 0. */
struct file {
    char bytes[SAFETENSORS_HEADER_MAX + 256];
    size_t length;
};

/* Of "gptq:4\n", "qweight:I32:4,8\n", the bytes 0 to 127, "scales:F16:1,8\n", eight times the bytes
 * 0 and 60, "qzeros:I32:1,1\n" and four zero bytes, by sha256sum. */
#define ETAG "\"5b18e01deb09b7b028e9d0b861456f2f1d7292519ac48b345aa8b7a760ddb658\""

static void file_write(struct file *file)
{
    static const uint64_t shapes[3][2] = {{4, 8}, {1, 8}, {1, 1}};
    struct safetensors_entry entries[3] = {
        {.name = "qweight"}, {.name = "scales"}, {.name = "qzeros"}};
    const enum gemmd_dtype dtypes[] = {GEMMD_I32, GEMMD_F16, GEMMD_I32};
    for (int i = 0; i < 3; i++)
        ck_assert(tensor_init(&entries[i].tensor, dtypes[i], shapes[i], 2, NULL));
    file->length = safetensors_header(entries, 3, file->bytes);
    ck_assert_uint_ne(file->length, 0);
    for (int i = 0; i < 128; i++)
        file->bytes[file->length++] = (char)i;
    for (int i = 0; i < 8; i++, file->length += 2)
        memcpy(file->bytes + file->length, "\0\x3c", 2);
    memset(file->bytes + file->length, 0, 4);
    file->length += 4;
}

static struct gemmd_tensor_put put_of(const struct file *file)
{
    struct gemmd_tensor_put put;
    gemmd_tensor_put_init(&put, sizeof put);
    put.name = "w";
    put.format = "gptq";
    put.data = file->bytes;
    put.data_bytes = file->length;
    return put;
}

static const struct {
    const char *head;
    uint32_t bits;
    enum gemmd_put put;
    const char *line;
} uploads[] = {
    {"HTTP/1.1 201 Created\r\nETag: " ETAG "\r\nContent-Length: 0", 0, GEMMD_PUT_CREATED,
     "PUT /tensors/w?format=gptq HTTP/1.1\r\n"},
    {"HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0", 4, GEMMD_PUT_UNCHANGED,
     "PUT /tensors/w?format=gptq&bits=4 HTTP/1.1\r\n"},
};

START_TEST(puts_a_file)
{
    const struct fake_act act = {.head = uploads[_i].head, .take_bytes = FAKE_ALL};
    struct fake_server *server = fake_start(&act, 1);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    struct gemmd_error_info error;
    struct gemmd_result result;
    struct file file;
    file_write(&file);
    struct gemmd_tensor_put put = put_of(&file);
    put.bits = uploads[_i].bits;
    gemmd_result_init(&result, sizeof result);
    ck_assert_msg(gemmd_tensor_put(client, &put, &result, &error) == GEMMD_OK, "%s", error.message);
    ck_assert_int_eq(result.put, uploads[_i].put);
    ck_assert_str_eq(result.etag, ETAG);
    ck_assert_str_eq(result.type, "u4");
    ck_assert_int_eq(result.dtype, GEMMD_DTYPE_COUNT);
    ck_assert_uint_eq(result.rank, 2);
    ck_assert_uint_eq(result.dims[0], 32);
    ck_assert_uint_eq(result.dims[1], 8);
    ck_assert_uint_eq(result.bytes, file.length);
    gemmd_client_free(client);
    fake_stop(server);
    const struct fake_request *request = fake_request(server, 0);
    ck_assert_msg(strncmp(request->head, uploads[_i].line, strlen(uploads[_i].line)) == 0, "%s",
                  request->head);
    ck_assert_ptr_nonnull(
        strstr(request->head, "\r\nContent-Type: application/vnd.safetensors\r\n"));
    ck_assert_ptr_nonnull(strstr(request->head, "\r\nIf-None-Match: " ETAG "\r\n"));
    ck_assert_uint_eq(request->body_bytes, file.length);
    ck_assert_mem_eq(request->body, file.bytes, file.length);
    fake_free(server);
}
END_TEST

#define PACKED_HEAD                                                                                \
    "HTTP/1.1 200 OK\r\nGemmd-Shape: 32,8\r\nGemmd-Dtype: u4\r\nETag: " ETAG                       \
    "\r\nContent-Type: application/vnd.safetensors\r\n"

START_TEST(fetches_the_file)
{
    char head[FAKE_HEAD_MAX];
    struct file file;
    file_write(&file);
    snprintf(head, sizeof head, PACKED_HEAD "Content-Length: %zu", file.length);
    const struct fake_act acts[] = {
        {.head = head, .payload = file.bytes, .payload_bytes = file.length},
        {.head = head, .payload = file.bytes, .payload_bytes = file.length},
        {.head = head},
    };
    struct fake_server *server = fake_start(acts, 3);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    struct gemmd_error_info error;
    struct gemmd_result result;
    struct gemmd_call call;
    gemmd_call_init(&call, sizeof call);
    for (call.scales = 0; call.scales < 2; call.scales++) {
        gemmd_result_init(&result, sizeof result);
        ck_assert_msg(gemmd_tensor_get(client, "w", &call, &result, &error) == GEMMD_OK, "%s",
                      error.message);
        ck_assert_int_eq(result.dtype, GEMMD_DTYPE_COUNT);
        ck_assert_str_eq(result.type, "u4");
        ck_assert_uint_eq(result.bytes, file.length);
        ck_assert_mem_eq(result.data, file.bytes, file.length);
        ck_assert_ptr_null(result.scale);
        gemmd_free(result.data);
    }
    ck_assert_int_eq(gemmd_tensor_stat(client, "w", NULL, &result, &error), GEMMD_OK);
    ck_assert_uint_eq(result.bytes, file.length);
    ck_assert_uint_eq(result.dims[1], 8);
    gemmd_client_free(client);
    fake_stop(server);
    fake_free(server);
}
END_TEST

static const char *const wrong_heads[] = {
    /* no length, no file, and no type */
    PACKED_HEAD "Connection: close",
    "HTTP/1.1 200 OK\r\nGemmd-Shape: 32,8\r\nGemmd-Dtype: u4\r\nContent-Length: 0",
    ("HTTP/1.1 200 OK\r\nGemmd-Shape: 32,8\r\nGemmd-Dtype: \x1b[1m\r\nContent-Type: "
     "application/vnd.safetensors\r\nContent-Length: 0"),
};

START_TEST(refuses_an_answer_that_is_no_file)
{
    const struct fake_act act = {.head = wrong_heads[_i], .then = FAKE_CLOSE};
    struct fake_server *server = fake_start(&act, 1);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    struct gemmd_error_info error;
    ck_assert_int_eq(gemmd_tensor_get(client, "w", NULL, NULL, &error), GEMMD_ERR_PROTOCOL);
    gemmd_client_free(client);
    fake_stop(server);
    fake_free(server);
}
END_TEST

static void refuse(struct gemmd_tensor_put put, const char *field, const char *message)
{
    struct gemmd_client *client = case_client("http://127.0.0.1:1", 0);
    struct gemmd_error_info error;
    ck_assert_ptr_null(gemmd_tensor_put_submit(client, &put, &error));
    ck_assert_int_eq(error.code, GEMMD_ERR_USAGE);
    ck_assert_str_eq(error.field, field);
    ck_assert_msg(strstr(error.message, message) != NULL, "%s", error.message);
    gemmd_client_free(client);
}

START_TEST(refuses_what_is_no_file)
{
    struct file file;
    file_write(&file);
    struct gemmd_tensor_put put = put_of(&file);
    put.format = "gguf";
    refuse(put, "format", "format is 'gguf'");
    put.format = "none";
    refuse(put, "format", "format is none");
    put = put_of(&file);
    put.bits = 3;
    refuse(put, "bits", "it must be 4 or 8");
    put = put_of(&file);
    put.rank = 1;
    refuse(put, "format", "are for arrays");
    put = put_of(&file);
    put.data = NULL;
    refuse(put, "data", "must point to the file");
    put = put_of(&file);
    put.data_bytes -= 4;
    refuse(put, "", "safetensors");
    put = put_of(&file);
    put.format = "compressed-tensors";
    refuse(put, "weight_packed", "'weight_packed' is missing");
}
END_TEST

static void see(const struct gemmd_tensor *tensor, void *user)
{
    ck_assert_str_eq(tensor->type, "u4");
    ck_assert_str_eq(tensor->format, "gptq");
    ck_assert_uint_eq(tensor->group, 32);
    ck_assert_int_eq(tensor->dtype, GEMMD_DTYPE_COUNT);
    ck_assert_uint_eq(tensor->bytes, 148);
    (*(int *)user)++;
}

START_TEST(lists_the_type_the_format_and_the_group)
{
    static const char list[] = "{\"tensors\":[{\"name\":\"w\",\"dtype\":\"u4\",\"shape\":[32,8],"
                               "\"bytes\":148,\"format\":\"gptq\",\"group\":32}],\"next\":null}";
    char head[FAKE_HEAD_MAX];
    int seen = 0;
    snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %zu", strlen(list));
    const struct fake_act act = {.head = head, .payload = list, .payload_bytes = strlen(list)};
    struct fake_server *server = fake_start(&act, 1);
    struct gemmd_client *client = case_client(fake_url(server), 0);
    ck_assert_int_eq(gemmd_tensor_list(client, see, &seen, NULL), GEMMD_OK);
    ck_assert_int_eq(seen, 1);
    gemmd_client_free(client);
    fake_stop(server);
    fake_free(server);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_packed");
    TCase *tcase = tcase_create("client_packed");
    tcase_add_loop_test(tcase, puts_a_file, 0, sizeof uploads / sizeof uploads[0]);
    tcase_add_test(tcase, fetches_the_file);
    tcase_add_loop_test(tcase, refuses_an_answer_that_is_no_file, 0,
                        sizeof wrong_heads / sizeof wrong_heads[0]);
    tcase_add_test(tcase, refuses_what_is_no_file);
    tcase_add_test(tcase, lists_the_type_the_format_and_the_group);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
