/* client/shared_memory.c: how a client uses shared memory, against a daemon that this file fakes.
 */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/client.h"
#include "client/mapping.h"

enum { SIDE = 4, BYTES = SIDE * SIDE * 4, ANSWERS_MAX = 8, CONNECTIONS_MAX = 8 };

/* It copies A to C where both are, and answers with what the test says. */
static struct {
    int listening;
    pthread_t thread;
    int answers[ANSWERS_MAX];  /* statuses; 0: it hangs up */
    uint32_t answered, shared; /* requests, and requests that named locations */
    unsigned long long a, c;   /* of the last of these */
    uint64_t body;             /* Content-Length of the last */
} fake;
static char url[64];
static struct gemmd_client *client;
static float a[SIDE * SIDE], b[SIDE * SIDE], c[SIDE * SIDE];

/* An empty line with a descriptor, if that is what comes first: the memory. */
static char *introduction(int fd, size_t *bytes)
{
    char line[2], control[CMSG_SPACE(sizeof(int))];
    struct iovec part = {line, sizeof line};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    int memory;
    if (recv(fd, line, sizeof line, MSG_PEEK | MSG_WAITALL) != 2 || memcmp(line, "\r\n", 2) != 0)
        return NULL;
    ck_assert_int_eq(recvmsg(fd, &message, 0), 2);
    ck_assert_ptr_nonnull(CMSG_FIRSTHDR(&message));
    memcpy(&memory, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof memory);
    *bytes = (size_t)lseek(memory, 0, SEEK_END);
    char *start = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    close(memory);
    ck_assert_ptr_ne(start, MAP_FAILED);
    return start;
}

/* The head of a request, and its body into nothing. False: there is none any more. */
static bool read_request(int fd, char *head, size_t room)
{
    size_t length = 0;
    head[0] = '\0';
    while (strstr(head, "\r\n\r\n") == NULL) {
        if (length + 1 == room || recv(fd, head + length, 1, 0) != 1)
            return false;
        head[++length] = '\0';
    }
    const char *field = strstr(head, "Content-Length: ");
    ck_assert_ptr_nonnull(field);
    fake.body = strtoull(field + 16, NULL, 10);
    for (uint64_t i = 0; i < fake.body; i++)
        if (recv(fd, &(char){0}, 1, 0) != 1)
            return false;
    return true;
}

static void send_answer(int fd, int status, const char *payload, size_t bytes)
{
    char head[256];
    int length = snprintf(head, sizeof head,
                          "HTTP/1.1 %d OK\r\nContent-Length: %zu\r\nGemmd-Shape: 4,4\r\n"
                          "Gemmd-Dtype: f32\r\n\r\n",
                          status, bytes);
    (void)!send(fd, head, (size_t)length, MSG_NOSIGNAL);
    (void)!send(fd, payload, bytes, MSG_NOSIGNAL);
}

static void *serve(void *argument)
{
    const int fd = *(int *)argument;
    char head[4096];
    size_t bytes = 0;
    char *memory = introduction(fd, &bytes);
    while (read_request(fd, head, sizeof head)) {
        const char *places = strstr(head, "Gemmd-Memory: a=");
        const int status = fake.answers[fake.answered++];
        ck_assert_int_eq(memory != NULL, places != NULL);
        if (status == 0)
            break;
        if (places != NULL) {
            fake.shared++;
            ck_assert_int_eq(
                sscanf(places, "Gemmd-Memory: a=%llu, b=%*u, c=%llu", &fake.a, &fake.c), 2);
            if (status == 200)
                memcpy(memory + fake.c, memory + fake.a, BYTES);
            send_answer(fd, status, "", 0);
        } else {
            send_answer(fd, status, (const char *)a, BYTES);
        }
    }
    if (memory != NULL)
        munmap(memory, bytes);
    close(fd);
    return NULL;
}

/* A connection that is idle stays open while the client uses another. */
static void *run(void *unused)
{
    pthread_t threads[CONNECTIONS_MAX];
    int fds[CONNECTIONS_MAX];
    uint32_t count = 0;
    (void)unused;
    while (count < CONNECTIONS_MAX && (fds[count] = accept(fake.listening, NULL, NULL)) >= 0) {
        ck_assert_int_eq(pthread_create(&threads[count], NULL, serve, &fds[count]), 0);
        count++;
    }
    while (count > 0)
        pthread_join(threads[--count], NULL);
    return NULL;
}

