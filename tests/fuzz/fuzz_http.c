/*
 * The whole path of a request, in one process: a daemon with the CPU backend, its real threads and
 * endpoints, and a connection over a Unix socket for each input. The first byte of an input says
 * how the connection ends, the second one in what pieces the rest is sent.
 *
 * Every connection is answered or closed, the answers are HTTP, and afterwards nothing is left: no
 * connection, no request, no pinned memory, no place in the queue.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "fuzz.h"
#include "server/base/clock.h"
#include "server/daemon.h"
#include "server/device/memory/arena.h"
#include "server/jobs/jobs.h"
#include "server/scheduler/admission.h"

enum {
    PATIENCE_S = 20,    /* for what must happen; an input that passes does not wait */
    PIECES_MAX = 64,    /* writes of one input */
    PROBE_EVERY = 64,   /* inputs between two valid products */
    TENSORS_MAX = 1000, /* that are removed at a time */
    ANSWERS_MAX = 4 << 20
};
/* How a client ends its connection. */
enum ending { END_HALF_CLOSE, END_CLOSE, END_WAIT, END_COUNT };

static struct daemon gemmd;
static struct sockaddr_un address = {.sun_family = AF_UNIX};

static void *run_daemon(void *argument)
{
    (void)argument;
    MUST(daemon_run(&gemmd));
    return NULL;
}

static void remove_socket(void)
{
    unlink(address.sun_path);
}

/* Limits are low, so that no input takes long: those of time end connections whose client waits. */
static void start_daemon(void)
{
    static char listen_option[128];
    static char *arguments[] = {"gemmd",
                                listen_option,
                                "--backend=cpu",
                                "--io-threads=1",
                                "--cpu-threads=1",
                                "--bulk-connections=0",
                                "--pinned-bytes=16M",
                                "--device-bytes=16M",
                                "--tensor-bytes=1M",
                                "--max-body=256K",
                                "--max-json=16K",
                                "--max-work=1000000",
                                "--timeout=100ms",
                                "--max-timeout=200ms",
                                "--header-timeout=30ms",
                                "--idle-timeout=30ms",
                                "--body-timeout=60ms",
                                "--max-wait=5ms",
                                "--max-jobs=8",
                                "--job-bytes=1M",
                                "--job-ttl=1ms",
                                "--shm-system",
                                "--compress-answers",
                                "--no-access-log",
                                "--log-level=error",
                                "--gpu-metrics=off",
                                NULL};
    static char *environment[] = {NULL};
    struct fault fault = {.code = GEMMD_OK};
    pthread_t thread;
    snprintf(address.sun_path, sizeof address.sun_path, "/tmp/fuzz_http.%d", (int)getpid());
    snprintf(listen_option, sizeof listen_option, "--listen=unix:%s", address.sun_path);
    gemmd.argc = (int)(sizeof arguments / sizeof arguments[0]) - 1;
    gemmd.argv = arguments;
    if (config_load(&gemmd.config, gemmd.argc, arguments, environment, &fault) == GEMMD_OK) {
        gemmd.log = log_create(gemmd.config.log_level, gemmd.config.log_format);
        MUST(gemmd.log != NULL);
        (void)daemon_start(&gemmd, &fault);
    }
    if (fault.code != GEMMD_OK)
        fprintf(stderr, "%s\n", fault.detail);
    MUST(fault.code == GEMMD_OK && atexit(remove_socket) == 0);
    MUST(pthread_create(&thread, NULL, run_daemon, NULL) == 0);
    pthread_detach(thread);
}

static int connect_to_daemon(void)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST(fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0);
    return fd;
}

/* ---- answers ---- */

struct answers {
    char *bytes;
    size_t length;
    bool ended; /* the daemon has closed the connection */
};

/* Reads what has arrived; waits for more, at most so long. */
static void receive(int fd, struct answers *answers, int timeout_ms)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    while (!answers->ended && poll(&ready, 1, timeout_ms) > 0) {
        MUST(answers->length < ANSWERS_MAX);
        const ssize_t got =
            recv(fd, answers->bytes + answers->length, ANSWERS_MAX - answers->length, MSG_DONTWAIT);
        answers->ended = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
        answers->length += got > 0 ? (size_t)got : 0;
        timeout_ms = 0;
    }
}

