/* server/observe/otlp.c and otlp_http.c: spans on their way to a collector, which is a thread that
 * gives each request the answer of the test. */
#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/observe/otlp.h"
#include "server/observe/otlp_http.h"

static struct {
    int fd;
    pthread_t thread;
    char url[64];
    const char *_Atomic answer; /* status line, headers and body */
    char head[2048];            /* of the last request */
    atomic_uint answered;
} collector;

static void answer_one(int fd)
{
    size_t length = 0;
    while (length < sizeof collector.head - 1 && strstr(collector.head, "\r\n\r\n") == NULL) {
        if (recv(fd, collector.head + length, 1, 0) != 1)
            return;
        collector.head[++length] = '\0';
    }
    const char *field = strstr(collector.head, "Content-Length: ");
    unsigned long body = field != NULL ? strtoul(field + 16, NULL, 10) : 0;
    for (char byte; body > 0 && recv(fd, &byte, 1, 0) == 1; body--)
        continue;
    const char *answer = collector.answer;
    (void)!send(fd, answer, strlen(answer), MSG_NOSIGNAL);
    atomic_fetch_add(&collector.answered, 1);
}

static void *collect(void *unused)
{
    (void)unused;
    for (int fd; (fd = accept(collector.fd, NULL, NULL)) >= 0;) {
        collector.head[0] = '\0';
        answer_one(fd);
        close(fd);
    }
    return NULL;
}

static void start_collector(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    collector.fd = socket(AF_INET, SOCK_STREAM, 0);
    atomic_store(&collector.answered, 0);
    ck_assert_int_eq(bind(collector.fd, (struct sockaddr *)&address, length), 0);
    ck_assert_int_eq(listen(collector.fd, 8), 0);
    ck_assert_int_eq(getsockname(collector.fd, (struct sockaddr *)&address, &length), 0);
    snprintf(collector.url, sizeof collector.url, "http://127.0.0.1:%d",
             (int)ntohs(address.sin_port));
    ck_assert_int_eq(pthread_create(&collector.thread, NULL, collect, NULL), 0);
}

static void stop_collector(void)
{
    shutdown(collector.fd, SHUT_RDWR);
    pthread_join(collector.thread, NULL);
    close(collector.fd);
}

/* ---- one transfer ---- */

static _Atomic uint64_t give_up_ns;
static struct fault fault;

static struct otlp_answer post(const struct otlp_collector *to)
{
    struct otlp_http *http = NULL;
    struct otlp_answer answer;
    ck_assert_msg(otlp_http_open(to, &give_up_ns, &http, &fault) == GEMMD_OK, "%s", fault.detail);
    otlp_http_post(http, "{}", &answer);
    otlp_http_close(http);
    return answer;
}

START_TEST(the_path_is_added_once)
{
    static const char *const ends[] = {"", "/", "///", "/v1/traces", "/a", "/a/", "/x/v1/traces"};
    static const char *const paths[] = {"/v1/traces",   "/v1/traces",   "/v1/traces",  "/v1/traces",
                                        "/a/v1/traces", "/a/v1/traces", "/x/v1/traces"};
    char url[128], line[128];
    collector.answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
    atomic_store(&give_up_ns, UINT64_MAX);
    snprintf(url, sizeof url, "%s%s", collector.url, ends[_i]);
    const struct otlp_answer answer = post(&(struct otlp_collector){.endpoint = url});
    ck_assert_int_eq(answer.status, 200);
    ck_assert_str_eq(answer.body, "{}");
    ck_assert_str_eq(answer.error, "");
    snprintf(line, sizeof line, "POST %s HTTP/1.1\r\n", paths[_i]);
    ck_assert_msg(strncmp(collector.head, line, strlen(line)) == 0, "%s", collector.head);
    ck_assert_ptr_nonnull(strstr(collector.head, "Content-Type: application/json\r\n"));
}
END_TEST

START_TEST(an_answer_can_ask_for_a_pause)
{
    static char long_answer[4096];
    snprintf(long_answer, sizeof long_answer,
             "HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 2000\r\n"
             "Connection: close\r\n\r\n%02000d",
             0);
    collector.answer = long_answer;
    atomic_store(&give_up_ns, UINT64_MAX);
    const struct otlp_answer answer = post(&(struct otlp_collector){.endpoint = collector.url});
    ck_assert_int_eq(answer.status, 503);
    ck_assert_uint_eq(answer.retry_after_s, 7);
    ck_assert_uint_eq(strlen(answer.body), sizeof answer.body - 1); /* cut */
}
END_TEST

