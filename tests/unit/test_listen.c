/* server/net/listen*.c: real sockets on loopback and in the file system, and inherited sockets. */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/base/inherited_sockets.h"
#include "server/net/listen.h"

/* The umask decides who may connect. */
static const struct listen_access as_it_is = {0};

#define COUNT(array) (int)(sizeof(array) / sizeof((array)[0]))

static const struct {
    const char *address, *wrong; /* NULL: it is well-formed */
} addresses[] = {
    {"127.0.0.1:8080", NULL},
    {"0.0.0.0:0", NULL},
    {"localhost:65535", NULL},
    {"[::1]:8080", NULL},
    {"[::]:0", NULL},
    {"unix:a/relative/path", NULL},
    {"unix:/absolute", NULL},
    {"unix:@abstract", NULL},
    {"", "host:port"},
    {"8080", "host:port"},
    {":8080", "the host is missing"},
    {"[]:8080", "the host is missing"},
    {"::1:8080", "[v6]:port"},
    {"[::1]", "[v6]:port"},
    {"[::1:8080", "[v6]:port"},
    {"[127.0.0.1]:8080", "no IPv6 address"},
    {"127.0.0.1:", "a port is"},
    {"127.0.0.1:65536", "a port is"},
    {"127.0.0.1:-1", "a port is"},
    {"127.0.0.1:http", "a port is"},
    {"127.0.0.1:80 ", "a port is"},
    {"unix:", "must be followed by a path"},
    {"unix:@", "must be followed by a path"},
};

START_TEST(checks_addresses)
{
    struct fault fault = {0};
    struct address parsed;
    enum gemmd_error error = address_parse(addresses[_i].address, &parsed, &fault);
    const char *wrong = addresses[_i].wrong;
    ck_assert_msg((error == GEMMD_OK) == (wrong == NULL), "'%s': %s", addresses[_i].address,
                  fault.detail);
    if (wrong)
        ck_assert_msg(strstr(fault.detail, wrong), "'%s' does not say '%s'", fault.detail, wrong);
}
END_TEST

START_TEST(refuses_long_names)
{
    char address[600] = "unix:";
    struct address parsed;
    memset(address + 5, 'a', 108);
    ck_assert_int_eq(address_parse(address, &parsed, NULL), GEMMD_ERR_USAGE);
    address[5 + 107] = '\0';
    ck_assert_int_eq(address_parse(address, &parsed, NULL), GEMMD_OK);
    memset(address, 'a', 500);
    memcpy(address + 500, ":80", sizeof(":80"));
    ck_assert_int_eq(address_parse(address, &parsed, NULL), GEMMD_ERR_USAGE);
}
END_TEST

static uint16_t port_of(const char *address)
{
    return (uint16_t)strtoul(strrchr(address, ':') + 1, NULL, 10);
}

/* Connects to an address as listen_open reports it; -1 and errno if that fails. */
static int connect_to(const char *address)
{
    struct sockaddr_storage name = {0};
    socklen_t length;
    if (strncmp(address, "unix:", 5) == 0) {
        struct sockaddr_un *un = (struct sockaddr_un *)(void *)&name;
        un->sun_family = AF_UNIX;
        snprintf(un->sun_path, sizeof(un->sun_path), "%s", address + 5);
        length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(address + 5));
        if (un->sun_path[0] == '@')
            un->sun_path[0] = '\0';
    } else if (address[0] == '[') {
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)&name;
        v6->sin6_family = AF_INET6;
        v6->sin6_addr = in6addr_loopback;
        v6->sin6_port = htons(port_of(address));
        length = sizeof(*v6);
    } else {
        struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)&name;
        v4->sin_family = AF_INET;
        v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        v4->sin_port = htons(port_of(address));
        length = sizeof(*v4);
    }
    int fd = socket(name.ss_family, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&name, length) == 0)
        return fd;
    int failure = errno;
    close(fd);
    errno = failure;
    return -1;
}

static struct listener open_listener(const char *address)
{
    struct listener listener;
    struct fault fault = {0};
    ck_assert_msg(listen_open(address, &as_it_is, &listener, &fault) == GEMMD_OK, "%s",
                  fault.detail);
    return listener;
}

static const char *const served[] = {"127.0.0.1:0", "[::1]:0", "unix:test_listen.sock",
                                     "unix:@test-listen", "localhost:0"};

