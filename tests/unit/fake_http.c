#include "fake_http.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 128, REQUESTS_MAX = 4096, RECEIVE_BUFFER = 64 * 1024 };

struct connection {
    int fd; /* -1: none */
    uint32_t number;
    bool hangs;
    /* What has come and belongs to no request yet, or to `request`. */
    char *in;
    size_t in_bytes, in_room;
    struct fake_request *request; /* whose head is complete */
    const struct fake_act *act;
    size_t head_bytes, body_bytes;
    bool continued;
    /* What is to go out. */
    char *out;
    size_t out_bytes, out_sent;
};

struct fake_server {
    const struct fake_act *acts;
    size_t act_count;
    int listener, stop[2];
    char url[64];
    pthread_t thread;
    uint32_t accepted;
    struct connection connections[CONNECTIONS_MAX];
    struct fake_request *requests;
    atomic_size_t request_count;
};

/* A server's thread holds it while it is awake. A fork waits for it, so that the child, in which no
 * server goes on, has no lock of the allocator taken for good (AddressSanitizer's has no handler of
 * a fork before gcc 14). */
static pthread_mutex_t awake = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
    pthread_mutex_lock(&awake);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&awake);
}

static void prepare_forks(void)
{
    ck_assert_int_eq(pthread_atfork(before_fork, after_fork, after_fork), 0);
}

static void drop(struct connection *connection)
{
    close(connection->fd);
    free(connection->in);
    free(connection->out);
    *connection = (struct connection){.fd = -1};
}

static void reset(struct connection *connection)
{
    struct linger linger = {.l_onoff = 1};
    setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    drop(connection);
}

static void append_out(struct connection *connection, const void *data, size_t bytes)
{
    connection->out = realloc(connection->out, connection->out_bytes + bytes + 1);
    ck_assert_ptr_nonnull(connection->out);
    if (bytes > 0)
        memcpy(connection->out + connection->out_bytes, data, bytes);
    connection->out_bytes += bytes;
}

static size_t content_length(const char *head)
{
    const char *line = strcasestr(head, "\r\ncontent-length:");
    return line != NULL ? strtoull(line + strlen("\r\ncontent-length:"), NULL, 10) : 0;
}

/* Takes the head of the next request, if it is there. */
static void begin_request(struct fake_server *server, struct connection *connection)
{
    char *end = connection->in_bytes > 0
                    ? memmem(connection->in, connection->in_bytes, "\r\n\r\n", 4)
                    : NULL;
    if (end == NULL)
        return;
    ck_assert_uint_lt(server->request_count, REQUESTS_MAX);
    size_t number = server->request_count++;
    struct fake_request *request = &server->requests[number];
    connection->head_bytes = (size_t)(end - connection->in) + 4;
    snprintf(request->head, sizeof request->head, "%.*s", (int)connection->head_bytes,
             connection->in);
    request->connection = connection->number;
    connection->request = request;
    connection->act = &server->acts[number < server->act_count ? number : server->act_count - 1];
    connection->body_bytes = content_length(request->head);
    connection->continued = strcasestr(request->head, "\r\nexpect: 100-continue") == NULL;
}

static void answer(struct connection *connection, size_t taken)
{
    const struct fake_act *act = connection->act;
    struct fake_request *request = connection->request;
    request->body = malloc(taken + 1);
    ck_assert_ptr_nonnull(request->body);
    memcpy(request->body, connection->in + connection->head_bytes, taken);
    request->body_bytes = taken;
    if (act->head != NULL) {
        append_out(connection, act->head, strlen(act->head));
        append_out(connection, "\r\n\r\n", 4);
        append_out(connection, act->echo ? request->body : act->payload, act->payload_bytes);
    }
    size_t used = connection->head_bytes + taken;
    memmove(connection->in, connection->in + used, connection->in_bytes - used);
    connection->in_bytes -= used;
    connection->request = NULL;
}

/* Once the answer is out. False if the connection is closed then. */
static bool conclude(struct connection *connection)
{
    enum fake_then then = connection->act->then;
    connection->act = NULL;
    connection->out_bytes = connection->out_sent = 0;
    connection->hangs = then == FAKE_HANG;
    if (then == FAKE_RESET)
        reset(connection);
    else if (then == FAKE_CLOSE)
        drop(connection);
    return then == FAKE_KEEP || then == FAKE_HANG;
}

static void proceed(struct fake_server *server, struct connection *connection)
{
    if (connection->act == NULL)
        begin_request(server, connection);
    const struct fake_act *act = connection->act;
    if (connection->request == NULL || act == NULL)
        return;
    size_t take =
        act->take_bytes < connection->body_bytes ? act->take_bytes : connection->body_bytes;
    if (!connection->continued && act->take_bytes > 0) {
        const char *line = "HTTP/1.1 100 Continue\r\n\r\n";
        append_out(connection, line, strlen(line));
        connection->continued = true;
    }
    if (connection->in_bytes - connection->head_bytes >= take)
        answer(connection, take);
}

/* Both return false if the connection is closed now. */
static bool receive(struct connection *connection)
{
    if (connection->in_room - connection->in_bytes < RECEIVE_BUFFER) {
        connection->in_room = connection->in_room * 2 + RECEIVE_BUFFER;
        connection->in = realloc(connection->in, connection->in_room);
        ck_assert_ptr_nonnull(connection->in);
    }
    ssize_t got = recv(connection->fd, connection->in + connection->in_bytes,
                       connection->in_room - connection->in_bytes, 0);
    bool open = got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
    if (got > 0)
        connection->in_bytes += (size_t)got;
    if (!open)
        drop(connection);
    return open;
}

