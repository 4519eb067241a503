/* server/net/lingering.c: when a connection that lingers is closed. The test takes the place of
 * libuv's timers, and calls them itself. */
#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "server/net/lingering.h"

enum { MAX_BYTES = 1000, LINGER_MS = 10000 };

/* The timers that were started: the one that repeats, and the one that does not. */
static struct timer {
    uv_timer_t *handle;
    uv_timer_cb run;
    uint64_t ms;
} check_timer, pause_timer;

static uv_loop_t loop;
static struct lingering *lingering;
static int client; /* the client's end of the connection */

/* Takes the place of libuv's function. */
__attribute__((visibility("default"))) int uv_timer_start(uv_timer_t *timer, uv_timer_cb run,
                                                          uint64_t timeout_ms, uint64_t repeat_ms)
{
    *(repeat_ms > 0 ? &check_timer : &pause_timer) =
        (struct timer){timer, run, repeat_ms > 0 ? repeat_ms : timeout_ms};
    return 0;
}

static void run_loop(void)
{
    uv_run(&loop, UV_RUN_NOWAIT);
}

static void pass(const struct timer *timer)
{
    timer->run(timer->handle);
    run_loop();
}

static void send_bytes(size_t count)
{
    static const char bytes[MAX_BYTES];
    ck_assert_int_eq(send(client, bytes, count, MSG_NOSIGNAL), (ssize_t)count);
    run_loop();
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
    ck_assert_ptr_nonnull(pause_timer.handle);
    pass(&pause_timer);
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
    ck_assert_uint_ge(check_timer.ms, 1);
    for (uint64_t now_ms = check_timer.ms; now_ms <= LINGER_MS; now_ms += check_timer.ms) {
        pass(&check_timer);
        ck_assert_msg(is_open(), "the connection is closed after %lu ms", (unsigned long)now_ms);
    }
    pass(&check_timer);
    ck_assert_msg(!is_open(), "the connection is open after %lu ms",
                  (unsigned long)(LINGER_MS + check_timer.ms));
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
    run_loop();
    ck_assert(!is_open());
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
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