START_TEST(serves_what_it_reports)
{
    struct listener listener;
    struct fault fault = {0};
    enum gemmd_error error = listen_open(served[_i], &as_it_is, &listener, &fault);
    if (error == GEMMD_ERR_IO && strstr(served[_i], "::1") && access("/proc/net/if_inet6", F_OK))
        return; /* a machine without IPv6 */
    ck_assert_msg(error == GEMMD_OK, "%s", fault.detail);
    ck_assert_int_eq(listener.is_unix, strncmp(served[_i], "unix:", 5) == 0);
    ck_assert_ptr_null(strstr(listener.address, ":0\0"));
    ck_assert_msg(fcntl(listener.fd, F_GETFL) & O_NONBLOCK, "accept would block");
    ck_assert_msg(fcntl(listener.fd, F_GETFD) & FD_CLOEXEC, "exec would leak the socket");

    int client = connect_to(listener.address);
    ck_assert_msg(client >= 0, "%s: %s", listener.address, strerror(errno));
    int accepted = accept(listener.fd, NULL, NULL);
    ck_assert_int_ge(accepted, 0);
    char peer[LISTEN_PEER_MAX], expected[LISTEN_PEER_MAX];
    listen_peer_text(accepted, peer, sizeof(peer));
    if (listener.is_unix) {
        snprintf(expected, sizeof(expected), "unix:pid=%d,uid=%u", (int)getpid(),
                 (unsigned)getuid());
        ck_assert_str_eq(peer, expected);
    } else {
        const char *loopback = listener.address[0] == '[' ? "[::1]:" : "127.0.0.1:";
        ck_assert_msg(strncmp(peer, loopback, strlen(loopback)) == 0, "the peer is %s", peer);
    }
    close(client);
    close(accepted);
    listen_close(&listener);
    ck_assert_int_eq(listener.fd, -1);
    ck_assert_int_eq(connect_to(listener.address), -1);
}
END_TEST

static const struct {
    const char *address;
    bool public;
} reach[] = {
    {"127.0.0.1:0", false}, {"127.8.9.10:0", false}, {"[::1]:0", false},
    {"0.0.0.0:0", true},    {"[::]:0", true},        {"unix:@test-listen-p", false},
};

START_TEST(tells_who_may_reach_it)
{
    struct listener listener;
    struct fault fault = {0};
    enum gemmd_error error = listen_open(reach[_i].address, &as_it_is, &listener, &fault);
    if (error == GEMMD_ERR_IO && strstr(reach[_i].address, "::") &&
        access("/proc/net/if_inet6", F_OK))
        return; /* a machine without IPv6 */
    ck_assert_msg(error == GEMMD_OK, "%s", fault.detail);
    ck_assert_int_eq(listen_is_public(&listener), reach[_i].public);
    listen_close(&listener);
}
END_TEST

static void in_new_directory(char path[32])
{
    snprintf(path, 32, "test_listen.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(path));
    ck_assert_int_eq(chdir(path), 0);
}

static void leave_directory(const char *path)
{
    ck_assert_int_eq(chdir(".."), 0);
    ck_assert_msg(rmdir(path) == 0, "files are left in %s", path);
}

START_TEST(an_ipv4_address_in_ipv6_counts_as_itself)
{
    static const struct {
        unsigned char first;
        bool public;
    } cases[] = {{127, false}, {0, true}};
    const int off = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct listener listener = {.fd = socket(AF_INET6, SOCK_STREAM, 0)};
        struct sockaddr_in6 name = {.sin6_family = AF_INET6};
        if (listener.fd < 0)
            return; /* a machine without IPv6 */
        name.sin6_addr.s6_addr[10] = name.sin6_addr.s6_addr[11] = 0xff;
        name.sin6_addr.s6_addr[12] = cases[i].first;
        name.sin6_addr.s6_addr[15] = cases[i].first == 127;
        ck_assert_int_eq(setsockopt(listener.fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off), 0);
        ck_assert_int_eq(bind(listener.fd, (struct sockaddr *)&name, sizeof name), 0);
        ck_assert_int_eq(listen_is_public(&listener), cases[i].public);
        close(listener.fd);
    }
    ck_assert(!listen_is_public(&(struct listener){.fd = -1}));
}
END_TEST

