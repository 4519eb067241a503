/* Sequences through libgemmd: what is asked, and what is made of the answers. */
#include <check.h>
#include <gemmd/gemmd.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_http.h"
#include "product_case.h"

#define DESCRIPTION                                                                                \
    "{\"name\":\"chat\",\"dtype\":\"f16\",\"kv_heads\":8,\"d\":128,\"dv\":64,\"layers\":2,"        \
    "\"length\":70,\"lengths\":[71,70],\"etag\":\"\\\"5c-8d\\\"\",\"memory_bytes\":2101248,"       \
    "\"devices\":[0]}"

/* A conversation: one server that answers each request with `document`, and one client. */
struct talk {
    struct fake_act act;
    char head[FAKE_HEAD_MAX];
    struct fake_server *server;
    struct gemmd_client *client;
    struct gemmd_sequence sequence;
    struct gemmd_error_info error;
};

static void talk_start(struct talk *talk, const char *lines, const char *document)
{
    snprintf(talk->head, sizeof talk->head, "%s\r\nContent-Length: %zu", lines, strlen(document));
    talk->act = (struct fake_act){.head = talk->head,
                                  .payload = document,
                                  .payload_bytes = strlen(document),
                                  .take_bytes = FAKE_ALL};
    talk->server = fake_start(&talk->act, 1);
    talk->client = case_client(fake_url(talk->server), 0);
    talk->sequence.size = sizeof talk->sequence;
}

/* Ends the conversation, in which the client must have sent one request with the line `line`, and
 * returns the request until talk_free. */
static const struct fake_request *talk_end(struct talk *talk, const char *line)
{
    gemmd_client_free(talk->client);
    fake_stop(talk->server);
    ck_assert_uint_eq(fake_request_count(talk->server), 1);
    const struct fake_request *request = fake_request(talk->server, 0);
    ck_assert_msg(strncmp(request->head, line, strlen(line)) == 0, "%s", request->head);
    return request;
}

static void check_description(const struct gemmd_sequence *sequence)
{
    ck_assert_str_eq(sequence->name, "chat");
    ck_assert_str_eq(sequence->etag, "\"5c-8d\"");
    ck_assert_int_eq(sequence->dtype, GEMMD_F16);
    ck_assert_uint_eq(sequence->kv_heads, 8);
    ck_assert_uint_eq(sequence->d, 128);
    ck_assert_uint_eq(sequence->dv, 64);
    ck_assert_uint_eq(sequence->layers, 2);
    ck_assert_uint_eq(sequence->length, 70);
    ck_assert_uint_eq(sequence->lengths[0], 71);
    ck_assert_uint_eq(sequence->lengths[1], 70);
    ck_assert_uint_eq(sequence->lengths[2], 0);
    ck_assert_uint_eq(sequence->memory_bytes, 2101248);
}

START_TEST(creates_a_sequence)
{
    struct talk talk = {0};
    struct gemmd_sequence_put put;
    talk_start(&talk, "HTTP/1.1 201 Created", DESCRIPTION);
    gemmd_sequence_put_init(&put, sizeof put);
    put.name = "chat";
    put.kv_heads = 8;
    put.d = 128;
    put.dv = 64;
    put.layers = 2;
    put.request_id = "mine";
    const enum gemmd_error code =
        gemmd_sequence_put(talk.client, &put, &talk.sequence, &talk.error);
    ck_assert_msg(code == GEMMD_OK, "%s", talk.error.message);
    check_description(&talk.sequence);
    const struct fake_request *request = talk_end(
        &talk, "PUT /sequences/chat?kv_heads=8&d=128&dv=64&dtype=f16&layers=2 HTTP/1.1\r\n");
    ck_assert_ptr_nonnull(strstr(request->head, "\r\nX-Request-Id: mine\r\n"));
    ck_assert_ptr_nonnull(strstr(request->head, "\r\nAuthorization: Bearer secret\r\n"));
    fake_free(talk.server);
}
END_TEST

START_TEST(forks_a_sequence)
{
    struct talk talk = {0};
    struct gemmd_sequence_put put;
    talk_start(&talk, "HTTP/1.1 200 OK", DESCRIPTION);
    gemmd_sequence_put_init(&put, sizeof put);
    put.name = "reply";
    put.fork = "chat";
    put.has_length = 1;
    ck_assert_int_eq(gemmd_sequence_put(talk.client, &put, NULL, &talk.error), GEMMD_OK);
    talk_end(&talk, "PUT /sequences/reply?fork=chat&length=0 HTTP/1.1\r\n");
    fake_free(talk.server);
}
END_TEST