/* Returns the value of a header; NULL: the head has no such header. */
static const char *find_header(const char *head, const char *name)
{
    for (const char *line = strstr(head, "\r\n"); line != NULL; line = strstr(line + 2, "\r\n"))
        if (strncasecmp(line + 2, name, strlen(name)) == 0 && line[2 + strlen(name)] == ':')
            return line + 3 + strlen(name) + strspn(line + 3 + strlen(name), " ");
    return NULL;
}

/* Returns the end of a chunked body; NULL: the body is not complete. */
static const char *chunked_end(const char *at, const char *end)
{
    for (;;) {
        char *after;
        const char *line = memmem(at, (size_t)(end - at), "\r\n", 2);
        if (line == NULL)
            return NULL;
        const unsigned long long size = strtoull(at, &after, 16);
        MUST(after == line && line > at);
        if (size + 4 > (unsigned long long)(end - line))
            return NULL;
        at = line + 2 + size + 2;
        MUST(at[-2] == '\r' && at[-1] == '\n');
        if (size == 0)
            return at;
    }
}

/* Checks that answers follow each other without a gap. Returns the status of the last. An answer
 * may be cut off at the end. */
static int check_answers(const struct answers *answers)
{
    const char *at = answers->bytes, *end = at + answers->length;
    int status = 0;
    while (at < end) {
        const char *head_end = memmem(at, (size_t)(end - at), "\r\n\r\n", 4);
        if (head_end == NULL)
            return status;
        char *head = strndup(at, (size_t)(head_end - at));
        MUST(strlen(head) == (size_t)(head_end - at) && strncmp(head, "HTTP/1.", 7) == 0);
        status = atoi(head + 9);
        MUST(status >= 100 && status <= 599 && status != 500);
        const char *length = find_header(head, "Content-Length");
        const char *coding = find_header(head, "Transfer-Encoding");
        MUST(length == NULL || coding == NULL);
        at = head_end + 4;
        if (length != NULL && status != 304) {
            const unsigned long long bytes = strtoull(length, NULL, 10);
            at = bytes > (unsigned long long)(end - at) ? end : at + bytes;
        } else if (coding != NULL) {
            const char *after = chunked_end(at, end);
            at = after == NULL ? end : after;
        } else if (status >= 200 && status != 204 && status != 304) {
            at = end;
        }
        free(head);
    }
    return status;
}

/* ---- connections ---- */

/* Waits until the daemon has read what was sent, so that the next piece arrives separately. */
static void let_read(int fd)
{
    int unread = 1;
    for (int i = 0; i < 50 && ioctl(fd, SIOCOUTQ, &unread) == 0 && unread > 0; i++)
        usleep(10);
}

static void send_pieces(int fd, const uint8_t *bytes, size_t length, uint8_t cuts,
                        struct answers *answers)
{
    size_t step = cuts == 0 ? length : cuts;
    if (length / PIECES_MAX > step)
        step = length / PIECES_MAX;
    while (length > 0 && !answers->ended) {
        const ssize_t sent =
            send(fd, bytes, length < step ? length : step, MSG_NOSIGNAL | MSG_DONTWAIT);
        receive(fd, answers, sent < 0 && errno == EAGAIN ? 1 : 0);
        if (sent < 0 && errno != EAGAIN)
            return;
        bytes += sent > 0 ? sent : 0;
        length -= sent > 0 ? (size_t)sent : 0;
        if (length > 0)
            let_read(fd);
    }
}

static bool is_late(uint64_t since_ns)
{
    return clock_now_ns() - since_ns > PATIENCE_S * UINT64_C(1000000000);
}

static void talk(const uint8_t *bytes, size_t length, enum ending ending, uint8_t cuts,
                 struct answers *answers)
{
    const int fd = connect_to_daemon();
    const uint64_t since_ns = clock_now_ns();
    send_pieces(fd, bytes, length, cuts, answers);
    if (ending == END_HALF_CLOSE)
        shutdown(fd, SHUT_WR);
    while (ending != END_CLOSE && !answers->ended) {
        receive(fd, answers, 1);
        http_server_check(&gemmd.http); /* the main thread does so a few times a second */
        MUST(!is_late(since_ns));
    }
    close(fd);
}

/* ---- what may be left ---- */