START_TEST(without_descriptors_there_is_no_socket)
{
    char path[32];
    struct rlimit before;
    struct listener listener;
    struct fault fault = {0};
    in_new_directory(path);
    struct listener dead = open_listener("unix:socket");
    close(dead.fd);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit none = {0, before.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    const enum gemmd_error tcp = listen_open("127.0.0.1:0", &as_it_is, &listener, &fault);
    const enum gemmd_error probe = listen_open("unix:socket", &as_it_is, &listener, &fault);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_int_eq(tcp, GEMMD_ERR_IO);
    ck_assert_int_eq(probe, GEMMD_ERR_IO);
    ck_assert_ptr_nonnull(strstr(fault.detail, strerror(EMFILE)));
    ck_assert_int_eq(unlink("socket"), 0);
    leave_directory(path);
}
END_TEST

START_TEST(port_zero_becomes_the_real_port)
{
    struct listener listener = open_listener("127.0.0.1:0");
    ck_assert_uint_gt(port_of(listener.address), 0);
    struct listener second;
    struct fault fault = {0};
    ck_assert_int_eq(listen_open(listener.address, &as_it_is, &second, &fault), GEMMD_ERR_IO);
    ck_assert_ptr_nonnull(strstr(fault.detail, strerror(EADDRINUSE)));
    ck_assert_int_eq(second.fd, -1);
    listen_close(&second); /* harmless after a failure */
    listen_close(&listener);
}
END_TEST

START_TEST(unresolvable_host)
{
    struct listener listener;
    struct fault fault = {0};
    /* An interface that isn't there: fails without asking a name server. */
    ck_assert_int_eq(listen_open("[fe80::1%no-such-if]:80", &as_it_is, &listener, &fault),
                     GEMMD_ERR_IO);
    ck_assert_ptr_nonnull(strstr(fault.detail, "fe80::1%no-such-if cannot be resolved"));
}
END_TEST

START_TEST(socket_file_goes_with_its_listener)
{
    char path[32];
    in_new_directory(path);
    struct listener listener = open_listener("unix:socket");
    ck_assert_int_eq(access("socket", F_OK), 0);
    listen_close(&listener);
    leave_directory(path);
}
END_TEST

START_TEST(stale_socket_file_is_replaced)
{
    char path[32];
    in_new_directory(path);
    struct listener dead = open_listener("unix:socket");
    close(dead.fd); /* as a crash does */
    ck_assert_int_eq(access("socket", F_OK), 0);
    struct listener listener = open_listener("unix:socket");
    int client = connect_to("unix:socket");
    ck_assert_int_ge(client, 0);
    close(client);
    listen_close(&listener);
    leave_directory(path);
}
END_TEST

START_TEST(file_of_a_successor_stays)
{
    char path[32];
    in_new_directory(path);
    struct listener first = open_listener("unix:socket");
    ck_assert_int_eq(unlink("socket"), 0);
    struct listener second = open_listener("unix:socket");
    listen_close(&first);
    ck_assert_int_eq(access("socket", F_OK), 0);
    listen_close(&second);
    leave_directory(path);
}
END_TEST

START_TEST(live_socket_file_is_left_alone)
{
    char path[32];
    in_new_directory(path);
    struct listener alive = open_listener("unix:socket"), second;
    struct fault fault = {0};
    ck_assert_int_eq(listen_open("unix:socket", &as_it_is, &second, &fault), GEMMD_ERR_IO);
    ck_assert_ptr_nonnull(strstr(fault.detail, "in use"));
    int client = connect_to("unix:socket");
    ck_assert_int_ge(client, 0);
    close(client);
    listen_close(&alive);
    leave_directory(path);
}
END_TEST

START_TEST(other_files_are_left_alone)
{
    char path[32];
    in_new_directory(path);
    ck_assert_int_eq(close(open("file", O_CREAT | O_WRONLY, 0600)), 0);
    ck_assert_int_eq(symlink("nowhere", "link"), 0);
    struct listener listener;
    struct fault fault = {0};
    ck_assert_int_eq(listen_open("unix:file", &as_it_is, &listener, &fault), GEMMD_ERR_IO);
    ck_assert_ptr_nonnull(strstr(fault.detail, "not a socket"));
    ck_assert_int_eq(listen_open("unix:link", &as_it_is, &listener, &fault), GEMMD_ERR_IO);
    ck_assert_int_eq(listen_open("unix:missing/socket", &as_it_is, &listener, &fault),
                     GEMMD_ERR_IO);
    ck_assert_int_eq(listen_open("unix:file/socket", &as_it_is, &listener, &fault), GEMMD_ERR_IO);
    ck_assert_ptr_nonnull(strstr(fault.detail, "examine"));
    ck_assert_int_eq(unlink("file"), 0);
    ck_assert_int_eq(unlink("link"), 0);
    leave_directory(path);
}
END_TEST

START_TEST(addresses_are_written_as_they_are_read)
{
    struct sockaddr_storage name = {.ss_family = AF_INET6};
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)&name;
    struct sockaddr_un *un = (struct sockaddr_un *)(void *)&name;
    char text[ADDRESS_TEXT_MAX];
    v6->sin6_port = htons(80);
    v6->sin6_addr.s6_addr[10] = v6->sin6_addr.s6_addr[11] = 0xff;
    v6->sin6_addr.s6_addr[12] = 192;
    v6->sin6_addr.s6_addr[15] = 1;
    address_text(&name, sizeof *v6, text, sizeof text);
    ck_assert_str_eq(text, "192.0.0.1:80"); /* an IPv4 client of an IPv6 socket */
    for (int byte = 0; byte < 12; byte++) {
        const unsigned char before = v6->sin6_addr.s6_addr[byte];
        v6->sin6_addr.s6_addr[byte] = 0x20;
        address_text(&name, sizeof *v6, text, sizeof text);
        ck_assert_msg(text[0] == '[' && strcmp(strrchr(text, ']'), "]:80") == 0, "%s", text);
        v6->sin6_addr.s6_addr[byte] = before;
    }
    name = (struct sockaddr_storage){.ss_family = AF_UNIX};
    address_text(&name, sizeof name.ss_family, text, sizeof text);
    ck_assert_str_eq(text, "unix:"); /* the client has no name */
    memcpy(un->sun_path, "\0ab", 4);
    address_text(&name, offsetof(struct sockaddr_un, sun_path) + 3, text, sizeof text);
    ck_assert_str_eq(text, "unix:@ab");
    memcpy(un->sun_path, "/a", 3);
    address_text(&name, offsetof(struct sockaddr_un, sun_path) + 2, text, sizeof text);
    ck_assert_str_eq(text, "unix:/a");
    name.ss_family = AF_UNSPEC;
    address_text(&name, sizeof name, text, sizeof text);
    ck_assert_str_eq(text, "unknown");
}
END_TEST