START_TEST(appends_positions)
{
    static const char k[] = {1, 2, 3, 4}, v[] = {5, 6};
    struct talk talk = {0};
    struct gemmd_sequence_append append;
    talk_start(&talk, "HTTP/1.1 200 OK", DESCRIPTION);
    gemmd_sequence_append_init(&append, sizeof append);
    append.name = "chat";
    append.layer = 1;
    append.position = 70;
    append.layout = GEMMD_LAYOUT_BSHD;
    append.k = k;
    append.k_bytes = sizeof k;
    append.v = v;
    append.v_bytes = sizeof v;
    const enum gemmd_error code =
        gemmd_sequence_append(talk.client, &append, &talk.sequence, &talk.error);
    ck_assert_msg(code == GEMMD_OK, "%s", talk.error.message);
    check_description(&talk.sequence);
    const struct fake_request *request =
        talk_end(&talk, "POST /sequences/chat/append?position=70&layer=1&layout=bshd HTTP/1.1\r\n");
    ck_assert_uint_eq(request->body_bytes, 6);
    ck_assert_mem_eq(request->body, ((const char[]){1, 2, 3, 4, 5, 6}), 6);
    fake_free(talk.server);
}
END_TEST

START_TEST(fetches_positions)
{
    struct talk talk = {0};
    struct gemmd_sequence_get get;
    struct gemmd_result result;
    talk_start(&talk, "HTTP/1.1 200 OK\r\nGemmd-Dtype: bf16", "KKKKVV");
    gemmd_result_init(&result, sizeof result);
    gemmd_sequence_get_init(&get, sizeof get);
    get.name = "chat";
    get.position = 3;
    get.count = 1;
    const enum gemmd_error code = gemmd_sequence_get(talk.client, &get, &result, &talk.error);
    ck_assert_msg(code == GEMMD_OK, "%s", talk.error.message);
    ck_assert_uint_eq(result.bytes, 6);
    ck_assert_mem_eq(result.data, "KKKKVV", 6);
    ck_assert_uint_eq(result.rank, 0);
    ck_assert_int_eq(result.dtype, GEMMD_BF16);
    gemmd_free(result.data);
    talk_end(&talk, "GET /sequences/chat/kv?position=3&count=1 HTTP/1.1\r\n");
    fake_free(talk.server);
}
END_TEST

START_TEST(fetches_no_more_than_its_memory_takes)
{
    char data[5];
    struct talk talk = {0};
    struct gemmd_sequence_get get;
    talk_start(&talk, "HTTP/1.1 200 OK\r\nGemmd-Dtype: bf16", "KKKKVV");
    gemmd_sequence_get_init(&get, sizeof get);
    get.name = "chat";
    get.data = data;
    get.bytes = sizeof data;
    ck_assert_int_eq(gemmd_sequence_get(talk.client, &get, NULL, &talk.error), GEMMD_ERR_USAGE);
    ck_assert_str_eq(talk.error.field, "bytes");
    talk_end(&talk, "GET /sequences/chat/kv?position=0 HTTP/1.1\r\n");
    fake_free(talk.server);
}
END_TEST

START_TEST(needs_the_type_of_what_it_fetches)
{
    struct talk talk = {0};
    struct gemmd_sequence_get get;
    talk_start(&talk, "HTTP/1.1 200 OK", "KKKKVV");
    gemmd_sequence_get_init(&get, sizeof get);
    get.name = "chat";
    ck_assert_int_eq(gemmd_sequence_get(talk.client, &get, NULL, &talk.error), GEMMD_ERR_PROTOCOL);
    talk_end(&talk, "GET /sequences/chat/kv?position=0 HTTP/1.1\r\n");
    fake_free(talk.server);
}
END_TEST

START_TEST(truncates_looks_and_deletes)
{
    struct talk talk = {0};
    talk_start(&talk, "HTTP/1.1 200 OK", DESCRIPTION);
    ck_assert_int_eq(
        gemmd_sequence_truncate(talk.client, "chat", 70, NULL, &talk.sequence, &talk.error),
        GEMMD_OK);
    check_description(&talk.sequence);
    talk_end(&talk, "POST /sequences/chat/truncate?length=70 HTTP/1.1\r\n");
    fake_free(talk.server);

    talk_start(&talk, "HTTP/1.1 200 OK", DESCRIPTION);
    talk.sequence.name[0] = '\0';
    ck_assert_int_eq(gemmd_sequence_stat(talk.client, "chat", NULL, &talk.sequence, &talk.error),
                     GEMMD_OK);
    check_description(&talk.sequence);
    talk_end(&talk, "GET /sequences/chat HTTP/1.1\r\n");
    fake_free(talk.server);

    talk_start(&talk, "HTTP/1.1 204 No Content", "");
    ck_assert_int_eq(gemmd_sequence_delete(talk.client, "chat", NULL, &talk.error), GEMMD_OK);
    talk_end(&talk, "DELETE /sequences/chat HTTP/1.1\r\n");
    fake_free(talk.server);
}
END_TEST