START_TEST(a_transfer_that_is_given_up_has_no_answer)
{
    collector.answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    atomic_store(&give_up_ns, 1); /* long ago */
    const struct otlp_answer answer = post(&(struct otlp_collector){.endpoint = collector.url});
    ck_assert_int_eq(answer.status, 0);
    ck_assert_str_ne(answer.error, "");
}
END_TEST

/* ---- the files of headers and authorities ---- */

static const struct {
    const char *text; /* of the file; NULL: there is no file */
    mode_t mode;
    enum gemmd_error code;
    const char *says;
} header_files[] = {
    {"# a comment\n\nAuthorization: one\r\nX-Tab: a\tb\n", 0600, GEMMD_OK, ""},
    {"X: no-end", 0640, GEMMD_OK, ""},
    {"X: y\n", 0604, GEMMD_ERR_USAGE, "read by every user"},
    {"X: y\n", 0602, GEMMD_ERR_USAGE, "written by every user"},
    {"X: y\nnothing\n", 0600, GEMMD_ERR_USAGE, "line 2 "},
    {": y\n", 0600, GEMMD_ERR_USAGE, "line 1 "},
    {"X:\n", 0600, GEMMD_ERR_USAGE, "line 1 "},
    {"X: \t \n", 0600, GEMMD_ERR_USAGE, "line 1 "},
    {"X Y: z\n", 0600, GEMMD_ERR_USAGE, "line 1 "},
    {"X: a\x01\n", 0600, GEMMD_ERR_USAGE, "line 1 "},
    {"X: a\x7f\n", 0600, GEMMD_ERR_USAGE, "line 1 "},
    {NULL, 0600, GEMMD_ERR_IO, "cannot be read"},
};

START_TEST(header_files_are_checked)
{
    char path[] = "test_otlp.XXXXXX";
    struct otlp_http *http = NULL;
    const int fd = mkstemp(path);
    const char *text = header_files[_i].text;
    ck_assert_int_ge(fd, 0);
    if (text != NULL) {
        ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
        ck_assert_int_eq(fchmod(fd, header_files[_i].mode), 0);
    } else {
        unlink(path);
    }
    close(fd);
    const struct otlp_collector to = {.endpoint = collector.url, .header_file = path};
    const enum gemmd_error code = otlp_http_open(&to, &give_up_ns, &http, &fault);
    ck_assert_int_eq(code, header_files[_i].code);
    if (code == GEMMD_OK) {
        otlp_http_close(http);
        collector.answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        atomic_store(&give_up_ns, UINT64_MAX);
        ck_assert_int_eq(post(&to).status, 200);
        ck_assert_ptr_nonnull(
            strstr(collector.head, _i == 0 ? "\r\nX-Tab: a\tb\r\n" : "\r\nX: no-end\r\n"));
    } else {
        ck_assert_str_eq(fault.field, "otlp-header-file");
        ck_assert_msg(strstr(fault.detail, header_files[_i].says) != NULL, "%s", fault.detail);
    }
    unlink(path);
}
END_TEST

START_TEST(files_that_cannot_be_read_are_refused)
{
    struct otlp_http *http = NULL;
    const struct otlp_collector folder = {.endpoint = collector.url, .header_file = "."};
    const struct otlp_collector nowhere = {.endpoint = collector.url, .ca_file = "no-such-file"};
    char path[] = "test_otlp.XXXXXX";
    const struct otlp_collector empty = {.endpoint = collector.url, .ca_file = path};
    close(mkstemp(path));
    ck_assert_int_eq(otlp_http_open(&folder, &give_up_ns, &http, &fault), GEMMD_ERR_IO);
    ck_assert_str_eq(fault.field, "otlp-header-file");
    ck_assert_int_eq(otlp_http_open(&nowhere, &give_up_ns, &http, &fault), GEMMD_ERR_IO);
    ck_assert_str_eq(fault.field, "otlp-ca-file");
    ck_assert_int_eq(otlp_http_open(&empty, &give_up_ns, &http, &fault), GEMMD_ERR_USAGE);
    ck_assert_str_eq(fault.field, "otlp-ca-file");
    unlink(path);
    ck_assert_ptr_null(http);
    otlp_http_close(NULL);
}
END_TEST

/* ---- the exporter ---- */

static const struct trace_context trace = {
    .sampled = true, .trace_id = "0af7651916cd43dd8448eb211c80319c", .span_id = "00f067aa0ba902b7"};
/* A record of two spans. */
static const struct log_access entry = {.method = "POST",
                                        .path = "/gemm",
                                        .status = 200,
                                        .started_ns = 1000,
                                        .total_ns = 1000,
                                        .receive_ns = 100};