static void start(const struct gemmd_options *options)
{
    struct gemmd_error_info error;
    struct gemmd_options given = *options;
    given.url = url;
    given.max_in_flight = 1;
    client = gemmd_client_new(&given, &error);
    ck_assert_msg(client != NULL, "%s", error.message);
}

static void open_fake(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memset(&fake, 0, sizeof fake);
    for (int i = 0; i < ANSWERS_MAX; i++)
        fake.answers[i] = 200;
    snprintf(url, sizeof url, "unix:/tmp/gemmd-unit-%d", (int)getpid());
    snprintf(address.sun_path, sizeof address.sun_path, "%s", url + 5);
    unlink(address.sun_path);
    fake.listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(fake.listening, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(fake.listening, 8), 0);
    ck_assert_int_eq(pthread_create(&fake.thread, NULL, run, NULL), 0);
    for (int i = 0; i < SIDE * SIDE; i++)
        a[i] = (float)i;
}

static void close_fake(void)
{
    gemmd_client_free(client); /* which ends the connection that is served */
    client = NULL;
    shutdown(fake.listening, SHUT_RDWR);
    pthread_join(fake.thread, NULL);
    close(fake.listening);
    unlink(url + 5);
}

static enum gemmd_error multiply(const void *left, void *product, struct gemmd_result *result,
                                 uint32_t timeout_ms)
{
    struct gemmd_error_info error;
    struct gemmd_gemm gemm;
    gemmd_gemm_init(&gemm, sizeof gemm);
    gemm.m = gemm.n = gemm.k = SIDE;
    gemm.a = left;
    gemm.b = b;
    gemm.c = product;
    gemm.c_bytes = BYTES;
    gemm.timeout_ms = timeout_ms;
    gemmd_result_init(result, sizeof *result);
    memset(product, 0, BYTES);
    return gemmd_gemm(client, &gemm, result, &error);
}

static struct gemmd_options options_of(enum gemmd_shared shared, uint64_t bytes)
{
    struct gemmd_options options;
    gemmd_options_init(&options, sizeof options);
    options.shared = shared;
    options.shared_bytes = bytes;
    return options;
}

START_TEST(operands_are_copied_and_the_result_too)
{
    struct gemmd_result result;
    const struct gemmd_options options = options_of(GEMMD_SHARED_ALWAYS, 4096);
    start(&options);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(multiply(a, c, &result, 0), GEMMD_OK);
        ck_assert_int_eq(memcmp(a, c, BYTES), 0);
        ck_assert_int_eq(result.shared, 1);
        ck_assert_ptr_eq(result.data, c);
        ck_assert_uint_eq(fake.body, 0);
        ck_assert_uint_eq(fake.a, 0); /* the same block each time */
    }
    ck_assert(!mapping_is_in_use(client->shared_memory.mapping));
}
END_TEST

START_TEST(what_lies_in_its_memory_is_not_copied)
{
    struct gemmd_result result;
    const struct gemmd_options options = options_of(GEMMD_SHARED_AUTO, 1 << 20);
    start(&options);
    char *start_of = gemmd_memory_alloc(client, 64, NULL);
    float *left = gemmd_memory_alloc(client, BYTES, NULL);
    float *product = gemmd_memory_alloc(client, BYTES, NULL);
    memcpy(left, a, BYTES);
    ck_assert_int_eq(multiply(left, product, &result, 0), GEMMD_OK);
    ck_assert_int_eq(result.shared, 1);
    ck_assert_uint_eq(fake.a, (uint64_t)((char *)left - start_of));
    ck_assert_uint_eq(fake.c, (uint64_t)((char *)product - start_of));
    ck_assert_int_eq(memcmp(a, product, BYTES), 0);
    gemmd_memory_free(client, left);
    gemmd_memory_free(client, product);
    gemmd_memory_free(client, start_of);
    gemmd_memory_free(client, NULL);
    ck_assert(!mapping_is_in_use(client->shared_memory.mapping));
    /* More than there is comes from elsewhere, and goes back there. */
    char *large = gemmd_memory_alloc(client, 2 << 20, NULL);
    memset(large, 1, 2 << 20);
    gemmd_memory_free(client, large);
}
END_TEST

START_TEST(small_ones_go_through_the_socket)
{
    struct gemmd_result result;
    const struct gemmd_options options = options_of(GEMMD_SHARED_AUTO, 0);
    start(&options);
    ck_assert_int_eq(multiply(a, c, &result, 0), GEMMD_OK);
    ck_assert_int_eq(result.shared, 0);
    ck_assert_uint_eq(fake.body, 2 * BYTES);
}
END_TEST

