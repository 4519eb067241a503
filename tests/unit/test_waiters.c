/* server/http/waiters.c over socket pairs, with a clock of the test's own. */
#include <check.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/http/waiters.h"

enum { COUNT = 5, CROWD = 200 };
static const uint64_t MS = 1000000, LONG = 1000000000;

struct client {
    struct waiter waiter; /* first */
    int other;            /* the client's end */
    uint32_t ended;
    enum waiter_end how;
};

static struct client clients[CROWD];
static struct waiters waiters;

static void note(struct waiter *waiter, enum waiter_end how)
{
    struct client *client = OWNER_OF(waiter, struct client, waiter);
    client->ended++;
    client->how = how;
}

static void start(uint32_t count)
{
    ck_assert(waiters_open(&waiters, note));
    for (uint32_t i = 0; i < count; i++) {
        int pair[2];
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        clients[i] = (struct client){.waiter = {.fd = pair[0], .since_ns = i}, .other = pair[1]};
    }
}

static void stop(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        waiters_remove(&waiters, &clients[i].waiter);
        close(clients[i].waiter.fd);
        if (clients[i].other >= 0)
            close(clients[i].other);
    }
    ck_assert_ptr_null(waiters.waiting.first);
    ck_assert_ptr_null(waiters.waiting.last);
    ck_assert_ptr_null(waiters.unwatched);
    ck_assert_uint_eq(waiters.watched, 0);
    waiters_close(&waiters);
}

static void leave(struct client *client)
{
    close(client->other);
    client->other = -1;
}

static bool is_readable(void)
{
    struct pollfd polled = {.fd = waiters.epoll_fd, .events = POLLIN};
    return poll(&polled, 1, 0) == 1;
}

static int due_ms_at(uint64_t now_ns)
{
    return clock_ms_until(waiters_due_ns(&waiters), now_ns);
}

START_TEST(the_late_end_at_their_deadline)
{
    static const uint64_t deadlines[COUNT] = {50, 0, 20, 90, 20};
    start(COUNT);
    ck_assert_int_eq(due_ms_at(0), -1);
    for (uint32_t i = 0; i < COUNT; i++) {
        clients[i].waiter.deadline_ns = deadlines[i] * MS;
        waiters_add(&waiters, &clients[i].waiter);
    }
    waiters_check(&waiters, 15 * MS);
    ck_assert_int_eq(due_ms_at(15 * MS), 5);
    ck_assert_int_eq(due_ms_at(15 * MS + 1), 5);
    ck_assert_int_eq(due_ms_at(21 * MS), 0);
    for (uint64_t now = 16; now <= 100; now++) {
        waiters_check(&waiters, now * MS);
        for (uint32_t i = 0; i < COUNT; i++)
            ck_assert_uint_eq(clients[i].ended, deadlines[i] != 0 && deadlines[i] <= now);
    }
    ck_assert_int_eq(clients[3].how, WAITER_LATE);
    ck_assert_int_eq(due_ms_at(100 * MS), -1);
    stop(COUNT);
}
END_TEST

/* A FIN while waiting, and a reset-like end, count the same; unread bytes hide neither. */
START_TEST(those_who_leave_are_noticed)
{
    start(COUNT);
    for (uint32_t i = 0; i < COUNT; i++)
        waiters_add(&waiters, &clients[i].waiter);
    waiters_check(&waiters, LONG);
    ck_assert(!is_readable());
    ck_assert_int_eq(due_ms_at(LONG), -1);
    leave(&clients[0]);
    ck_assert_int_eq(shutdown(clients[2].other, SHUT_WR), 0);
    ck_assert_int_eq(write(clients[4].other, "the next request", 16), 16);
    ck_assert(is_readable());
    waiters_check(&waiters, LONG);
    for (uint32_t i = 0; i < COUNT; i++)
        ck_assert_uint_eq(clients[i].ended, i == 0 || i == 2);
    ck_assert_int_eq(clients[0].how, WAITER_LEFT);
    ck_assert(!is_readable());
    leave(&clients[4]);
    waiters_check(&waiters, LONG);
    ck_assert_uint_eq(clients[4].ended, 1);
    stop(COUNT);
}
END_TEST

START_TEST(who_is_answered_soon_is_not_watched)
{
    start(COUNT);
    for (uint32_t i = 0; i < COUNT; i++)
        waiters_add(&waiters, &clients[i].waiter);
    leave(&clients[1]);
    waiters_check(&waiters, 1 * MS);
    ck_assert_uint_eq(waiters.watched, 0);
    ck_assert(!is_readable());
    int due_ms = due_ms_at(1 * MS);
    ck_assert_int_gt(due_ms, 0); /* it has to be asked again, then to be watched */
    waiters_remove(&waiters, &clients[0].waiter);
    waiters_check(&waiters, (uint64_t)due_ms * MS + 1 * MS + COUNT);
    ck_assert_uint_eq(waiters.watched, COUNT - 2);
    ck_assert_uint_eq(clients[0].ended, 0);
    ck_assert_uint_eq(clients[1].ended, 1);
    stop(COUNT);
}
END_TEST

START_TEST(a_crowd_leaves_at_once)
{
    start(CROWD);
    for (uint32_t i = 0; i < CROWD; i++)
        waiters_add(&waiters, &clients[i].waiter);
    waiters_check(&waiters, LONG);
    for (uint32_t i = 0; i < CROWD; i++)
        if (i % 5 != 0)
            leave(&clients[i]);
    waiters_check(&waiters, LONG);
    for (uint32_t i = 0; i < CROWD; i++)
        ck_assert_uint_eq(clients[i].ended, i % 5 != 0);
    stop(CROWD);
}
END_TEST

START_TEST(removed_ones_stay_out_and_may_come_again)
{
    start(COUNT);
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < COUNT; i++) {
            clients[i].waiter.since_ns = (uint64_t)round * LONG;
            clients[i].waiter.deadline_ns = (uint64_t)(round + 10) * LONG;
            waiters_add(&waiters, &clients[i].waiter);
        }
        if (round != 1)
            waiters_check(&waiters, (uint64_t)(round + 1) * LONG);
        for (uint32_t i = 0; i < COUNT; i++)
            waiters_remove(&waiters, &clients[(i * 3 + 1) % COUNT].waiter);
        waiters_remove(&waiters, &clients[0].waiter);
        waiters_check(&waiters, 100 * LONG);
    }
    for (uint32_t i = 0; i < COUNT; i++)
        ck_assert_uint_eq(clients[i].ended, 0);
    stop(COUNT);
}
END_TEST

START_TEST(stopping_ends_all)
{
    start(COUNT);
    for (uint32_t i = 0; i < COUNT; i++)
        waiters_add(&waiters, &clients[i].waiter);
    waiters_check(&waiters, LONG);
    waiters_stop(&waiters);
    for (uint32_t i = 0; i < COUNT; i++) {
        ck_assert_uint_eq(clients[i].ended, 1);
        ck_assert_int_eq(clients[i].how, WAITER_STOPPED);
    }
    stop(COUNT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("waiters");
    TCase *tests = tcase_create("waiters");
    tcase_add_test(tests, the_late_end_at_their_deadline);
    tcase_add_test(tests, those_who_leave_are_noticed);
    tcase_add_test(tests, who_is_answered_soon_is_not_watched);
    tcase_add_test(tests, a_crowd_leaves_at_once);
    tcase_add_test(tests, removed_ones_stay_out_and_may_come_again);
    tcase_add_test(tests, stopping_ends_all);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
