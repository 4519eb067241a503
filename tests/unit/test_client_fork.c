/* A client in the processes of a fork: each has connections, descriptors and memory of its own. */
#include <check.h>
#include <gemmd/adapters/uv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_http.h"
#include "product_case.h"

enum { CHILDREN = 4, ROUNDS = 40, PLACES = 4, SIDE = 16, ELEMENTS = SIDE * SIDE };

/* A product whose answer, by a server that echoes, is its A. The first element names the process
 * that sent the product. */
struct echo_case {
    float a[ELEMENTS], b[ELEMENTS], c[ELEMENTS];
};
static struct echo_case cases[ROUNDS];
static struct fake_server *server;
static char head[FAKE_HEAD_MAX];
static struct fake_act act;
static struct gemmd_client *client;

static void open_client(void)
{
    struct gemmd_options options;
    act = (struct fake_act){.head = fake_gemm_head(head, SIDE, SIDE, "f32", sizeof cases->c),
                            .echo = true,
                            .payload_bytes = sizeof cases->c,
                            .take_bytes = FAKE_ALL};
    server = fake_start(&act, 1);
    gemmd_options_init(&options, sizeof options);
    options.url = fake_url(server);
    options.max_in_flight = PLACES;
    client = gemmd_client_new(&options, NULL);
    ck_assert_ptr_nonnull(client);
}

static void close_client(void)
{
    gemmd_client_free(client);
    fake_free(server);
}

static struct gemmd_request *submit(int process, int number)
{
    struct echo_case *echo = &cases[number];
    struct gemmd_gemm gemm = case_gemm();
    echo->a[0] = (float)process;
    for (int i = 1; i < ELEMENTS; i++)
        echo->a[i] = (float)(process * 100000 + number * ELEMENTS + i);
    memset(echo->c, 0xff, sizeof echo->c);
    gemm.m = gemm.n = gemm.k = SIDE;
    gemm.a = echo->a;
    gemm.b = echo->b;
    gemm.c = echo->c;
    gemm.c_bytes = sizeof echo->c;
    gemm.user = echo;
    return gemmd_gemm_submit(client, &gemm, NULL);
}

/* Takes a request that is done. Returns whether the result is the request's own. */
static bool take(struct gemmd_request *request)
{
    const struct echo_case *echo = gemmd_request_user(request);
    const enum gemmd_error code = gemmd_request_result(request, NULL, NULL);
    gemmd_request_free(request);
    return code == GEMMD_OK && memcmp(echo->a, echo->c, sizeof echo->c) == 0;
}

static bool compute(int process)
{
    struct gemmd_request *request;
    int right = 0;
    for (int i = 0; i < ROUNDS; i++)
        if (submit(process, i) == NULL)
            return false;
    while ((request = gemmd_wait_any(client, -1)) != NULL)
        right += take(request);
    return right == ROUNDS;
}

/* Runs a function in a child, in which no assertion of Check may fail. */
static pid_t begin(bool (*run)(int process), int process)
{
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0)
        _exit(run(process) ? EXIT_SUCCESS : EXIT_FAILURE);
    return child;
}

static void await_child(pid_t child)
{
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS, "status %d", status);
}

/* Ends the server. Returns the number of connections, each of which one process has used. */
static uint32_t count_connections(void)
{
    float users[1024];
    uint32_t count = 0;
    fake_stop(server);
    for (size_t i = 0; i < fake_request_count(server); i++) {
        const struct fake_request *request = fake_request(server, i);
        float user;
        memcpy(&user, request->body, sizeof user);
        for (; count <= request->connection; count++)
            users[count] = -1;
        if (users[request->connection] < 0)
            users[request->connection] = user;
        ck_assert_msg(users[request->connection] == user,
                      "processes %g and %g have used one connection",
                      (double)users[request->connection], (double)user);
    }
    return count;
}

START_TEST(every_process_has_its_own_results)
{
    pid_t children[CHILDREN];
    open_client();
    ck_assert(compute(0));
    for (int i = 0; i < CHILDREN; i++)
        children[i] = begin(compute, i + 1);
    const bool right = compute(0);
    for (int i = 0; i < CHILDREN; i++)
        await_child(children[i]);
    ck_assert(right && compute(0));
    ck_assert_uint_eq(count_connections(), (CHILDREN + 1) * PLACES);
    close_client();
}
END_TEST

static struct gemmd_request *requests[ROUNDS];

static bool end_of_the_parents(int process)
{
    struct gemmd_error_info error;
    bool right = gemmd_in_flight(client) == 0;
    for (int i = 0; i < ROUNDS; i++) {
        right = right && gemmd_wait(requests[i], -1) == 1;
        right = right && gemmd_request_result(requests[i], NULL, &error) == GEMMD_ERR_CANCELLED &&
                strstr(error.message, "forked") != NULL;
        gemmd_request_free(requests[i]);
    }
    right = right && compute(process);
    gemmd_client_free(client);
    return right;
}

