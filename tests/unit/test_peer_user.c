/* server/net/peer_user.c: the user of the peer's process. */
#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/net/peer_user.h"

static void expect_me(int fd)
{
    uid_t user = geteuid() + 1;
    ck_assert(peer_user(fd, &user));
    ck_assert_uint_eq(user, geteuid());
}

START_TEST(of_a_unix_socket)
{
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    expect_me(ends[0]);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

/* From a socket of one family to a listening one of another. */
static void connect_by(int family, int listening_family)
{
    struct sockaddr_storage address = {.ss_family = (sa_family_t)listening_family};
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)&address;
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)&address;
    socklen_t size = listening_family == AF_INET ? sizeof *v4 : sizeof *v6;
    uid_t user;
    int listening = socket(listening_family, SOCK_STREAM, 0);
    if (listening_family == AF_INET)
        v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
        v6->sin6_addr = in6addr_loopback;
    if (listening < 0 || bind(listening, (struct sockaddr *)&address, size) != 0)
        return; /* a host without IPv6 */
    ck_assert_int_eq(listen(listening, 1), 0);
    ck_assert_int_eq(getsockname(listening, (struct sockaddr *)&address, &size), 0);
    int client = socket(family, SOCK_STREAM, 0);
    if (family != listening_family) { /* as ::ffff:127.0.0.1 */
        struct sockaddr_in bound = {.sin_port = 0};
        size = sizeof bound;
        ck_assert_int_eq(getsockname(listening, (struct sockaddr *)&bound, &size), 0);
        *v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = bound.sin_port};
        v6->sin6_addr.s6_addr[10] = v6->sin6_addr.s6_addr[11] = 0xff;
        v6->sin6_addr.s6_addr[12] = 127;
        v6->sin6_addr.s6_addr[15] = 1;
        size = sizeof *v6;
    }
    ck_assert_int_eq(connect(client, (struct sockaddr *)&address, size), 0);
    int accepted = accept(listening, NULL, NULL);
    ck_assert_int_ge(accepted, 0);
    expect_me(accepted);
    /* A socket that its process has closed is nobody's, and not root's. */
    close(client);
    ck_assert(!peer_user(accepted, &user));
    close(accepted);
    close(listening);
}

START_TEST(of_tcp_on_the_loopback)
{
    connect_by(AF_INET, AF_INET);
    connect_by(AF_INET6, AF_INET6);
    connect_by(AF_INET6, AF_INET);
}
END_TEST

START_TEST(of_what_is_no_connection)
{
    uid_t user;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert(!peer_user(fd, &user));
    close(fd);
    ck_assert(!peer_user(-1, &user));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("peer_user");
    TCase *tests = tcase_create("peer_user");
    tcase_add_test(tests, of_a_unix_socket);
    tcase_add_test(tests, of_tcp_on_the_loopback);
    tcase_add_test(tests, of_what_is_no_connection);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
