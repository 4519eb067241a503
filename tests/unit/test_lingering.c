/* server/net/lingering.c: when a connection that lingers is closed. The test takes the place of
 * libuv's timers, and calls them itself. */
#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "failing_calls.h"
#include "server/net/lingering.h"

enum { MAX_BYTES = 1000, LINGER_MS = 10000 };

/* The timer that was started and has not passed. */
static struct {
    uv_timer_t *handle;
    uv_timer_cb run;
    uint64_t ms;
} timer;

static uv_loop_t loop;
static struct lingering *lingering;
static int client; /* the client's end of the connection */

/* Takes the place of libuv's function. */
__attribute__((visibility("default"))) int uv_timer_start(uv_timer_t *handle, uv_timer_cb run,
                                                          uint64_t timeout_ms, uint64_t repeat_ms)
{
    ck_assert_uint_eq(repeat_ms, 0);
    timer.handle = handle;
    timer.run = run;
    timer.ms = timeout_ms;
    return 0;
}

static void run_loop(void)
{
    uv_run(&loop, UV_RUN_NOWAIT);
}

/* Returns the time that has passed in ms. */
static uint64_t pass(void)
{
    uv_timer_t *handle = timer.handle;
    ck_assert_msg(handle != NULL, "no timer runs");
    timer.handle = NULL;
    timer.run(handle);
    return timer.ms;
}

static void send_bytes(size_t count)
{
    static const char bytes[MAX_BYTES];
    ck_assert_int_eq(send(client, bytes, count, MSG_NOSIGNAL), (ssize_t)count);
    pass();
}

static bool is_open(void)
{
    char byte;
    const ssize_t got = recv(client, &byte, 1, MSG_DONTWAIT);
    return got < 0 && errno == EAGAIN;
}

/* A connection that lingers and whose client has sent nothing. */
static void set_up(void)
{
    int ends[2];
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    lingering = lingering_create(&loop, MAX_BYTES);
    ck_assert_ptr_nonnull(lingering);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    client = ends[1];
    lingering_add(lingering, ends[0]);
    close(ends[0]);
    run_loop();
    ck_assert(is_open());
}

static void tear_down(void)
{
    close(client);
    lingering_destroy(lingering);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

START_TEST(a_connection_lingers_for_ten_seconds)
{
    ck_assert_uint_ge(timer.ms, 1);
    uint64_t now_ms = 0;
    while ((now_ms += pass()) <= LINGER_MS)
        ck_assert_msg(is_open(), "the connection is closed after %lu ms", (unsigned long)now_ms);
    ck_assert_msg(!is_open(), "the connection is open after %lu ms", (unsigned long)now_ms);
    ck_assert_msg(timer.handle == NULL, "the timer runs although no connection lingers");
}
END_TEST

START_TEST(a_connection_lingers_for_a_number_of_bytes)
{
    send_bytes(MAX_BYTES / 2);
    send_bytes(MAX_BYTES - MAX_BYTES / 2);
    ck_assert(is_open());
    send_bytes(1);
    ck_assert(!is_open());
}
END_TEST

START_TEST(a_connection_whose_client_has_closed_is_closed)
{
    ck_assert_int_eq(shutdown(client, SHUT_WR), 0);
    pass();
    ck_assert(!is_open());
}
END_TEST

/* Bytes that wait in all of the sockets. */
static uint64_t waiting_bytes(const int *fds, int count)
{
    uint64_t sum = 0;
    for (int i = 0; i < count; i++) {
        int unread = 0;
        ck_assert_int_eq(ioctl(fds[i], FIONREAD, &unread), 0);
        sum += (uint64_t)unread;
    }
    return sum;
}

/* A tick discards no more than its part of the bytes that clients have sent, and the next tick goes
 * on with the clients whose bytes were left. */
START_TEST(the_bytes_of_a_tick_are_bounded)
{
    enum { CLIENTS = 32, PIECE = 4096, TICK_BYTES = 2 << 20, TURN_BYTES = 256 << 10 };
    static const char piece[PIECE];
    int ours[CLIENTS], theirs[CLIENTS];
    struct lingering *many = lingering_create(&loop, 1 << 30);
    ck_assert_ptr_nonnull(many);
    for (int i = 0; i < CLIENTS; i++) {
        int ends[2];
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
        ours[i] = ends[0];
        theirs[i] = ends[1];
        while (send(theirs[i], piece, PIECE, MSG_NOSIGNAL) > 0)
            continue;
        lingering_add(many, ours[i]);
    }
    run_loop();
    uint64_t left = waiting_bytes(ours, CLIENTS);
    ck_assert_uint_gt(left, 2 * (TICK_BYTES + TURN_BYTES));
    while (left > 0) {
        pass();
        const uint64_t now = waiting_bytes(ours, CLIENTS);
        ck_assert_uint_lt(now, left);
        ck_assert_uint_le(left - now, TICK_BYTES + TURN_BYTES);
        left = now;
    }
    lingering_destroy(many);
    for (int i = 0; i < CLIENTS; i++) {
        close(ours[i]);
        close(theirs[i]);
    }
}
END_TEST

/* For _i: without memory, and without a descriptor. */
START_TEST(a_connection_that_cannot_linger_leaves_nothing)
{
    const long live = calls_live_blocks();
    if (_i == 0)
        calls_fail(1);
    lingering_add(lingering, _i == 0 ? client : -1);
    ck_assert_int_eq(calls_end(), _i == 0);
    ck_assert_int_eq(calls_live_blocks(), live);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lingering");
    TCase *tests = tcase_create("lingering");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_connection_lingers_for_ten_seconds);
    tcase_add_test(tests, a_connection_lingers_for_a_number_of_bytes);
    tcase_add_test(tests, a_connection_whose_client_has_closed_is_closed);
    tcase_add_test(tests, the_bytes_of_a_tick_are_bounded);
    tcase_add_loop_test(tests, a_connection_that_cannot_linger_leaves_nothing, 0, 2);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
