/*
 * same_bytes.c - whether an answer's bytes depend on what else is in flight, or on the daemon:
 * they must not.
 *
 *     gemmd-bench-same-bytes ADDRESS LIST CONNECTIONS REQUESTS [REFERENCE]
 *
 * LIST has one request a line: target (path and query), a tab, body file. Each is sent once alone,
 * to the daemon at the address REFERENCE (default: ADDRESS), which has nothing else to do; its
 * answer is the expected one. Then REQUESTS requests of the list, drawn at random, are sent to
 * ADDRESS over CONNECTIONS connections at once, and every answer is compared byte for byte. Prints
 * "N passed, N failed"; the status is 0 if none failed. An answer other than 200 has failed.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/bench/load/answer.h"
#include "tests/bench/load/target.h"

enum { LINES_MAX = 65536, LINE_MAX_BYTES = 16384, CONNECTIONS_MAX = 4096, COMPLAINTS_MAX = 10 };

struct request {
    struct target target;
    char *payload; /* of the expected answer; NULL until that has arrived */
    size_t payload_bytes;
};

struct run {
    const char *address, *reference;
    struct request *requests;
    uint32_t count;
    atomic_llong left, failed;
    atomic_int complaints;
};

struct client {
    struct run *run;
    pthread_t thread;
    uint32_t index;
    int fd;
    struct answer answer;
    char *payload; /* of the answer that is arriving */
    size_t payload_bytes, capacity;
};

static bool send_all(const struct client *client, const struct target *target)
{
    struct iovec parts[2];
    struct msghdr message = {.msg_iov = parts};
    size_t sent = 0;
    while ((message.msg_iovlen = (size_t)target_rest(target, sent, parts)) > 0) {
        ssize_t more = sendmsg(client->fd, &message, MSG_NOSIGNAL);
        if (more < 0)
            return false;
        sent += (size_t)more;
    }
    return true;
}

static bool keep(struct client *client, const char *bytes, size_t count)
{
    if (client->payload_bytes + count > client->capacity) {
        size_t capacity = 2 * (client->payload_bytes + count);
        char *larger = realloc(client->payload, capacity);
        if (larger == NULL)
            return false;
        client->payload = larger;
        client->capacity = capacity;
    }
    memcpy(client->payload + client->payload_bytes, bytes, count);
    client->payload_bytes += count;
    return true;
}

static bool ask(struct client *client, const struct target *target)
{
    static _Thread_local char bytes[1 << 16];
    enum answer_progress progress = ANSWER_MORE;
    if (client->fd < 0)
        client->fd = target_connect(target);
    if (client->fd < 0 || !send_all(client, target))
        return false;
    answer_reset(&client->answer);
    client->payload_bytes = 0;
    while (progress == ANSWER_MORE) {
        ssize_t got = recv(client->fd, bytes, sizeof bytes, 0);
        if (got <= 0)
            return false;
        size_t of_payload;
        progress = answer_take(&client->answer, bytes, (size_t)got, &of_payload);
        if (progress != ANSWER_BROKEN &&
            !keep(client, bytes + ((size_t)got - of_payload), of_payload))
            return false;
    }
    return progress == ANSWER_WHOLE;
}

static void hang_up(struct client *client)
{
    if (client->fd >= 0)
        close(client->fd);
    client->fd = -1;
}

static bool is_right(const struct client *client, const struct request *request)
{
    return client->answer.status == 200 && client->payload_bytes == request->payload_bytes &&
           memcmp(client->payload, request->payload, request->payload_bytes) == 0;
}

static void complain(struct client *client, const struct request *request, bool answered)
{
    atomic_fetch_add(&client->run->failed, 1);
    if (atomic_fetch_add(&client->run->complaints, 1) < COMPLAINTS_MAX)
        fprintf(stderr, "%.*s: %s, status %u\n", (int)strcspn(request->target.head, "\r"),
                request->target.head, answered ? "other bytes than alone" : "no answer",
                client->answer.status);
}

static void *drive(void *argument)
{
    struct client *client = argument;
    struct run *run = client->run;
    unsigned short random[3] = {(unsigned short)client->index, 7, 42};
    while (atomic_fetch_sub(&run->left, 1) > 0) {
        const struct request *request =
            &run->requests[(uint32_t)(erand48(random) * (double)run->count)];
        bool answered = ask(client, &request->target);
        if (!answered || !is_right(client, request))
            complain(client, request, answered);
        if (!answered || client->answer.closes)
            hang_up(client);
    }
    hang_up(client);
    return NULL;
}

/* Fetches the expected answers. */
static bool ask_alone(struct run *run)
{
    struct client client = {.run = run, .fd = -1};
    for (uint32_t i = 0; i < run->count; i++) {
        struct request *request = &run->requests[i];
        request->target.address = run->reference;
        if (!ask(&client, &request->target) || client.answer.status != 200) {
            fprintf(stderr, "alone: %.*s: status %u\n", (int)strcspn(request->target.head, "\r"),
                    request->target.head, client.answer.status);
            hang_up(&client);
            free(client.payload);
            return false;
        }
        request->payload = client.payload;
        request->payload_bytes = client.payload_bytes;
        request->target.address = run->address;
        client.payload = NULL;
        client.capacity = 0;
    }
    hang_up(&client);
    return true;
}

static bool read_list(struct run *run, const char *path)
{
    static char line[LINE_MAX_BYTES];
    FILE *file = fopen(path, "r");
    run->requests = calloc(LINES_MAX, sizeof *run->requests);
    if (file == NULL || run->requests == NULL)
        return false;
    bool good = true;
    while (good && run->count < LINES_MAX && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *tab = strchr(line, '\t');
        good = tab != NULL;
        if (good) {
            *tab = '\0';
            good = target_open(&run->requests[run->count].target, run->address, line, tab + 1);
            run->count++;
        }
    }
    fclose(file);
    return good && run->count > 0;
}

int main(int argc, char *argv[])
{
    static struct run run;
    static struct client clients[CONNECTIONS_MAX];
    if (argc != 5 && argc != 6) {
        fprintf(stderr, "usage: %s ADDRESS LIST CONNECTIONS REQUESTS [REFERENCE]\n", argv[0]);
        return 2;
    }
    long connections = strtol(argv[3], NULL, 10);
    long long wanted = strtoll(argv[4], NULL, 10);
    if (connections < 1 || connections > CONNECTIONS_MAX || wanted < 1) {
        fprintf(stderr, "%s: a number is out of range\n", argv[0]);
        return 2;
    }
    run.address = argv[1];
    run.reference = argc == 6 ? argv[5] : argv[1];
    if (!read_list(&run, argv[2])) {
        fprintf(stderr, "%s: the list can't be read: %s\n", argv[0], strerror(errno));
        return 2;
    }
    if (!ask_alone(&run))
        return EXIT_FAILURE;
    atomic_store(&run.left, wanted);
    for (long i = 0; i < connections; i++) {
        clients[i].run = &run;
        clients[i].index = (uint32_t)i;
        clients[i].fd = -1;
        if (pthread_create(&clients[i].thread, NULL, drive, &clients[i]) != 0)
            return EXIT_FAILURE;
    }
    for (long i = 0; i < connections; i++)
        pthread_join(clients[i].thread, NULL);
    long long failed = atomic_load(&run.failed);
    printf("%lld passed, %lld failed\n", wanted - failed, failed);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