START_TEST(peer_of_what_is_no_connection)
{
    char peer[LISTEN_PEER_MAX];
    listen_peer_text(-1, peer, sizeof(peer));
    ck_assert_str_eq(peer, "unknown");
}
END_TEST

/* Inherited descriptors start at 3, which Check itself uses. So these run in a child, where a
 * failed EXPECT is said on standard error and ends it. */
#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);                \
            _exit(EXIT_FAILURE);                                                                   \
        }                                                                                          \
    } while (0)

static void in_child(void (*body)(void))
{
    int status = 0;
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        body();
        _exit(EXIT_SUCCESS);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS, "status %d", status);
}

/* What a starter sets between fork and exec. */
static void inherit(uint32_t fds, const char *names)
{
    char text[32];
    snprintf(text, sizeof(text), "%d", (int)getpid());
    setenv("LISTEN_PID", text, 1);
    snprintf(text, sizeof(text), "%u", fds);
    setenv("LISTEN_FDS", text, 1);
    if (names)
        setenv("LISTEN_FDNAMES", names, 1);
}

/* Puts a socket on descriptor 3 + index, with the flags that a starter leaves. */
static void place(int fd, int index)
{
    EXPECT(dup2(fd, 3 + index) == 3 + index);
    EXPECT(fcntl(3 + index, F_SETFL, 0) == 0);
}

static struct listener opened_high(const char *address)
{
    struct listener listener;
    EXPECT(listen_open(address, &as_it_is, &listener, NULL) == GEMMD_OK);
    int high = fcntl(listener.fd, F_DUPFD, 20);
    EXPECT(high >= 20);
    close(listener.fd);
    listener.fd = high;
    return listener;
}

static void take_two(void)
{
    struct listener tcp = opened_high("127.0.0.1:0"), un = opened_high("unix:@test-inherit");
    place(tcp.fd, 0);
    place(un.fd, 1);
    inherit(2, "http:a-name-that-is-longer-than-there-is-room-for-0123456789-0123456789");
    EXPECT(inherited_sockets() == 2);

    struct listener taken[4];
    uint32_t count = 0;
    EXPECT(listen_inherit(taken, 4, &count, NULL) == GEMMD_OK);
    EXPECT(count == 2);
    EXPECT(strcmp(taken[0].address, tcp.address) == 0);
    EXPECT(strcmp(taken[0].name, "http") == 0);
    EXPECT(!taken[0].is_unix && taken[1].is_unix);
    EXPECT(strcmp(taken[1].address, "unix:@test-inherit") == 0);
    EXPECT(strlen(taken[1].name) == LISTEN_NAME_MAX - 1);
    for (uint32_t i = 0; i < count; i++) {
        EXPECT(taken[i].fd == 3 + (int)i);
        EXPECT(taken[i].inherited);
        EXPECT(fcntl(taken[i].fd, F_GETFL) & O_NONBLOCK);
        EXPECT(fcntl(taken[i].fd, F_GETFD) & FD_CLOEXEC);
    }
    EXPECT(listen_inherit(taken, 1, &count, NULL) == GEMMD_ERR_USAGE);
    EXPECT(count == 0);
}