START_TEST(describes_once_the_answer_is_there)
{
    struct talk talk = {0};
    talk_start(&talk, "HTTP/1.1 200 OK", DESCRIPTION);
    struct gemmd_request *request =
        gemmd_sequence_stat_submit(talk.client, "chat", NULL, &talk.error);
    ck_assert_int_eq(gemmd_request_sequence(request, &talk.sequence, &talk.error),
                     GEMMD_ERR_CONFLICT);
    ck_assert_int_eq(gemmd_wait(request, -1), 1);
    ck_assert_int_eq(gemmd_request_sequence(request, &talk.sequence, &talk.error), GEMMD_OK);
    check_description(&talk.sequence);
    gemmd_request_free(request);
    talk_end(&talk, "GET /sequences/chat HTTP/1.1\r\n");
    fake_free(talk.server);

    talk_start(&talk, "HTTP/1.1 204 No Content", "");
    request = gemmd_sequence_delete_submit(talk.client, "chat", NULL, &talk.error);
    ck_assert_int_eq(gemmd_wait(request, -1), 1);
    ck_assert_int_eq(gemmd_request_sequence(request, &talk.sequence, &talk.error), GEMMD_ERR_USAGE);
    gemmd_request_free(request);
    talk_end(&talk, "DELETE /sequences/chat HTTP/1.1\r\n");
    fake_free(talk.server);
}
END_TEST

/* Documents that describe no sequence. */
#define FRONT "{\"name\":\"chat\",\"dtype\":\"f16\",\"kv_heads\":8,\"d\":128,\"dv\":64,"
static const char *const wrong_documents[] = {
    "",
    "[]",
    "{\"dtype\":\"f16\",\"kv_heads\":8,\"d\":1,\"dv\":1,\"layers\":1,\"length\":0,\"lengths\":[0]}",
    "{\"name\":\"chat\",\"kv_heads\":8,\"d\":1,\"dv\":1,\"layers\":1,\"length\":0,\"lengths\":[0]}",
    "{\"name\":\"chat\",\"dtype\":\"f16\",\"kv_heads\":0,\"d\":1,\"dv\":1,\"layers\":1,"
    "\"length\":0,\"lengths\":[0]}",
    FRONT "\"layers\":1,\"lengths\":[0]}",
    FRONT "\"layers\":1,\"length\":-1,\"lengths\":[0]}",
    FRONT "\"layers\":0,\"length\":0,\"lengths\":[]}",
    FRONT "\"layers\":2,\"length\":0,\"lengths\":[0]}",
    FRONT "\"layers\":1,\"length\":0,\"lengths\":[-1]}",
    FRONT "\"layers\":1,\"length\":0,\"lengths\":[\"0\"]}",
    FRONT "\"layers\":257,\"length\":0,\"lengths\":[0]}",
};

START_TEST(refuses_an_answer_that_describes_no_sequence)
{
    struct talk talk = {0};
    talk_start(&talk, "HTTP/1.1 200 OK", wrong_documents[_i]);
    ck_assert_int_eq(gemmd_sequence_stat(talk.client, "chat", NULL, &talk.sequence, &talk.error),
                     GEMMD_ERR_PROTOCOL);
    talk_end(&talk, "GET /sequences/chat HTTP/1.1\r\n");
    fake_free(talk.server);
}
END_TEST

START_TEST(takes_a_type_of_a_newer_daemon)
{
    struct talk talk = {0};
    talk_start(&talk, "HTTP/1.1 200 OK",
               "{\"name\":\"n\",\"dtype\":\"f6_e3m2\",\"kv_heads\":8,\"d\":1,\"dv\":1,"
               "\"layers\":1,\"length\":0,\"lengths\":[0]}");
    ck_assert_int_eq(gemmd_sequence_stat(talk.client, "n", NULL, &talk.sequence, &talk.error),
                     GEMMD_OK);
    ck_assert_int_eq(talk.sequence.dtype, GEMMD_DTYPE_COUNT);
    talk_end(&talk, "GET /sequences/n HTTP/1.1\r\n");
    fake_free(talk.server);
}
END_TEST

