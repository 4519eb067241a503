/* server/http/arrival.c with libmicrohttpd: the end of connections that the system does not watch.
 */
#include <check.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "server/base/network.h"
#include "server/http/arrival.h"
#include "server/http/connection.h"
#include "server/http/io_thread.h"
#include "server/http/server.h"
#include "server/net/lingering.h"
#include "server/net/peer_counts.h"

static const struct networks nobody = {0};

static bool watches_no_more; /* the system has no memory to watch another descriptor */

/* Takes the place of glibc's function, for libmicrohttpd too. */
__attribute__((visibility("default"))) int epoll_ctl(int epoll, int operation, int fd,
                                                     struct epoll_event *event)
{
    if (watches_no_more && operation == EPOLL_CTL_ADD) {
        errno = ENOSPC;
        return -1;
    }
    return (int)syscall(SYS_epoll_ctl, epoll, operation, fd, event);
}

static enum MHD_Result answer_nothing(void *cls, struct MHD_Connection *mhd, const char *url,
                                      const char *method, const char *version, const char *body,
                                      size_t *body_bytes, void **context)
{
    (void)cls, (void)mhd, (void)url, (void)method, (void)version, (void)body, (void)body_bytes;
    (void)context;
    return MHD_NO;
}

/* libmicrohttpd 0.9 announces the start and the end of such a connection before its call fails, so
 * that the connection is freed by then (which a sanitizer sees). */
START_TEST(a_connection_that_is_not_watched_is_ended_once)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    const struct sockaddr peer = {.sa_family = AF_UNIX};
    uv_loop_t loop;
    int ends[2];
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    struct http_server server = {.peers = peer_counts_create(0, 1, &nobody),
                                 .lingering = lingering_create(&loop, 1000)};
    struct io_thread thread = {.server = &server};
    ck_assert_ptr_nonnull(server.peers);
    ck_assert_ptr_nonnull(server.lingering);
    ck_assert(inbox_open(&thread.inbox));
    thread.mhd =
        MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME, 0,
                         NULL, NULL, answer_nothing, NULL, MHD_OPTION_NOTIFY_CONNECTION,
                         arrival_on_connection, &thread, MHD_OPTION_END);
    ck_assert_ptr_nonnull(thread.mhd);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    ck_assert_int_eq(write(ends[1], request, sizeof request - 1), sizeof request - 1);
    atomic_store(&server.connections, 1);
    arrival_hand_over(&thread, ends[0], &peer, sizeof peer.sa_family);
    watches_no_more = true;
    inbox_act(&thread.inbox);
    (void)MHD_run(thread.mhd);
    arrival_end_untaken(&thread);
    watches_no_more = false;
    ck_assert_uint_eq(atomic_load(&server.connections), 0);
    ck_assert_uint_eq(atomic_load(&thread.load), 0);
    ck_assert_ptr_null(thread.arriving.first);
    ck_assert_ptr_null(thread.checks.watched.first);
    MHD_stop_daemon(thread.mhd);
    close(ends[1]);
    inbox_close(&thread.inbox);
    lingering_destroy(server.lingering);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    peer_counts_destroy(server.peers);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("arrival_ends");
    TCase *tests = tcase_create("arrival_ends");
    tcase_add_test(tests, a_connection_that_is_not_watched_is_ended_once);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
