/* server/net/delivery.c: rates of bodies and answers. */
#include <check.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/net/delivery.h"

static const uint64_t START = 1000, SECOND = 1000000000;

START_TEST(an_average_below_the_least_rate)
{
    ck_assert(delivery_is_below(4999, START, START + 5 * SECOND, 1000));
    ck_assert(!delivery_is_below(5000, START, START + 5 * SECOND, 1000));
    ck_assert(!delivery_is_below(0, START, START + 5 * SECOND, 0));
    ck_assert(!delivery_is_below(0, START, START, 1000));
}
END_TEST

START_TEST(a_rate_that_would_miss_the_deadline)
{
    /* 100 bytes in 5 seconds; at twice that rate, 400 more until the end. */
    ck_assert(!delivery_misses(499, 100, START, START + 5 * SECOND, START + 15 * SECOND));
    ck_assert(delivery_misses(502, 100, START, START + 5 * SECOND, START + 15 * SECOND));
    ck_assert(delivery_misses(1, 0, START, START + 5 * SECOND, START + 15 * SECOND));
    ck_assert(!delivery_misses(100, 100, START, START + 20 * SECOND, START + 15 * SECOND));
    ck_assert(delivery_misses(101, 100, START, START + 20 * SECOND, START + 15 * SECOND));
    ck_assert(!delivery_misses(100, 0, START, START, START + 15 * SECOND));
}
END_TEST

/* A Unix socket from which a client receives an answer without an end, and the time. */
struct answer {
    int ends[2];
    struct delivery delivery;
    uint64_t now_ns;
};

enum { LOOKS_A_SECOND = 5, MIB = 1 << 20 };
static const uint64_t LEAST_RATE = 10000;

static void answer_begin(struct answer *answer)
{
    *answer = (struct answer){.now_ns = START};
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, answer->ends), 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(fcntl(answer->ends[i], F_SETFL, O_NONBLOCK), 0);
    delivery_begin(&answer->delivery, answer->ends[0]);
}

static void answer_end(struct answer *answer)
{
    close(answer->ends[0]);
    close(answer->ends[1]);
}

/* Writes as much as libmicrohttpd does when the system says that there is room. */
static void answer_write(struct answer *answer)
{
    static const char bytes[MIB];
    fd_set writable;
    struct timeval no_time = {0, 0};
    FD_ZERO(&writable);
    FD_SET(answer->ends[0], &writable);
    if (select(answer->ends[0] + 1, NULL, &writable, NULL, &no_time) == 1)
        while (send(answer->ends[0], bytes, sizeof bytes, MSG_NOSIGNAL) > 0)
            continue;
}

/* Lets the client receive up to `bytes`, and the daemon look. Returns how many it has received. */
static uint64_t answer_advance(struct answer *answer, uint64_t bytes)
{
    static char received[MIB];
    uint64_t total = 0;
    answer_write(answer);
    while (total < bytes) {
        const uint64_t rest = bytes - total;
        const ssize_t got = recv(answer->ends[1], received, rest < MIB ? rest : MIB, 0);
        if (got < 0)
            break;
        total += (uint64_t)got;
        answer_write(answer);
    }
    answer->now_ns += SECOND / LOOKS_A_SECOND;
    delivery_look(&answer->delivery, answer->ends[0]);
    return total;
}

static bool answer_is_slow(const struct answer *answer, uint64_t least_rate)
{
    return delivery_is_slow(&answer->delivery, answer->ends[0], START, answer->now_ns, least_rate,
                            UINT64_MAX, answer->now_ns + 1);
}

/* Receives at a rate for a number of seconds. Returns whether the daemon finds the client slow at
 * any time after 5 seconds. */
static bool is_slow_at(uint64_t rate, uint32_t seconds, uint64_t least_rate)
{
    struct answer answer;
    bool is_slow = false;
    answer_begin(&answer);
    for (uint32_t i = 0; i < seconds * LOOKS_A_SECOND && !is_slow; i++) {
        answer_advance(&answer, rate / LOOKS_A_SECOND);
        is_slow = i >= 5 * LOOKS_A_SECOND && answer_is_slow(&answer, least_rate);
    }
    answer_end(&answer);
    return is_slow;
}

START_TEST(a_client_of_a_unix_socket_below_the_least_rate)
{
    ck_assert(is_slow_at(0, 10, LEAST_RATE));
    ck_assert(is_slow_at(5, 10, LEAST_RATE));
    ck_assert(is_slow_at(LEAST_RATE / 2, 60, LEAST_RATE));
    ck_assert(is_slow_at(LEAST_RATE * 3 / 4, 120, LEAST_RATE));
    ck_assert(!is_slow_at(LEAST_RATE * 3 / 4, 60, 0));
}
END_TEST

/* A client that reads one piece, as the system keeps it, whenever a piece is due to be read. */
START_TEST(a_client_that_empties_small_pieces_is_slow_too)
{
    struct answer answer;
    static const char piece[1000];
    char received[sizeof piece];
    answer_begin(&answer);
    for (int i = 0; i < 20; i++)
        ck_assert_int_eq(send(answer.ends[0], piece, sizeof piece, 0), sizeof piece);
    for (int i = 0; i < 10 * LOOKS_A_SECOND; i++) {
        if (i % LOOKS_A_SECOND == 0)
            ck_assert_int_eq(recv(answer.ends[1], received, sizeof received, 0), sizeof received);
        answer.now_ns += SECOND / LOOKS_A_SECOND;
        delivery_look(&answer.delivery, answer.ends[0]);
    }
    ck_assert(answer_is_slow(&answer, LEAST_RATE));
    answer_end(&answer);
}
END_TEST

START_TEST(a_client_of_a_unix_socket_that_is_fast_enough)
{
    static const uint64_t rates[] = {DELIVERY_UNIX_RATE, 20000, 50000, 333333, 3000000};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        ck_assert_msg(!is_slow_at(rates[i], 60, UINT64_MAX), "%" PRIu64 " bytes a second",
                      rates[i]);
    ck_assert(!is_slow_at(LEAST_RATE, 120, LEAST_RATE));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("delivery");
    TCase *tcase = tcase_create("delivery");
    tcase_add_test(tcase, an_average_below_the_least_rate);
    tcase_add_test(tcase, a_rate_that_would_miss_the_deadline);
    tcase_add_test(tcase, a_client_of_a_unix_socket_below_the_least_rate);
    tcase_add_test(tcase, a_client_that_empties_small_pieces_is_slow_too);
    tcase_add_test(tcase, a_client_of_a_unix_socket_that_is_fast_enough);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