static void see(const struct gemmd_sequence *sequence, void *user)
{
    check_description(sequence);
    ++*(int *)user;
}

START_TEST(lists_sequences)
{
    struct talk talk = {0};
    int seen = 0;
    talk_start(&talk, "HTTP/1.1 200 OK",
               "{\"sequences\":[" DESCRIPTION "," DESCRIPTION "],\"next\":null}");
    ck_assert_int_eq(gemmd_sequence_list(talk.client, see, &seen, &talk.error), GEMMD_OK);
    ck_assert_int_eq(seen, 2);
    talk_end(&talk, "GET /sequences HTTP/1.1\r\n");
    fake_free(talk.server);

    seen = 0;
    talk_start(&talk, "HTTP/1.1 200 OK", "{\"sequences\":[" DESCRIPTION ",{}],\"next\":null}");
    ck_assert_int_eq(gemmd_sequence_list(talk.client, see, &seen, &talk.error), GEMMD_ERR_PROTOCOL);
    ck_assert_int_eq(seen, 0);
    talk_end(&talk, "GET /sequences HTTP/1.1\r\n");
    fake_free(talk.server);
}
END_TEST

START_TEST(refuses_what_cannot_be_asked)
{
    struct gemmd_client *client = case_client("127.0.0.1:1", 0);
    struct gemmd_error_info error;
    struct gemmd_sequence_put put;
    gemmd_sequence_put_init(&put, sizeof put);
    put.name = "no/name";
    ck_assert_int_eq(gemmd_sequence_put(client, &put, NULL, &error), GEMMD_ERR_USAGE);
    ck_assert_str_eq(error.field, "name");
    ck_assert_ptr_nonnull(strstr(error.message, "not the name of a sequence"));
    put.name = "n";
    put.kv_heads = 1;
    ck_assert_int_eq(gemmd_sequence_put(client, &put, NULL, &error), GEMMD_ERR_USAGE);
    ck_assert_str_eq(error.field, "d");
    put.d = 8;
    put.layers = 257;
    ck_assert_int_eq(gemmd_sequence_put(client, &put, NULL, &error), GEMMD_ERR_USAGE);
    ck_assert_str_eq(error.field, "layers");
    put.layers = 1;
    put.fork = "m";
    ck_assert_int_eq(gemmd_sequence_put(client, &put, NULL, &error), GEMMD_ERR_USAGE);
    ck_assert_str_eq(error.field, "kv_heads");
    put.size--;
    ck_assert_int_eq(gemmd_sequence_put(client, &put, NULL, &error), GEMMD_ERR_USAGE);

    struct gemmd_sequence_append append;
    gemmd_sequence_append_init(&append, sizeof append);
    append.name = "n";
    append.k = "k";
    append.k_bytes = 1;
    ck_assert_int_eq(gemmd_sequence_append(client, &append, NULL, &error), GEMMD_ERR_USAGE);
    ck_assert_str_eq(error.field, "v");
    append.v = "v";
    append.v_bytes = UINT64_MAX;
    ck_assert_int_eq(gemmd_sequence_append(client, &append, NULL, &error), GEMMD_ERR_USAGE);
    ck_assert_str_eq(error.field, "v_bytes");
    append.layout = (enum gemmd_layout)7;
    ck_assert_int_eq(gemmd_sequence_append(client, &append, NULL, &error), GEMMD_ERR_USAGE);
    ck_assert_str_eq(error.field, "layout");
    ck_assert_int_eq(gemmd_sequence_delete(client, NULL, NULL, &error), GEMMD_ERR_USAGE);
    gemmd_client_free(client);
}
END_TEST

/* Two queries of two heads of 2 over one head of keys and values. */
static struct gemmd_attention sequence_attention(void)
{
    struct gemmd_attention attention;
    gemmd_attention_init(&attention, sizeof attention);
    attention.heads = 2;
    attention.kv_heads = 1;
    attention.sq = 2;
    attention.d = 2;
    attention.dtype = GEMMD_F32;
    attention.q = "qqqqQQQQqqqqQQQQqqqqQQQQqqqqQQQQ";
    attention.sequence = "chat";
    return attention;
}

#define O "oooooooooooooooooooooooooooooooo"
#define O_HEAD "HTTP/1.1 200 OK\r\nGemmd-Shape: 1,2,2,2\r\nGemmd-Dtype: f32"