START_TEST(takes_inherited_sockets)
{
    in_child(take_two);
}
END_TEST

static void take_and_close(void)
{
    struct listener own = opened_high("unix:socket"), taken[1];
    uint32_t count;
    place(own.fd, 0);
    inherit(1, NULL);
    EXPECT(listen_inherit(taken, 1, &count, NULL) == GEMMD_OK);
    listen_close(&taken[0]);
}

START_TEST(file_of_an_inherited_socket_stays)
{
    char path[32];
    in_new_directory(path);
    in_child(take_and_close);
    ck_assert_int_eq(unlink("socket"), 0);
    leave_directory(path);
}
END_TEST

static void take_wrong_ones(void)
{
    struct listener taken[1];
    struct fault fault = {0};
    uint32_t count;
    inherit(1, NULL);
    place(socket(AF_INET, SOCK_DGRAM, 0), 0);
    EXPECT(listen_inherit(taken, 1, &count, &fault) == GEMMD_ERR_USAGE);
    place(socket(AF_INET, SOCK_STREAM, 0), 0); /* does not listen */
    EXPECT(listen_inherit(taken, 1, &count, &fault) == GEMMD_ERR_USAGE);
    place(open("/dev/null", O_RDWR), 0);
    EXPECT(listen_inherit(taken, 1, &count, &fault) == GEMMD_ERR_USAGE);
    EXPECT(strstr(fault.detail, "file descriptor 3"));
    close(3);
    EXPECT(listen_inherit(taken, 1, &count, &fault) == GEMMD_ERR_USAGE);
    EXPECT(strstr(fault.detail, "not open"));
    EXPECT(count == 0);
}

START_TEST(refuses_what_is_not_a_listening_stream)
{
    in_child(take_wrong_ones);
}
END_TEST

START_TEST(sockets_for_another_process_are_not_ours)
{
    inherit(1, NULL);
    setenv("LISTEN_PID", "1", 1);
    ck_assert_uint_eq(inherited_sockets(), 0);
    inherit(1, NULL);
    setenv("LISTEN_FDS", "many", 1);
    ck_assert_uint_eq(inherited_sockets(), 0);
    unsetenv("LISTEN_FDS");
    ck_assert_uint_eq(inherited_sockets(), 0);
    struct listener taken[1];
    uint32_t count = 7;
    ck_assert_int_eq(listen_inherit(taken, 1, &count, NULL), GEMMD_OK);
    ck_assert_uint_eq(count, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("listen");
    TCase *tests = tcase_create("listen");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, checks_addresses, 0, COUNT(addresses));
    tcase_add_test(tests, refuses_long_names);
    tcase_add_loop_test(tests, serves_what_it_reports, 0, COUNT(served));
    tcase_add_loop_test(tests, tells_who_may_reach_it, 0, COUNT(reach));
    tcase_add_test(tests, an_ipv4_address_in_ipv6_counts_as_itself);
    tcase_add_test(tests, without_descriptors_there_is_no_socket);
    tcase_add_test(tests, port_zero_becomes_the_real_port);
    tcase_add_test(tests, unresolvable_host);
    tcase_add_test(tests, socket_file_goes_with_its_listener);
    tcase_add_test(tests, stale_socket_file_is_replaced);
    tcase_add_test(tests, file_of_a_successor_stays);
    tcase_add_test(tests, live_socket_file_is_left_alone);
    tcase_add_test(tests, other_files_are_left_alone);
    tcase_add_test(tests, addresses_are_written_as_they_are_read);
    tcase_add_test(tests, peer_of_what_is_no_connection);
    tcase_add_test(tests, takes_inherited_sockets);
    tcase_add_test(tests, file_of_an_inherited_socket_stays);
    tcase_add_test(tests, refuses_what_is_not_a_listening_stream);
    tcase_add_test(tests, sockets_for_another_process_are_not_ours);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