/* A full batch, which does not wait for more records. */
enum { RECORDS = 128, SPANS = 2 * RECORDS };

static const struct {
    const char *answer; /* the body of an answer with status 200 */
    uint64_t rejected;  /* of the spans of a batch */
} answers[] = {
    {"{}", 0},
    {"no JSON", 0},
    {"{\"partialSuccess\":{\"rejectedSpans\":\"1\"}}", 1},
    {"{\"partialSuccess\":{\"rejectedSpans\":1}}", 1},
    {"{\"partialSuccess\":{\"rejectedSpans\":-1}}", 0},
    {"{\"partialSuccess\":{\"rejectedSpans\":true}}", 0},
    {"{\"partialSuccess\":{\"rejectedSpans\":9999}}", SPANS},
};
enum { ANSWERS = sizeof answers / sizeof *answers };

static void put_batch(struct otlp *otlp, bool jobs)
{
    for (int i = 0; i < RECORDS; i++) {
        if (jobs)
            otlp_job(otlp, &trace, &entry);
        else
            otlp_request(otlp, &trace, "", &entry);
    }
}

static struct otlp *start_exporter(struct log **log)
{
    const struct otlp_collector to = {.endpoint = collector.url};
    struct otlp *otlp = NULL;
    *log = log_create(CONFIG_LOG_ERROR, CONFIG_LOG_JSON);
    ck_assert_ptr_nonnull(*log);
    ck_assert_msg(otlp_start(&to, "9.9", *log, &otlp, &fault) == GEMMD_OK, "%s", fault.detail);
    return otlp;
}

START_TEST(spans_that_the_collector_rejects_are_counted)
{
    static char texts[ANSWERS][256]; /* the collector's thread may still read the last one */
    struct log *log;
    struct otlp *otlp = start_exporter(&log);
    uint64_t sent = 0, all = 0;
    for (int i = 0; i < ANSWERS; i++) {
        snprintf(texts[i], sizeof texts[i],
                 "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s",
                 strlen(answers[i].answer), answers[i].answer);
        collector.answer = texts[i];
        put_batch(otlp, i == 1);
        sent += SPANS - answers[i].rejected;
        all += SPANS;
        struct otlp_counts counts = otlp_counts(otlp);
        while (counts.sent + counts.dropped < all) {
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
            counts = otlp_counts(otlp);
        }
        ck_assert_msg(counts.sent == sent, "%s: %d spans sent", answers[i].answer,
                      (int)counts.sent);
    }
    otlp_stop(otlp);
    log_destroy(log);
}
END_TEST

/* A refusal that says when to come back keeps the spans until the exporter stops. */
START_TEST(the_collector_is_asked_again)
{
    static const char *const statuses[] = {"429", "502", "503", "504"};
    static char text[128];
    struct log *log;
    struct otlp *otlp = start_exporter(&log);
    snprintf(text, sizeof text,
             "HTTP/1.1 %s X\r\nRetry-After: 100\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
             statuses[_i]);
    collector.answer = text;
    put_batch(otlp, false);
    while (atomic_load(&collector.answered) == 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    ck_assert_uint_eq(otlp_counts(otlp).dropped, 0);
    otlp_stop(otlp);
    log_destroy(log);
}
END_TEST

START_TEST(a_refusal_for_good_drops_the_spans)
{
    struct log *log;
    struct otlp *otlp = start_exporter(&log);
    collector.answer = "HTTP/1.1 400 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    put_batch(otlp, false);
    while (otlp_counts(otlp).dropped == 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    ck_assert_uint_eq(otlp_counts(otlp).dropped, SPANS);
    ck_assert_uint_eq(otlp_counts(otlp).sent, 0);
    otlp_stop(otlp);
    otlp_stop(NULL);
    log_destroy(log);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("otlp");
    TCase *tests = tcase_create("otlp");
    tcase_add_checked_fixture(tests, start_collector, stop_collector);
    tcase_add_loop_test(tests, the_path_is_added_once, 0, 7);
    tcase_add_test(tests, an_answer_can_ask_for_a_pause);
    tcase_add_test(tests, a_transfer_that_is_given_up_has_no_answer);
    tcase_add_loop_test(tests, header_files_are_checked, 0,
                        (int)(sizeof header_files / sizeof *header_files));
    tcase_add_test(tests, files_that_cannot_be_read_are_refused);
    tcase_add_test(tests, spans_that_the_collector_rejects_are_counted);
    tcase_add_loop_test(tests, the_collector_is_asked_again, 0, 4);
    tcase_add_test(tests, a_refusal_for_good_drops_the_spans);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