START_TEST(attends_to_a_sequence)
{
    struct talk talk = {0};
    struct gemmd_attention attention = sequence_attention();
    char o[32];
    attention.layer = 3;
    attention.o = o;
    attention.o_bytes = sizeof o;
    talk_start(&talk, O_HEAD, O);
    const enum gemmd_error code = gemmd_attention(talk.client, &attention, NULL, &talk.error);
    ck_assert_msg(code == GEMMD_OK, "%s", talk.error.message);
    ck_assert_mem_eq(o, O, sizeof o);
    const struct fake_request *request =
        talk_end(&talk, "POST /attention?heads=2&kv_heads=1&sq=2&d=2&dtype=f32&sequence=chat"
                        "&layer=3&timeout_ms=");
    ck_assert_uint_eq(request->body_bytes, 32);
    fake_free(talk.server);
}
END_TEST

START_TEST(attends_to_what_it_appends)
{
    struct talk talk = {0};
    struct gemmd_attention attention = sequence_attention();
    char o[32];
    attention.append = 1;
    attention.k = "kkkkkkkkkkkkkkkk";
    attention.v = "vvvvvvvvvvvvvvvv";
    attention.o = o;
    attention.o_bytes = sizeof o;
    talk_start(&talk, O_HEAD, O);
    const enum gemmd_error code = gemmd_attention(talk.client, &attention, NULL, &talk.error);
    ck_assert_msg(code == GEMMD_OK, "%s", talk.error.message);
    const struct fake_request *request =
        talk_end(&talk, "POST /attention?heads=2&kv_heads=1&sq=2&d=2&dtype=f32&sequence=chat"
                        "&append=1&position=0&timeout_ms=");
    ck_assert_uint_eq(request->body_bytes, 64);
    ck_assert_mem_eq(request->body + 32, "kkkkkkkkkkkkkkkkvvvvvvvvvvvvvvvv", 32);
    fake_free(talk.server);
}
END_TEST

START_TEST(refuses_attentions_that_contradict)
{
    struct gemmd_client *client = case_client("127.0.0.1:1", 0);
    struct gemmd_result result;
    struct gemmd_error_info error;
    struct gemmd_attention attention = sequence_attention();
    gemmd_result_init(&result, sizeof result);
    attention.v = "vvvvvvvvvvvvvvvv";
    ck_assert_int_eq(gemmd_attention(client, &attention, &result, &error), GEMMD_ERR_USAGE);
    ck_assert_str_eq(error.field, "v");
    attention.append = 1;
    ck_assert_int_eq(gemmd_attention(client, &attention, &result, &error), GEMMD_ERR_USAGE);
    ck_assert_str_eq(error.field, "k");
    attention.k = attention.v;
    attention.skv = 2;
    ck_assert_int_eq(gemmd_attention(client, &attention, &result, &error), GEMMD_ERR_USAGE);
    ck_assert_str_eq(error.field, "skv");
    attention.skv = 0;
    attention.sequence = NULL;
    ck_assert_int_eq(gemmd_attention(client, &attention, &result, &error), GEMMD_ERR_USAGE);
    ck_assert_str_eq(error.field, "append");
    attention = sequence_attention();
    attention.mask = "m";
    attention.mask_kind = GEMMD_MASK_BOOL;
    ck_assert_int_eq(gemmd_attention(client, &attention, &result, &error), GEMMD_ERR_USAGE);
    ck_assert_str_eq(error.field, "skv");
    gemmd_client_free(client);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_sequence");
    TCase *tcase = tcase_create("client_sequence");
    tcase_add_test(tcase, creates_a_sequence);
    tcase_add_test(tcase, forks_a_sequence);
    tcase_add_test(tcase, appends_positions);
    tcase_add_test(tcase, fetches_positions);
    tcase_add_test(tcase, fetches_no_more_than_its_memory_takes);
    tcase_add_test(tcase, needs_the_type_of_what_it_fetches);
    tcase_add_test(tcase, truncates_looks_and_deletes);
    tcase_add_test(tcase, describes_once_the_answer_is_there);
    tcase_add_loop_test(tcase, refuses_an_answer_that_describes_no_sequence, 0,
                        sizeof wrong_documents / sizeof wrong_documents[0]);
    tcase_add_test(tcase, takes_a_type_of_a_newer_daemon);
    tcase_add_test(tcase, lists_sequences);
    tcase_add_test(tcase, refuses_what_cannot_be_asked);
    tcase_add_test(tcase, attends_to_a_sequence);
    tcase_add_test(tcase, attends_to_what_it_appends);
    tcase_add_test(tcase, refuses_attentions_that_contradict);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
