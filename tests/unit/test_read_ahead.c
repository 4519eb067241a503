/* server/http/read_ahead.c: the bytes that are received from a socket ahead of what is asked for.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/http/read_ahead.h"

/* A socket with a peer that sends. */
struct stage {
    int fds[2];
    struct read_ahead_buffers buffers;
};

static void stage_open(struct stage *stage)
{
    memset(stage, 0, sizeof *stage);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, stage->fds), 0);
}

static void stage_close(struct stage *stage)
{
    ck_assert_uint_eq(stage->buffers.in_use, 0);
    read_ahead_free(&stage->buffers);
    close(stage->fds[0]);
    close(stage->fds[1]);
}

static void stage_send(const struct stage *stage, const char *bytes, size_t length)
{
    ck_assert_int_eq(send(stage->fds[1], bytes, length, MSG_NOSIGNAL), (ssize_t)length);
}

static ssize_t stage_recv(struct stage *stage, struct read_ahead *ahead, char *bytes,
                          size_t capacity)
{
    return read_ahead_recv(ahead, &stage->buffers, stage->fds[0], bytes, capacity);
}

START_TEST(bytes_come_in_order)
{
    struct stage stage;
    struct read_ahead ahead = {.buffer = NULL};
    char bytes[16];
    stage_open(&stage);
    stage_send(&stage, "head and record", 15);
    ck_assert_int_eq(stage_recv(&stage, &ahead, bytes, 5), 5);
    ck_assert_mem_eq(bytes, "head ", 5);
    ck_assert(read_ahead_has_bytes(&ahead));
    /* The bytes behind those that were received stay in the socket meanwhile. */
    stage_send(&stage, " more", 5);
    ck_assert_int_eq(stage_recv(&stage, &ahead, bytes, sizeof bytes), 10);
    ck_assert_mem_eq(bytes, "and record", 10);
    ck_assert(!read_ahead_has_bytes(&ahead));
    ck_assert_int_eq(stage_recv(&stage, &ahead, bytes, sizeof bytes), 5);
    ck_assert_mem_eq(bytes, " more", 5);
    stage_close(&stage);
}
END_TEST

START_TEST(nothing_to_receive_leaves_no_buffer)
{
    struct stage stage;
    struct read_ahead ahead = {.buffer = NULL};
    char byte;
    stage_open(&stage);
    errno = 0;
    ck_assert_int_eq(stage_recv(&stage, &ahead, &byte, 1), -1);
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert(!read_ahead_has_bytes(&ahead));
    shutdown(stage.fds[1], SHUT_WR);
    ck_assert_int_eq(stage_recv(&stage, &ahead, &byte, 1), 0);
    stage_close(&stage);
}
END_TEST

START_TEST(connections_beyond_the_buffers_read_what_is_asked_for)
{
    struct stage stage;
    struct read_ahead first[READ_AHEAD_BUFFERS] = {{.buffer = NULL}}, last = {.buffer = NULL};
    char bytes[2];
    stage_open(&stage);
    for (int i = 0; i < READ_AHEAD_BUFFERS; i++) {
        stage_send(&stage, "ab", 2);
        ck_assert_int_eq(stage_recv(&stage, &first[i], bytes, 1), 1);
        ck_assert(read_ahead_has_bytes(&first[i]));
    }
    stage_send(&stage, "cd", 2);
    ck_assert_int_eq(stage_recv(&stage, &last, bytes, 1), 1);
    ck_assert(!read_ahead_has_bytes(&last));
    ck_assert_int_eq(bytes[0], 'c');
    ck_assert_int_eq(stage_recv(&stage, &first[1], bytes, 2), 1);
    ck_assert_int_eq(bytes[0], 'b');
    ck_assert_int_eq(stage_recv(&stage, &last, bytes, 1), 1); /* a buffer is free, but not needed */
    ck_assert_int_eq(bytes[0], 'd');
    for (int i = 0; i < READ_AHEAD_BUFFERS; i++)
        read_ahead_drop(&first[i], &stage.buffers);
    stage_close(&stage);
}
END_TEST

START_TEST(a_large_request_needs_no_buffer)
{
    struct stage stage;
    struct read_ahead ahead = {.buffer = NULL};
    static char bytes[READ_AHEAD_BYTES];
    stage_open(&stage);
    stage_send(&stage, "all", 3);
    ck_assert_int_eq(stage_recv(&stage, &ahead, bytes, sizeof bytes), 3);
    ck_assert_mem_eq(bytes, "all", 3);
    ck_assert_ptr_null(stage.buffers.spares.first);
    stage_close(&stage);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("read_ahead");
    TCase *tests = tcase_create("read_ahead");
    tcase_add_test(tests, bytes_come_in_order);
    tcase_add_test(tests, nothing_to_receive_leaves_no_buffer);
    tcase_add_test(tests, connections_beyond_the_buffers_read_what_is_asked_for);
    tcase_add_test(tests, a_large_request_needs_no_buffer);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
