/*
 * paced.c - sends requests at a given rate, whatever becomes of the ones before.
 *
 *     gemmd-bench-paced ADDRESS TARGET BODY_FILE CONNECTIONS THREADS RATE SECONDS [expect]
 *
 * Arrivals are a Poisson process of RATE a second. A request is sent on an idle connection; if
 * there is none it waits for one, and its latency counts from when it should have been sent, so
 * that a server that stalls cannot hide it (G. Tene: coordinated omission). One second of the same
 * rate comes first and is not counted; it is not stopped for, so what it left behind is felt.
 * With `expect`, a request asks with Expect: 100-continue, and its body is sent when the server has
 * answered with 100.
 * Prints:
 *
 *     sent N                       arrivals of the SECONDS, all of them answered or broken
 *     good N P50 P99 P999          status 2xx, latency in us
 *     refused N P50 P99 P999       429 and 503
 *     other N P50 P99 P999         any other status
 *     broken N                     connections that broke
 *     completed N                  answers of status 2xx that came within the SECONDS
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/bench/load/answer.h"
#include "tests/bench/load/histogram.h"
#include "tests/bench/load/target.h"

enum { THREADS_MAX = 64, EVENTS = 64, WAITING_MAX = 1 << 20 };
static const uint64_t WARM_NS = 1000000000, GRACE_NS = 5000000000;

enum outcome { GOOD, REFUSED, OTHER, OUTCOMES };

struct connection {
    struct connection *next; /* of the idle ones */
    int fd;
    uint64_t due_ns; /* of its request */
    size_t sent;
    bool waits_for_continue; /* the body is not sent before a 100 */
    bool whole_sent, waits_for_room, idle;
    struct answer answer;
};

struct sender {
    const struct target *target;
    pthread_t thread;
    uint32_t connection_count;
    double rate; /* a second, its share */
    uint64_t begin_ns, end_ns;
    unsigned short random[3];

    int epoll_fd;
    struct connection *connections, *idle;
    uint32_t busy;
    uint64_t *waiting; /* due times of arrivals that have no connection yet: a ring */
    uint64_t first, last;

    uint64_t sent, broken, completed;
    struct histogram outcomes[OUTCOMES];
};

static void watch(struct sender *sender, struct connection *connection, int operation,
                  uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = connection};
    epoll_ctl(sender->epoll_fd, operation, connection->fd, &event);
}

static bool reconnect(struct sender *sender, struct connection *connection)
{
    connection->fd = target_connect(sender->target);
    if (connection->fd < 0)
        return false;
    fcntl(connection->fd, F_SETFL, O_NONBLOCK);
    watch(sender, connection, EPOLL_CTL_ADD, EPOLLIN);
    return true;
}

static void rest(struct sender *sender, struct connection *connection)
{
    connection->idle = true;
    connection->next = sender->idle;
    sender->idle = connection;
    sender->busy--;
}

static void renew(struct sender *sender, struct connection *connection)
{
    close(connection->fd);
    connection->waits_for_room = false;
    if (reconnect(sender, connection)) {
        rest(sender, connection);
    } else {
        sender->busy--; /* one connection less */
        sender->broken++;
    }
}

static void break_off(struct sender *sender, struct connection *connection)
{
    sender->broken++;
    renew(sender, connection);
}