static void remove_tensors(void)
{
    struct tensor_store *store = gemmd.services.tensors;
    static struct resident *page[TENSORS_MAX];
    bool more = false;
    if (tensor_store_state(store).count == 0)
        return;
    do {
        const uint32_t count = tensor_store_page(store, "", "", page, TENSORS_MAX, &more);
        const struct tensor_condition always = {.if_match = NULL};
        for (uint32_t i = 0; i < count; i++) {
            (void)tensor_store_remove(store, resident_name(page[i]), "", &always, NULL);
            tensor_store_release(store, page[i]);
        }
    } while (more);
}

static bool has_left_something(void)
{
    struct services *services = &gemmd.services;
    const struct admission_held held = admission_held(services->admission);
    const struct jobs_counts jobs = jobs_counts(services->jobs);
    uint64_t kept = 0;
    for (int state = 0; state < JOB_EXPIRED; state++)
        kept += jobs.states[state];
    return atomic_load(&gemmd.http.connections) > 0 ||
           http_server_active_requests(&gemmd.http) > 0 || held.requests > 0 || held.bytes > 0 ||
           kept > 0 || pool_used_bytes(services->pool) > 0 ||
           arena_used_bytes(device_arena(services->executors.list[0].device)) > 0 ||
           tensor_store_state(services->tensors).used_bytes > 0;
}

static void settle(void)
{
    const uint64_t since_ns = clock_now_ns();
    while (has_left_something()) {
        http_server_check(&gemmd.http);
        remove_tensors();
        usleep(20);
        if (!is_late(since_ns))
            continue;
        fprintf(stderr, "connections %u, requests %u, reserved %llu, pinned %llu, device %llu\n",
                atomic_load(&gemmd.http.connections), http_server_active_requests(&gemmd.http),
                (unsigned long long)admission_held(gemmd.services.admission).bytes,
                (unsigned long long)pool_used_bytes(gemmd.services.pool),
                (unsigned long long)arena_used_bytes(
                    device_arena(gemmd.services.executors.list[0].device)));
        abort();
    }
}

/* Sends a valid product. On a busy machine the limits of time, which are low, may end it. Returns
 * the status of the answer, 0 if there is none. */
static int multiply(struct answers *answers)
{
    static const float operands[] = {1, 2, 3, 4, 5, 6, 7, 8}, product[] = {19, 22, 43, 50};
    static const char head[] = "POST /gemm?m=2&n=2&k=2 HTTP/1.1\r\nHost: x\r\n"
                               "Content-Type: application/octet-stream\r\n"
                               "Content-Length: 32\r\n\r\n";
    uint8_t bytes[sizeof head - 1 + sizeof operands];
    memcpy(bytes, head, sizeof head - 1);
    memcpy(bytes + sizeof head - 1, operands, sizeof operands);
    answers->length = 0;
    answers->ended = false;
    talk(bytes, sizeof bytes, END_WAIT, 0, answers);
    const int status = check_answers(answers);
    if (status == 200) {
        float result[sizeof product / sizeof *product];
        MUST(answers->length > sizeof result);
        memcpy(result, answers->bytes + answers->length - sizeof result, sizeof result);
        for (size_t i = 0; i < sizeof product / sizeof *product; i++)
            MUST(result[i] == product[i]);
    }
    return status;
}

/* A valid product is still computed, and right. */
static void probe(struct answers *answers)
{
    const uint64_t since_ns = clock_now_ns();
    int status;
    while ((status = multiply(answers)) != 200) {
        if (status == 0 || status == 408 || status == 504)
            MUST(!is_late(since_ns));
        else
            fprintf(stderr, "a valid product is answered with %d\n", status);
        MUST(status == 0 || status == 408 || status == 504);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    static struct answers answers;
    static unsigned inputs;
    if (answers.bytes == NULL) {
        start_daemon();
        answers.bytes = malloc(ANSWERS_MAX + 1);
        MUST(answers.bytes != NULL);
    }
    if (length < 2)
        return 0;
    answers.length = 0;
    answers.ended = false;
    talk(bytes + 2, length - 2, (enum ending)(bytes[0] % END_COUNT), bytes[1], &answers);
    /* The answer to HEAD announces a body that does not come. */
    if (memmem(bytes, length, "HEAD", 4) == NULL)
        (void)check_answers(&answers);
    settle();
    if (++inputs % PROBE_EVERY == 0)
        probe(&answers);
    return 0;
}
