/* server/net/notify.c: what the service manager receives. */
#include <check.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/net/notify.h"

static int manager(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(name);
    memcpy(address.sun_path, name, length);
    if (name[0] == '@')
        address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)),
                     0);
    setenv("NOTIFY_SOCKET", name, 1);
    return fd;
}

static void assert_receives(int fd, const char *state)
{
    char received[2048] = "";
    ssize_t length = recv(fd, received, sizeof(received) - 1, 0);
    ck_assert_msg(length == (ssize_t)strlen(state) && strcmp(received, state) == 0,
                  "'%s' arrived instead of '%s'", received, state);
}

START_TEST(sends_to_a_path)
{
    char directory[] = P_tmpdir "/test_notify.XXXXXX", path[128];
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/socket", directory);
    int fd = manager(path);
    notify_send("READY=1\nSTATUS=serving");
    assert_receives(fd, "READY=1\nSTATUS=serving");
    close(fd);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(rmdir(directory), 0);
}
END_TEST

START_TEST(sends_to_an_abstract_name)
{
    char name[64];
    snprintf(name, sizeof(name), "@test-notify-%d", (int)getpid());
    int fd = manager(name);
    notify_send("STOPPING=1");
    assert_receives(fd, "STOPPING=1");
    close(fd);
}
END_TEST

START_TEST(a_manager_that_does_not_read_blocks_nobody)
{
    char name[64], state[1024];
    snprintf(name, sizeof(name), "@test-notify-%d", (int)getpid());
    memset(state, 'x', sizeof(state) - 1);
    state[sizeof(state) - 1] = '\0';
    int fd = manager(name);
    for (int i = 0; i < 10000; i++)
        notify_send(state);
    assert_receives(fd, state);
    close(fd);
}
END_TEST

START_TEST(without_a_manager_nothing_happens)
{
    char too_long[300];
    memset(too_long, 'a', sizeof(too_long) - 1);
    too_long[0] = '/';
    too_long[sizeof(too_long) - 1] = '\0';
    const char *const names[] = {"",          "/",     "@", "relative", "/no/such/socket",
                                 "vsock:2:1", too_long};
    int before = dup(0);
    close(before);
    unsetenv("NOTIFY_SOCKET");
    notify_send("READY=1");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        setenv("NOTIFY_SOCKET", names[i], 1);
        notify_send("READY=1");
    }
    int after = dup(0);
    ck_assert_msg(before == after, "a descriptor is left open");
    close(after);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("notify");
    TCase *tests = tcase_create("notify");
    tcase_add_test(tests, sends_to_a_path);
    tcase_add_test(tests, sends_to_an_abstract_name);
    tcase_add_test(tests, a_manager_that_does_not_read_blocks_nobody);
    tcase_add_test(tests, without_a_manager_nothing_happens);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
