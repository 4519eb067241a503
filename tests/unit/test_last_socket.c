/* recv and send still do what they do, and tell which socket they were for. */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/http/last_socket.h"

static int pair[2];

static void open_pair(void)
{
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
}

static void close_pair(void)
{
    close(pair[0]);
    close(pair[1]);
}

START_TEST(bytes_pass_and_the_socket_is_noted)
{
    char bytes[8];
    ck_assert_int_eq(last_socket(), -1);
    ck_assert_int_eq(send(pair[0], "abcd", 4, 0), 4);
    ck_assert_int_eq(last_socket(), pair[0]);
    ck_assert_int_eq(recv(pair[1], bytes, sizeof bytes, MSG_PEEK), 4);
    ck_assert_int_eq(last_socket(), pair[1]);
    last_socket_set(pair[0]);
    ck_assert_int_eq(last_socket(), pair[0]);
    ck_assert_int_eq(recv(pair[1], bytes, sizeof bytes, 0), 4);
    ck_assert_int_eq(memcmp(bytes, "abcd", 4), 0);
    ck_assert_int_eq(recv(pair[1], bytes, sizeof bytes, MSG_DONTWAIT), -1);
    ck_assert_int_eq(last_socket(), pair[1]);
}
END_TEST

static void *elsewhere(void *before)
{
    *(int *)before = last_socket();
    send(pair[0], "x", 1, 0);
    return NULL;
}

START_TEST(each_thread_has_its_own)
{
    pthread_t thread;
    int before = 0;
    last_socket_set(pair[1]);
    ck_assert_int_eq(pthread_create(&thread, NULL, elsewhere, &before), 0);
    pthread_join(thread, NULL);
    ck_assert_int_eq(before, -1);
    ck_assert_int_eq(last_socket(), pair[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("last_socket");
    TCase *tests = tcase_create("last_socket");
    tcase_add_checked_fixture(tests, open_pair, close_pair);
    tcase_add_test(tests, bytes_pass_and_the_socket_is_noted);
    tcase_add_test(tests, each_thread_has_its_own);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