static void go_on_sending(struct sender *sender, struct connection *connection)
{
    struct iovec parts[2];
    struct msghdr message = {.msg_iov = parts};
    int count;
    while ((count = target_rest(sender->target, connection->sent, parts)) > 0) {
        if (connection->waits_for_continue && connection->sent >= sender->target->head_bytes)
            return;
        message.msg_iovlen = connection->waits_for_continue ? 1 : (size_t)count;
        ssize_t more = sendmsg(connection->fd, &message, MSG_NOSIGNAL);
        if (more < 0 && errno == EAGAIN) {
            watch(sender, connection, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
            connection->waits_for_room = true;
            return;
        }
        if (more < 0) { /* an answer may be there all the same */
            connection->whole_sent = true;
            break;
        }
        connection->sent += (size_t)more;
    }
    connection->whole_sent = true;
    if (connection->waits_for_room)
        watch(sender, connection, EPOLL_CTL_MOD, EPOLLIN);
    connection->waits_for_room = false;
}

static void start(struct sender *sender, uint64_t due_ns)
{
    struct connection *connection = sender->idle;
    sender->idle = connection->next;
    sender->busy++;
    connection->idle = false;
    connection->due_ns = due_ns;
    connection->sent = 0;
    connection->whole_sent = false;
    connection->waits_for_continue = sender->target->expects;
    answer_reset(&connection->answer);
    go_on_sending(sender, connection);
}

static void finish(struct sender *sender, struct connection *connection)
{
    const struct answer *answer = &connection->answer;
    const uint64_t now_ns = target_now_ns();
    sender->completed +=
        answer->status / 100 == 2 && now_ns >= sender->begin_ns && now_ns < sender->end_ns;
    if (connection->due_ns >= sender->begin_ns) {
        enum outcome outcome = answer->status / 100 == 2                        ? GOOD
                               : answer->status == 429 || answer->status == 503 ? REFUSED
                                                                                : OTHER;
        histogram_add(&sender->outcomes[outcome], now_ns - connection->due_ns);
    }
    if (answer->closes || !connection->whole_sent)
        renew(sender, connection);
    else
        rest(sender, connection);
}

/* Whether all that has arrived is an answer 100, which libmicrohttpd sends in one piece. */
static bool is_continue(const char *bytes, size_t length)
{
    static const char answer[] = "HTTP/1.1 100 Continue\r\n\r\n";
    return length == strlen(answer) && memcmp(bytes, answer, length) == 0;
}

static void receive(struct sender *sender, struct connection *connection)
{
    char bytes[1 << 16];
    ssize_t more = recv(connection->fd, bytes, sizeof bytes, 0);
    if (more < 0 && errno == EAGAIN)
        return;
    if (connection->waits_for_continue && more > 0 && is_continue(bytes, (size_t)more)) {
        connection->waits_for_continue = false;
        go_on_sending(sender, connection);
        return;
    }
    enum answer_progress progress =
        more > 0 ? answer_take(&connection->answer, bytes, (size_t)more, NULL) : ANSWER_BROKEN;
    if (progress == ANSWER_WHOLE)
        finish(sender, connection);
    else if (progress == ANSWER_BROKEN)
        break_off(sender, connection);
}

static void act(struct sender *sender, const struct epoll_event *event)
{
    struct connection *connection = event->data.ptr;
    if (connection->idle) { /* the server closed it: no request was lost */
        struct connection **link = &sender->idle;
        while (*link != connection)
            link = &(*link)->next;
        *link = connection->next;
        connection->idle = false;
        sender->busy++;
        renew(sender, connection);
        return;
    }
    if (event->events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        receive(sender, connection);
    else if (event->events & EPOLLOUT)
        go_on_sending(sender, connection);
}

static uint64_t gap_ns(struct sender *sender)
{
    return (uint64_t)(-log(1 - erand48(sender->random)) / sender->rate * 1e9);
}

static void *run(void *argument)
{
    struct sender *sender = argument;
    struct epoll_event events[EVENTS];
    uint64_t next_ns = sender->begin_ns - WARM_NS + gap_ns(sender), now_ns;
    for (;;) {
        now_ns = target_now_ns();
        for (; next_ns <= now_ns && next_ns < sender->end_ns; next_ns += gap_ns(sender)) {
            if (sender->last - sender->first < WAITING_MAX)
                sender->waiting[sender->last++ % WAITING_MAX] = next_ns;
            else
                sender->broken++;
            sender->sent += next_ns >= sender->begin_ns;
        }
        while (sender->first < sender->last && sender->idle != NULL)
            start(sender, sender->waiting[sender->first++ % WAITING_MAX]);
        bool over = next_ns >= sender->end_ns;
        if (over && ((sender->busy == 0 && sender->first == sender->last) ||
                     now_ns > sender->end_ns + GRACE_NS))
            return NULL;
        uint64_t wait_ns = over ? 1000000 : next_ns - now_ns;
        if (next_ns <= now_ns && !over)
            wait_ns = 0;
        struct timespec wait = {(time_t)(wait_ns / 1000000000u), (long)(wait_ns % 1000000000u)};
        int count = epoll_pwait2(sender->epoll_fd, events, EVENTS, &wait, NULL);
        for (int i = 0; i < count; i++)
            act(sender, &events[i]);
    }
}

static bool prepare(struct sender *sender)
{
    sender->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    sender->connections = calloc(sender->connection_count, sizeof *sender->connections);
    sender->waiting = calloc(WAITING_MAX, sizeof *sender->waiting);
    if (sender->epoll_fd < 0 || sender->connections == NULL || sender->waiting == NULL)
        return false;
    for (uint32_t i = 0; i < sender->connection_count; i++) {
        if (!reconnect(sender, &sender->connections[i]))
            return false;
        sender->busy++;
        rest(sender, &sender->connections[i]);
    }
    return true;
}

static void report(struct sender *senders, uint32_t count)
{
    static const char *const names[OUTCOMES] = {"good", "refused", "other"};
    static struct histogram sums[OUTCOMES];
    uint64_t sent = 0, broken = 0, completed = 0;
    for (uint32_t i = 0; i < count; i++) {
        sent += senders[i].sent;
        broken += senders[i].broken;
        completed += senders[i].completed;
        for (int outcome = 0; outcome < OUTCOMES; outcome++)
            histogram_merge(&sums[outcome], &senders[i].outcomes[outcome]);
    }
    printf("sent %llu\n", (unsigned long long)sent);
    for (int outcome = 0; outcome < OUTCOMES; outcome++)
        printf("%s %llu %.1f %.1f %.1f\n", names[outcome], (unsigned long long)sums[outcome].count,
               histogram_percentile_us(&sums[outcome], 0.5),
               histogram_percentile_us(&sums[outcome], 0.99),
               histogram_percentile_us(&sums[outcome], 0.999));
    printf("broken %llu\ncompleted %llu\n", (unsigned long long)broken,
           (unsigned long long)completed);
}

int main(int argc, char *argv[])
{
    static struct target target;
    static struct sender senders[THREADS_MAX];
    const bool expects = argc == 9 && strcmp(argv[8], "expect") == 0;
    if (argc != 8 && !expects) {
        fprintf(stderr,
                "usage: %s ADDRESS TARGET BODY_FILE CONNECTIONS THREADS RATE SECONDS [expect]\n",
                argv[0]);
        return 2;
    }
    long connections = strtol(argv[4], NULL, 10), threads = strtol(argv[5], NULL, 10);
    double rate = strtod(argv[6], NULL), seconds = strtod(argv[7], NULL);
    if (threads < 1 || threads > THREADS_MAX || connections < threads || connections > 65536 ||
        !(rate > 0) || !(seconds > 0)) {
        fprintf(stderr, "%s: a number is out of range\n", argv[0]);
        return 2;
    }
    if (!target_open(&target, argv[1], argv[2], argv[3]) || (expects && !target_expect(&target))) {
        fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
        return EXIT_FAILURE;
    }
    uint32_t count = (uint32_t)threads;
    for (uint32_t i = 0; i < count; i++) {
        senders[i].target = &target;
        senders[i].connection_count =
            (uint32_t)(connections / threads + (i < connections % threads));
        senders[i].rate = rate / (double)threads;
        senders[i].random[0] = (unsigned short)i;
        if (!prepare(&senders[i])) {
            fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
            return EXIT_FAILURE;
        }
    }
    uint64_t begin_ns = target_now_ns() + WARM_NS;
    for (uint32_t i = 0; i < count; i++) {
        senders[i].begin_ns = begin_ns;
        senders[i].end_ns = begin_ns + (uint64_t)(seconds * 1e9);
        if (pthread_create(&senders[i].thread, NULL, run, &senders[i]) != 0)
            return EXIT_FAILURE;
    }
    for (uint32_t i = 0; i < count; i++)
        pthread_join(senders[i].thread, NULL);
    report(senders, count);
    return EXIT_SUCCESS;
}
