/*
 * mhd_alone.c - libmicrohttpd with nothing behind it: the ceiling for any daemon that is built on
 * it. Lands each body in memory and answers a constant: ANSWER_BYTES zeros, or as many of them as
 * the query's answer=N says.
 *
 *     gemmd-bench-mhd-alone PORT THREADS BUFFER_BYTES BODY_BYTES ANSWER_BYTES
 *
 * Its shape is the daemon's own, so that the difference between the two is what gemmd does: one
 * acceptor hands connections in turn to THREADS single-threaded libmicrohttpd daemons, and bodies
 * are copied once, into memory that was there before (a slot of BODY_BYTES, reused). Serves on
 * 127.0.0.1 until it is killed; port 0 takes a free one. Prints "listening on 127.0.0.1:PORT".
 */
#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { THREADS_MAX = 256, BACKLOG = 1024 };

/* Where one body lands. Kept in a list by its worker between requests. */
struct slot {
    struct slot *next;
    size_t used;
    unsigned char bytes[];
};

struct bench {
    size_t body_bytes, answer_bytes;
    void *zeros; /* answer_bytes of them */
    struct MHD_Response *answer;
};

/* One libmicrohttpd daemon and its thread, which alone touches the list. */
struct worker {
    const struct bench *bench;
    struct MHD_Daemon *mhd;
    struct slot *free;
};

static struct slot *take_slot(struct worker *worker)
{
    struct slot *slot = worker->free;
    if (slot != NULL)
        worker->free = slot->next;
    else
        slot = malloc(sizeof *slot + worker->bench->body_bytes);
    if (slot != NULL)
        slot->used = 0;
    return slot;
}

static enum MHD_Result respond(const struct bench *bench, struct MHD_Connection *connection)
{
    const char *wanted = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "answer");
    if (wanted == NULL)
        return MHD_queue_response(connection, MHD_HTTP_OK, bench->answer);
    unsigned long long bytes = strtoull(wanted, NULL, 10);
    if (bytes > bench->answer_bytes)
        return MHD_NO;
    struct MHD_Response *answer =
        MHD_create_response_from_buffer((size_t)bytes, bench->zeros, MHD_RESPMEM_PERSISTENT);
    enum MHD_Result queued = MHD_queue_response(connection, MHD_HTTP_OK, answer);
    MHD_destroy_response(answer);
    return queued;
}

static enum MHD_Result handle(void *cls, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *size, void **context)
{
    struct worker *worker = cls;
    struct slot *slot = *context;
    (void)url;
    (void)method;
    (void)version;
    if (slot == NULL) {
        *context = take_slot(worker);
        return *context == NULL ? MHD_NO : MHD_YES;
    }
    if (*size > 0) {
        if (*size > worker->bench->body_bytes - slot->used)
            return MHD_NO;
        memcpy(slot->bytes + slot->used, data, *size);
        slot->used += *size;
        *size = 0;
        return MHD_YES;
    }
    return respond(worker->bench, connection);
}

static void completed(void *cls, struct MHD_Connection *connection, void **context,
                      enum MHD_RequestTerminationCode code)
{
    struct worker *worker = cls;
    struct slot *slot = *context;
    (void)connection;
    (void)code;
    if (slot == NULL)
        return;
    slot->next = worker->free;
    worker->free = slot;
    *context = NULL;
}

static bool start_worker(struct worker *worker, const struct bench *bench, size_t buffer_bytes)
{
    worker->bench = bench;
    worker->mhd =
        MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ITC, 0,
                         NULL, NULL, handle, worker, MHD_OPTION_NOTIFY_COMPLETED, completed, worker,
                         MHD_OPTION_CONNECTION_MEMORY_LIMIT, buffer_bytes,
                         MHD_OPTION_CONNECTION_LIMIT, 65536u, MHD_OPTION_END);
    return worker->mhd != NULL;
}

static int listen_on(unsigned long port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    socklen_t length = sizeof address;
    const int on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, (struct sockaddr *)&address, length) != 0 || listen(fd, BACKLOG) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &length) != 0) {
        close(fd);
        return -1;
    }
    printf("listening on 127.0.0.1:%u\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

/* Returns when accepting fails. */
static void serve(int listener, struct worker *workers, size_t threads)
{
    for (size_t turn = 0;; turn++) {
        struct sockaddr_in peer;
        socklen_t length = sizeof peer;
        int fd = accept4(listener, (struct sockaddr *)&peer, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) /* closed by libmicrohttpd if it cannot take it */
            (void)MHD_add_connection(workers[turn % threads].mhd, fd, (struct sockaddr *)&peer,
                                     length);
        else if (errno != EINTR && errno != ECONNABORTED)
            return;
    }
}

static bool read_size(const char *text, unsigned long long max, unsigned long long *out)
{
    char *rest;
    errno = 0;
    *out = strtoull(text, &rest, 10);
    return errno == 0 && text[0] >= '0' && text[0] <= '9' && *rest == '\0' && *out <= max;
}

int main(int argc, char *argv[])
{
    static struct worker workers[THREADS_MAX];
    static struct bench bench;
    const unsigned long long max[] = {65535, THREADS_MAX, 1ull << 30, 1ull << 40, 1ull << 40};
    unsigned long long values[5];

    if (argc != 6) {
        fprintf(stderr, "usage: %s PORT THREADS BUFFER_BYTES BODY_BYTES ANSWER_BYTES\n", argv[0]);
        return 2;
    }
    for (int i = 0; i < 5; i++) {
        if (!read_size(argv[i + 1], max[i], &values[i]) || (i == 1 && values[i] == 0)) {
            fprintf(stderr, "%s: '%s' is out of range\n", argv[0], argv[i + 1]);
            return 2;
        }
    }
    signal(SIGPIPE, SIG_IGN);
    bench.body_bytes = (size_t)values[3];
    bench.answer_bytes = (size_t)values[4];
    bench.zeros = calloc(1, bench.answer_bytes + 1);
    if (bench.zeros != NULL)
        bench.answer = MHD_create_response_from_buffer(bench.answer_bytes, bench.zeros,
                                                       MHD_RESPMEM_PERSISTENT);
    bool started = bench.answer != NULL;
    for (size_t i = 0; started && i < values[1]; i++)
        started = start_worker(&workers[i], &bench, (size_t)values[2]);
    if (started) {
        int listener = listen_on((unsigned long)values[0]);
        if (listener >= 0)
            serve(listener, workers, (size_t)values[1]);
    }
    /* Only a failure comes here; the process's end takes the threads and memory with it. */
    fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
    return EXIT_FAILURE;
}
