/* server/http/digests.c: an answer whose payload the digester hashes is taken back, or keeps its
 * response. */
#include <check.h>
#include <gnutls/crypto.h>
#include <microhttpd.h>
#include <semaphore.h>
#include <stdlib.h>

#include "server/http/digest_fields.h"
#include "server/http/digester.h"
#include "server/http/digests.h"
#include "server/http/request.h"
#include "server/http/server.h"

static unsigned char bytes[] = "the payload of an answer";
static struct http_server server;
static struct request hashed, waiting;
static uint32_t destroyed; /* responses */
static sem_t ended;        /* posted when the digester wakes a request */
static sem_t go;           /* posted to let the digester go on */

/* Takes the place of libmicrohttpd's function: each request wants a digest. */
__attribute__((visibility("default"))) int MHD_get_connection_values(struct MHD_Connection *mhd,
                                                                     enum MHD_ValueKind kind,
                                                                     MHD_KeyValueIterator iterator,
                                                                     void *cls)
{
    (void)mhd;
    return iterator(cls, kind, "Want-Content-Digest", "sha-256=1") == MHD_YES;
}

static void hand_over(struct request *request)
{
    (void)request;
}

static void wake(struct request *request)
{
    ck_assert_ptr_eq(request, &hashed);
    sem_post(&ended);
    sem_wait(&go);
}

static ssize_t read_nothing(void *cls, uint64_t at, char *buffer, size_t max)
{
    (void)cls, (void)at, (void)buffer, (void)max;
    return MHD_CONTENT_READER_END_OF_STREAM;
}

static void count_destroyed(void *cls)
{
    (void)cls;
    destroyed++;
}

static void hand_answer_over(struct request *request)
{
    const struct payload payload = {.parts = {{bytes, sizeof bytes}}, .count = 1};
    *request = (struct request){.server = &server, .method = "GET"};
    ck_assert_int_eq(digests_open(request), GEMMD_OK);
    struct MHD_Response *response =
        MHD_create_response_from_callback(sizeof bytes, 4096, read_nothing, NULL, count_destroyed);
    ck_assert_ptr_nonnull(response);
    ck_assert(digests_hand_over(request, response, MHD_HTTP_OK, &payload));
    ck_assert(digests_has_answer(request->digests));
}

static void setup(void)
{
    destroyed = 0;
    ck_assert_int_eq(sem_init(&ended, 0, 0), 0);
    ck_assert_int_eq(sem_init(&go, 0, 0), 0);
    server.digester = digester_start((struct digester_hooks){hand_over, wake}, 1);
    ck_assert_ptr_nonnull(server.digester);
    hand_answer_over(&hashed);
    sem_wait(&ended); /* the digester hashes nothing until `go` is posted */
    hand_answer_over(&waiting);
}

static void teardown(void)
{
    digester_stop(server.digester);
    digester_destroy(server.digester);
    digests_close(hashed.digests);
    digests_close(waiting.digests);
    sem_destroy(&ended);
    sem_destroy(&go);
}

START_TEST(an_answer_that_waits_is_taken_back_and_destroyed)
{
    ck_assert(digests_withdraw(&waiting));
    ck_assert(!digests_has_answer(waiting.digests));
    ck_assert_uint_eq(destroyed, 1);
    sem_post(&go);
}
END_TEST

START_TEST(an_answer_that_was_hashed_is_not_taken_back)
{
    char expected[DIGEST_TEXT_MAX];
    unsigned char value[DIGEST_BYTES_MAX];
    uint64_t length;
    int status;
    ck_assert(digests_withdraw(&waiting));
    destroyed = 0;
    ck_assert(!digests_withdraw(&hashed));
    ck_assert(digests_has_answer(hashed.digests));
    ck_assert_uint_eq(destroyed, 0);
    sem_post(&go);
    struct MHD_Response *response = digests_take_answer(&hashed, &status, &length);
    ck_assert_ptr_nonnull(response);
    ck_assert_int_eq(status, MHD_HTTP_OK);
    ck_assert_uint_eq(length, sizeof bytes);
    gnutls_hash_fast(GNUTLS_DIG_SHA256, bytes, sizeof bytes, value);
    digest_write(DIGEST_SHA256, value, expected);
    ck_assert_str_eq(MHD_get_response_header(response, "Content-Digest"), expected);
    MHD_destroy_response(response);
    ck_assert_uint_eq(destroyed, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("digests");
    TCase *tests = tcase_create("answers");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, an_answer_that_waits_is_taken_back_and_destroyed);
    tcase_add_test(tests, an_answer_that_was_hashed_is_not_taken_back);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
