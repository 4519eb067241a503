/* server/http/arrival.c: what a request's first bytes say about its length, and that a connection
 * is taken out once it has sent something. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/http/arrival.h"
#include "server/http/connection.h"

static const struct {
    const char *head;
    uint64_t bytes;
} heads[] = {
    {"POST /gemm HTTP/1.1\r\nHost: x\r\nContent-Length: 4194304\r\n\r\n", 4194304},
    {"POST /gemm HTTP/1.1\r\ncontent-length:5\r\nHost: x\r\n\r\n", 5},
    {"POST /gemm HTTP/1.1\nContent-Length: 12\n\nbody", 12},
    {"POST /gemm HTTP/1.1\r\nX-Content-Length: 7\r\n\r\n", 0},
    {"POST /Content-Length:7 HTTP/1.1\r\nHost: x\r\n\r\n", 0},
    {"POST /gemm HTTP/1.1\r\n\r\nContent-Length: 7\r\n", 0},
    {"POST /gemm HTTP/1.1\r\nContent-Length: none\r\n\r\n", 0},
    {"POST /gemm HTTP/1.1\r\nContent-Length: -7\r\n\r\n", 0},
    {"POST /gemm HTTP/1.1\r\nContent-Len", 0},
    {"POST /gemm HTTP/1.1\r\nContent-Length:", 0},
    {"POST", 0},
    {"\n", 0},
    {"", 0},
};

START_TEST(announced_bytes)
{
    ck_assert_uint_eq(arrival_announced_bytes(heads[_i].head, strlen(heads[_i].head)),
                      heads[_i].bytes);
}
END_TEST

/* Wherever the head is cut, nothing past the cut is read (which a sanitizer would see). */
START_TEST(a_cut_head_announces_no_more_than_the_whole)
{
    size_t length = strlen(heads[_i].head);
    for (size_t cut = 0; cut <= length; cut++) {
        char *copy = malloc(cut + (cut == 0));
        memcpy(copy, heads[_i].head, cut);
        ck_assert_uint_le(arrival_announced_bytes(copy, cut), heads[_i].bytes);
        free(copy);
    }
}
END_TEST

static const struct {
    const char *head;
    bool can;
} beginnings[] = {
    {"", true},
    {"G", true},
    {"GET", true},
    {"GET ", true},
    {"GET / HTTP/1.1\r\n\r\n", true},
    {"G@T / HTTP/1.1\r\n", true}, /* which the path's 405 answers */
    {"\r\n\r\nGET ", true},
    {"\n\nGET ", true},
    {"\r\n", true},
    {"GET\r\n", false},
    {"GET\n", false},
    {"GET\t/ HTTP/1.1\r\n", false},
    {" GET / HTTP/1.1\r\n", false},
    {"\r\n GET / HTTP/1.1\r\n", false},
    {"\x16\x03\x01", false},
    {"\x01", false},
    {"G\x7f", false},
    {"G\xc3\xa4T / HTTP/1.1\r\n", false},
};

START_TEST(beginnings_of_requests)
{
    ck_assert_uint_eq(arrival_can_be_request(beginnings[_i].head, strlen(beginnings[_i].head)),
                      beginnings[_i].can);
}
END_TEST

START_TEST(zeros_begin_no_request)
{
    ck_assert(!arrival_can_be_request("\0\0", 2));
    ck_assert(!arrival_can_be_request("GET\0 /", 6));
}
END_TEST

START_TEST(numbers_beyond_all_bounds_do_not_wrap)
{
    char head[200] = "POST /gemm HTTP/1.1\r\nContent-Length: ";
    memset(head + strlen(head), '9', 60);
    ck_assert_uint_gt(arrival_announced_bytes(head, strlen(head)), UINT64_MAX / 1000);
}
END_TEST

START_TEST(who_has_sent_something_is_taken_out)
{
    struct arrivals arrivals;
    struct connection quiet = {0}, talking = {0}, gone = {0}, *ready[8];
    int fds[3][2];
    ck_assert(arrivals_open(&arrivals));
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds[i]), 0);
    quiet.fd = fds[0][0];
    talking.fd = fds[1][0];
    gone.fd = fds[2][0];
    ck_assert(arrivals_watch(&arrivals, &quiet));
    ck_assert(arrivals_watch(&arrivals, &talking));
    ck_assert(arrivals_watch(&arrivals, &gone));
    ck_assert_int_eq(arrivals_collect(&arrivals, ready, 8), 0);

    ck_assert_int_eq(write(fds[1][1], "P", 1), 1);
    ck_assert_int_eq(arrivals_collect(&arrivals, ready, 8), 1);
    ck_assert_ptr_eq(ready[0], &talking);
    close(fds[2][1]);
    ck_assert_int_eq(arrivals_collect(&arrivals, ready, 8), 1);
    ck_assert_ptr_eq(ready[0], &gone);
    ck_assert_uint_eq(arrivals.count, 1);

    arrivals_close(&arrivals);
    for (int i = 0; i < 3; i++)
        close(fds[i][0]);
    close(fds[0][1]);
    close(fds[1][1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("arrival");
    TCase *tests = tcase_create("arrival");
    int count = (int)(sizeof heads / sizeof *heads);
    tcase_add_loop_test(tests, announced_bytes, 0, count);
    tcase_add_loop_test(tests, a_cut_head_announces_no_more_than_the_whole, 0, count);
    tcase_add_loop_test(tests, beginnings_of_requests, 0,
                        (int)(sizeof beginnings / sizeof *beginnings));
    tcase_add_test(tests, zeros_begin_no_request);
    tcase_add_test(tests, numbers_beyond_all_bounds_do_not_wrap);
    tcase_add_test(tests, who_has_sent_something_is_taken_out);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