/* They end in the child, and go on in the parent. */
START_TEST(requests_in_flight_are_the_parents)
{
    open_client();
    for (int i = 0; i < ROUNDS; i++)
        requests[i] = submit(0, i);
    gemmd_advance(client, 0);
    ck_assert_uint_gt(gemmd_in_flight(client), 0);
    const pid_t child = begin(end_of_the_parents, 1);
    for (int i = 0; i < ROUNDS; i++) {
        ck_assert_int_eq(gemmd_wait(requests[i], -1), 1);
        ck_assert(take(requests[i]));
    }
    await_child(child);
    ck_assert_uint_eq(count_connections(), 2 * PLACES);
    ck_assert_uint_eq(fake_request_count(server), 2 * ROUNDS);
    close_client();
}
END_TEST

static bool release_the_client(int process)
{
    (void)process;
    gemmd_client_free(client);
    return true;
}

START_TEST(a_child_may_release_the_client)
{
    open_client();
    ck_assert(compute(0));
    await_child(begin(release_the_client, 1));
    ck_assert(compute(0));
    ck_assert_uint_eq(count_connections(), PLACES);
    close_client();
}
END_TEST

static bool compute_in_a_grandchild(int process)
{
    int status;
    const bool right = compute(process);
    const pid_t child = fork();
    if (child == 0)
        _exit(compute(process + 1) ? EXIT_SUCCESS : EXIT_FAILURE);
    const bool again = compute(process);
    return right && again && waitpid(child, &status, 0) == child && status == 0;
}

START_TEST(a_child_may_fork)
{
    open_client();
    ck_assert(compute(0));
    await_child(begin(compute_in_a_grandchild, 1));
    ck_assert_uint_eq(count_connections(), 3 * PLACES);
    close_client();
}
END_TEST

static struct gemmd_uv adapter;
static int answered;
static bool all_right;

static void on_done(struct gemmd_request *request, void *user)
{
    (void)user;
    all_right = take(request) && all_right;
    if (++answered == ROUNDS)
        gemmd_uv_detach(&adapter, NULL);
}

static bool compute_in_the_loop(int process)
{
    all_right = true;
    for (int i = 0; i < ROUNDS; i++)
        gemmd_on_done(submit(process, i), on_done);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    return all_right && answered == ROUNDS;
}

static bool compute_in_a_forked_loop(int process)
{
    const int fd = gemmd_fd(client);
    uv_os_fd_t watched;
    return uv_loop_fork(uv_default_loop()) == 0 &&
           uv_fileno((uv_handle_t *)&adapter.poll, &watched) == 0 && watched == fd &&
           compute_in_the_loop(process);
}

/* The descriptor keeps its number, so that an adapter that the parent has attached goes on. */
START_TEST(every_process_has_its_own_loop)
{
    pid_t children[CHILDREN];
    open_client();
    ck_assert_int_eq(gemmd_uv_attach(&adapter, client, uv_default_loop()), 0);
    ck_assert(compute(0));
    for (int i = 0; i < CHILDREN; i++)
        children[i] = begin(compute_in_a_forked_loop, i + 1);
    ck_assert(compute_in_the_loop(0));
    for (int i = 0; i < CHILDREN; i++)
        await_child(children[i]);
    ck_assert_uint_eq(count_connections(), (CHILDREN + 1) * PLACES);
    uv_loop_close(uv_default_loop());
    close_client();
}
END_TEST

enum { MEMORY_BYTES = 100000 };
static char *memory;

static bool is_filled(const char *block, char byte)
{
    for (int i = 0; i < MEMORY_BYTES; i++)
        if (block[i] != byte)
            return false;
    return true;
}

static bool write_to_memory(int process)
{
    char *own = gemmd_memory_alloc(client, MEMORY_BYTES, NULL);
    if (own == NULL)
        return false;
    bool right = is_filled(memory, 'p');
    memset(own, process, MEMORY_BYTES);
    memset(memory, 'c', MEMORY_BYTES);
    const pid_t child = fork(); /* what the child has written is the grandchild's too */
    if (child == 0) {
        gemmd_memory_free(client, own);
        _exit(is_filled(memory, 'c') ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    int status;
    right = right && waitpid(child, &status, 0) == child && status == 0;
    right = right && is_filled(own, (char)process) && is_filled(memory, 'c');
    gemmd_memory_free(client, memory);
    gemmd_memory_free(client, own);
    gemmd_client_free(client);
    return right;
}

START_TEST(memory_of_the_parent_is_private_in_a_child)
{
    struct gemmd_options options;
    gemmd_options_init(&options, sizeof options);
    options.url = "unix:/nowhere";
    client = gemmd_client_new(&options, NULL);
    memory = gemmd_memory_alloc(client, MEMORY_BYTES, NULL);
    ck_assert_ptr_nonnull(memory);
    memset(memory, 'p', MEMORY_BYTES);
    for (int i = 0; i < CHILDREN; i++)
        await_child(begin(write_to_memory, i + 1));
    ck_assert(is_filled(memory, 'p'));
    gemmd_memory_free(client, memory);
    gemmd_client_free(client);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_fork");
    TCase *tests = tcase_create("client_fork");
    tcase_add_test(tests, every_process_has_its_own_results);
    tcase_add_test(tests, requests_in_flight_are_the_parents);
    tcase_add_test(tests, a_child_may_release_the_client);
    tcase_add_test(tests, a_child_may_fork);
    tcase_add_test(tests, every_process_has_its_own_loop);
    tcase_add_test(tests, memory_of_the_parent_is_private_in_a_child);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