static bool transmit(struct connection *connection)
{
    if (connection->out_sent == connection->out_bytes)
        return true;
    ssize_t sent = send(connection->fd, connection->out + connection->out_sent,
                        connection->out_bytes - connection->out_sent, MSG_NOSIGNAL);
    bool open = sent > 0 || (sent < 0 && (errno == EAGAIN || errno == EINTR));
    if (sent > 0)
        connection->out_sent += (size_t)sent;
    if (!open)
        drop(connection);
    return open;
}

/* True as long as an act is done with and there may be another request in what was received. */
static bool serve_one(struct fake_server *server, struct connection *connection)
{
    if (connection->hangs)
        return false;
    proceed(server, connection);
    if (!transmit(connection))
        return false;
    bool answered = connection->act != NULL && connection->request == NULL &&
                    connection->out_sent == connection->out_bytes;
    return answered && conclude(connection) && connection->in_bytes > 0;
}

static void serve(struct fake_server *server, struct connection *connection, short ready)
{
    if ((ready & (POLLIN | POLLHUP | POLLERR)) != 0 && !receive(connection))
        return;
    while (serve_one(server, connection))
        continue;
}

static void accept_one(struct fake_server *server)
{
    int fd = accept4(server->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    for (size_t i = 0; fd >= 0 && i < CONNECTIONS_MAX; i++) {
        if (server->connections[i].fd < 0) {
            server->connections[i] = (struct connection){.fd = fd, .number = server->accepted++};
            return;
        }
    }
    if (fd >= 0)
        close(fd);
}

static void *run(void *argument)
{
    struct fake_server *server = argument;
    struct pollfd ready[CONNECTIONS_MAX + 2];
    while (true) {
        ready[0] = (struct pollfd){.fd = server->stop[0], .events = POLLIN};
        ready[1] = (struct pollfd){.fd = server->listener, .events = POLLIN};
        for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
            const struct connection *connection = &server->connections[i];
            bool sends = connection->out_sent < connection->out_bytes;
            ready[i + 2] = (struct pollfd){.fd = connection->hangs ? -1 : connection->fd,
                                           .events = (short)(POLLIN | (sends ? POLLOUT : 0))};
        }
        if (poll(ready, CONNECTIONS_MAX + 2, -1) < 0)
            continue;
        if (ready[0].revents != 0)
            return NULL;
        pthread_mutex_lock(&awake);
        for (size_t i = 0; i < CONNECTIONS_MAX; i++)
            if (ready[i + 2].fd >= 0 && ready[i + 2].revents != 0)
                serve(server, &server->connections[i], ready[i + 2].revents);
        if (ready[1].revents != 0)
            accept_one(server);
        pthread_mutex_unlock(&awake);
    }
}

struct fake_server *fake_start(const struct fake_act *acts, size_t count)
{
    struct fake_server *server = calloc(1, sizeof *server);
    ck_assert_ptr_nonnull(server);
    pthread_once(&once, prepare_forks);
    server->requests = calloc(REQUESTS_MAX, sizeof *server->requests);
    ck_assert_ptr_nonnull(server->requests);
    server->acts = acts;
    server->act_count = count;
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        server->connections[i].fd = -1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int receive_buffer = RECEIVE_BUFFER;
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(server->listener, 0);
    /* A small one, so that a server that stops reading is soon felt. */
    setsockopt(server->listener, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    ck_assert_int_eq(bind(server->listener, (struct sockaddr *)&address, length), 0);
    ck_assert_int_eq(listen(server->listener, CONNECTIONS_MAX), 0);
    ck_assert_int_eq(getsockname(server->listener, (struct sockaddr *)&address, &length), 0);
    snprintf(server->url, sizeof server->url, "http://127.0.0.1:%u", ntohs(address.sin_port));
    ck_assert_int_eq(pipe2(server->stop, O_CLOEXEC), 0);
    ck_assert_int_eq(pthread_create(&server->thread, NULL, run, server), 0);
    return server;
}

const char *fake_url(const struct fake_server *server)
{
    return server->url;
}

void fake_stop(struct fake_server *server)
{
    ck_assert_int_eq(write(server->stop[1], "", 1), 1);
    pthread_join(server->thread, NULL);
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        if (server->connections[i].fd >= 0)
            drop(&server->connections[i]);
    close(server->listener);
    close(server->stop[0]);
    close(server->stop[1]);
}

size_t fake_request_count(const struct fake_server *server)
{
    return server->request_count;
}

const struct fake_request *fake_request(const struct fake_server *server, size_t number)
{
    ck_assert_uint_lt(number, server->request_count);
    return &server->requests[number];
}

void fake_free(struct fake_server *server)
{
    for (size_t i = 0; i < server->request_count; i++)
        free(server->requests[i].body);
    free(server->requests);
    free(server);
}

const char *fake_gemm_head(char out[FAKE_HEAD_MAX], uint64_t m, uint64_t n, const char *dtype,
                           size_t bytes)
{
    snprintf(out, FAKE_HEAD_MAX,
             "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
             "Content-Length: %zu\r\nGemmd-Shape: %llu,%llu\r\nGemmd-Dtype: %s\r\n"
             "Gemmd-Kernel: naive\r\nGemmd-Batch: 3\r\nX-Request-Id: from-the-server\r\n"
             "Server-Timing: recv;dur=0.5, queue;dur=0.25, h2d;dur=0, kernel;dur=2, d2h;dur=0, "
             "total;dur=3.5",
             bytes, (unsigned long long)m, (unsigned long long)n, dtype);
    return out;
}