START_TEST(a_daemon_that_takes_none_is_asked_once)
{
    struct gemmd_result result;
    const struct gemmd_options options = options_of(GEMMD_SHARED_AUTO, 1 << 20);
    fake.answers[0] = _i == 0 ? 501 : 507;
    start(&options);
    float *left = gemmd_memory_alloc(client, BYTES, NULL);
    memcpy(left, a, BYTES);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(multiply(left, c, &result, 0), GEMMD_OK);
        ck_assert_int_eq(result.shared, 0);
        ck_assert_int_eq(memcmp(a, c, BYTES), 0);
        ck_assert_uint_eq(fake.shared, 1);
        ck_assert_uint_eq(fake.body, 2 * BYTES);
    }
    gemmd_memory_free(client, left);
    ck_assert(!mapping_is_in_use(client->shared_memory.mapping));
    /* The daemon has not begun the request, so the library's own block can be used again. */
    struct mapping *mapping = client->shared_memory.mapping;
    void *whole = mapping_take(mapping, mapping_bytes(mapping));
    ck_assert_ptr_nonnull(whole);
    ck_assert(mapping_give(mapping, whole));
}
END_TEST

START_TEST(one_that_has_to_take_it_fails)
{
    struct gemmd_result result;
    const struct gemmd_options options = options_of(GEMMD_SHARED_ALWAYS, 128);
    fake.answers[0] = 501;
    start(&options);
    ck_assert_int_eq(multiply(a, c, &result, 0), GEMMD_ERR_OUT_OF_MEMORY); /* no room for it */
    gemmd_client_free(client);
    const struct gemmd_options more = options_of(GEMMD_SHARED_ALWAYS, 4096);
    start(&more);
    ck_assert_int_eq(multiply(a, c, &result, 0), GEMMD_ERR_NOT_IMPLEMENTED);
    ck_assert_uint_eq(fake.answered, 1);
}
END_TEST

/* What may still be written to is given to no other; a repeat of the same has it again. */
START_TEST(a_block_that_may_be_written_to_is_lost)
{
    struct gemmd_result result;
    const struct gemmd_options options = options_of(GEMMD_SHARED_ALWAYS, 512);
    fake.answers[0] = 504;
    fake.answers[1] = 0;
    start(&options);
    ck_assert_int_eq(multiply(a, c, &result, 0), GEMMD_ERR_DEADLINE);
    ck_assert(!mapping_is_in_use(client->shared_memory.mapping));
    ck_assert_int_eq(multiply(a, c, &result, 0), GEMMD_OK); /* the second time */
    ck_assert_uint_gt(fake.a, 0);
    ck_assert(!mapping_is_in_use(client->shared_memory.mapping));
    const uint32_t number = mapping_number(client->shared_memory.mapping);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(multiply(a, c, &result, 0), GEMMD_OK);
    ck_assert_int_eq(memcmp(a, c, BYTES), 0);
    ck_assert_uint_gt(mapping_number(client->shared_memory.mapping),
                      number); /* too much of it was lost */
}
END_TEST

START_TEST(a_memory_grows_with_what_is_asked_of_it)
{
    const struct gemmd_options options = options_of(GEMMD_SHARED_AUTO, 0);
    start(&options);
    char *first = gemmd_memory_alloc(client, 64, NULL);
    ck_assert_uint_eq(mapping_bytes(client->shared_memory.mapping), 64 << 20);
    char *second = gemmd_memory_alloc(client, (64 << 20) + 1, NULL);
    ck_assert_uint_eq(mapping_bytes(client->shared_memory.mapping), 128 << 20);
    ck_assert_uint_eq(client->shared_memory.replaced_count, 1);
    first[0] = second[0] = 1;
    gemmd_memory_free(client, first);
    gemmd_memory_free(client, second);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_shared_memory");
    TCase *tests = tcase_create("client_shared_memory");
    tcase_add_checked_fixture(tests, open_fake, close_fake);
    tcase_add_test(tests, operands_are_copied_and_the_result_too);
    tcase_add_test(tests, what_lies_in_its_memory_is_not_copied);
    tcase_add_test(tests, small_ones_go_through_the_socket);
    tcase_add_loop_test(tests, a_daemon_that_takes_none_is_asked_once, 0, 2);
    tcase_add_test(tests, one_that_has_to_take_it_fails);
    tcase_add_test(tests, a_block_that_may_be_written_to_is_lost);
    tcase_add_test(tests, a_memory_grows_with_what_is_asked_of_it);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
