/* server/observe/log.c, log_line.c: every line is one whole JSON object, or one line of text,
 * whatever it holds, and a reader that does not read the log cannot stop the daemon. */
#include <check.h>
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/observe/log.h"
#include "server/observe/log_line.h"
#include "tests/unit/failing_calls.h"

/* log_sync waits for a second, in which the log's thread may not run. */
static void sync_log(struct log *log)
{
    for (int i = 0; i < 60; i++)
        log_sync(log);
}

/* Standard output goes to `fd` until given back. */
static int redirect(int fd)
{
    fflush(stdout);
    int saved = dup(STDOUT_FILENO);
    ck_assert_int_ge(saved, 0);
    ck_assert_int_ge(dup2(fd, STDOUT_FILENO), 0);
    return saved;
}

static void give_back(int saved)
{
    dup2(saved, STDOUT_FILENO);
    close(saved);
}

/* What is logged goes into a file without a name; `written` reads it back. */
struct capture {
    FILE *file;
    int saved;
    struct log *log;
};

static struct capture capture(enum config_log_level level, enum config_log_format format)
{
    struct capture capture = {.file = tmpfile()};
    ck_assert_ptr_nonnull(capture.file);
    capture.saved = redirect(fileno(capture.file));
    capture.log = log_create(level, format);
    ck_assert_ptr_nonnull(capture.log);
    return capture;
}

static char *written(struct capture *capture)
{
    sync_log(capture->log);
    ck_assert_uint_eq(log_dropped(capture->log), 0);
    log_destroy(capture->log);
    give_back(capture->saved);
    long size = lseek(fileno(capture->file), 0, SEEK_END);
    char *text = calloc(1, (size_t)size + 1);
    ck_assert_int_eq(pread(fileno(capture->file), text, (size_t)size, 0), size);
    fclose(capture->file);
    return text;
}

static void log_one_access(struct log *log, const struct log_access *entry)
{
    struct log_buffer buffer = {0};
    log_access(log, &buffer, entry, 0);
    log_flush(log, &buffer);
}

/* The one line as an object. */
static json_t *one_object(const char *text)
{
    size_t length = strlen(text);
    ck_assert_msg(length > 0 && strchr(text, '\n') == text + length - 1, "not one line: %s", text);
    ck_assert_uint_le(length, LOG_LINE_MAX);
    json_error_t error;
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(object, "%s: %s", error.text, text);
    return object;
}

static const char *member(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    ck_assert_msg(text, "there is no text \"%s\"", name);
    return text;
}

START_TEST(event_has_time_level_and_message)
{
    struct capture c = capture(CONFIG_LOG_DEBUG, CONFIG_LOG_JSON);
    log_event(c.log, CONFIG_LOG_WARNING, "%d of %s", 3, "four");
    char *text = written(&c);
    json_t *object = one_object(text);
    ck_assert_str_eq(member(object, "level"), "warning");
    ck_assert_str_eq(member(object, "message"), "3 of four");
    static const char pattern[] = "dddd-dd-ddTdd:dd:dd.ddddddZ";
    const char *time = member(object, "time");
    ck_assert_uint_eq(strlen(time), strlen(pattern));
    for (size_t i = 0; pattern[i]; i++)
        ck_assert_msg(pattern[i] == 'd' ? isdigit((unsigned char)time[i]) : time[i] == pattern[i],
                      "'%s' is not a time like %s", time, pattern);
    json_decref(object);
    free(text);
}
END_TEST

START_TEST(lesser_levels_are_left_out)
{
    struct capture c = capture(CONFIG_LOG_WARNING, CONFIG_LOG_JSON);
    struct log_access fine = {.status = 200}, fault = {.status = 500};
    log_event(c.log, CONFIG_LOG_DEBUG, "no");
    log_event(c.log, CONFIG_LOG_INFO, "no");
    log_one_access(c.log, &fine);
    log_event(c.log, CONFIG_LOG_WARNING, "yes");
    log_event(c.log, CONFIG_LOG_ERROR, "yes");
    log_one_access(c.log, &fault);
    char *text = written(&c);
    int lines = 0;
    for (const char *p = text; (p = strchr(p, '\n')); p++)
        lines++;
    ck_assert_int_eq(lines, 3);
    ck_assert_ptr_null(strstr(text, "no\""));
    free(text);
}
END_TEST

/* Bytes in, characters that a reader of the JSON sees. */
static const struct {
    const char *bytes, *seen;
} texts[] = {
    {"plain", "plain"},
    {"quote \" backslash \\", "quote \" backslash \\"},
    {"two\nlines\r\n\tand a tab", "two\nlines\r\n\tand a tab"},
    {"\x01\x1b[31m\x7f", "\x01\x1b[31m\x7f"},
    {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
    {"\xff", "\xef\xbf\xbd"},
    {"a\xc3", "a\xef\xbf\xbd"},
    {"\xc3(", "\xef\xbf\xbd("},
    {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},                                 /* overlong */
    {"\xe0\x80\xaf", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},                 /* overlong */
    {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},                 /* a surrogate */
    {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* past U+10FFFF */
    {"\xf0\x80\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* overlong */
    {"\xe0\xa0\x80 \xed\x9f\xbf \xf0\x90\x80\x80 \xf4\x8f\xbf\xbf",           /* the outermost */
     "\xe0\xa0\x80 \xed\x9f\xbf \xf0\x90\x80\x80 \xf4\x8f\xbf\xbf"},
    {"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd"},
};

START_TEST(text_survives_escaping)
{
    struct capture c = capture(CONFIG_LOG_INFO, CONFIG_LOG_JSON);
    log_event(c.log, CONFIG_LOG_INFO, "%s", texts[_i].bytes);
    char *text = written(&c);
    json_t *object = one_object(text);
    ck_assert_str_eq(member(object, "message"), texts[_i].seen);
    json_decref(object);
    free(text);
}
END_TEST

START_TEST(no_byte_breaks_a_line)
{
    for (int format = CONFIG_LOG_JSON; format <= CONFIG_LOG_TEXT; format++) {
        for (int first = 1; first < 256; first++) {
            struct capture c = capture(CONFIG_LOG_INFO, (enum config_log_format)format);
            char bytes[] = {(char)first, 'x', '\xc2', (char)first, '\0'};
            log_event(c.log, CONFIG_LOG_INFO, "%s", bytes);
            char *text = written(&c);
            if (format == CONFIG_LOG_JSON)
                json_decref(one_object(text));
            /* Neither C0 nor C1 controls reach a terminal. */
            for (const unsigned char *p = (unsigned char *)text; p[1]; p++)
                ck_assert_msg(*p >= 0x20 && *p != 0x7f && !(p[0] == 0xc2 && p[1] < 0xa0),
                              "byte %d lets a control character through", first);
            free(text);
        }
    }
}
END_TEST

static const struct log_access product = {.request_id = "id-1",
                                          .peer = "192.0.2.1:5",
                                          .method = "POST",
                                          .path = "/gemm",
                                          .op = "gemm",
                                          .dtype = "bf16",
                                          .kernel = "tiled",
                                          .error = "queue-full",
                                          .reason = "the queue is full",
                                          .tenant = "alice",
                                          .status = 429,
                                          .m = 1,
                                          .n = 2,
                                          .k = 3,
                                          .batch = 4,
                                          .request_bytes = 5,
                                          .response_bytes = 6,
                                          .shared = 7,
                                          .receive_ns = 1000000,
                                          .queue_ns = 2000000,
                                          .h2d_ns = 3000000,
                                          .kernel_ns = 4000400,
                                          .d2h_ns = 5000500,
                                          .send_ns = 6000000,
                                          .total_ns = 1234567890};

START_TEST(access_line_says_all_of_a_product)
{
    struct capture c = capture(CONFIG_LOG_INFO, CONFIG_LOG_JSON);
    log_one_access(c.log, &product);
    char *text = written(&c);
    json_t *object = one_object(text);
    json_t *expected = json_pack(
        "{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,"
        "s:f,s:f,s:f,s:f,s:f,s:f,s:f}",
        "time", member(object, "time"), "level", "info", "message", "request", "request_id", "id-1",
        "peer", "192.0.2.1:5", "method", "POST", "path", "/gemm", "error", "queue-full", "op",
        "gemm", "dtype", "bf16", "status", 429, "m", 1, "n", 2, "k", 3, "batch", 4, "shared", 7,
        "request_bytes", 5, "response_bytes", 6, "receive_ms", 1.0, "queue_ms", 2.0, "h2d_ms", 3.0,
        "kernel_ms", 4.0, "d2h_ms", 5.001, "send_ms", 6.0, "total_ms", 1234.568);
    ck_assert_int_eq(json_object_set_new(expected, "kernel", json_string("tiled")), 0);
    ck_assert_int_eq(json_object_set_new(expected, "reason", json_string("the queue is full")), 0);
    ck_assert_int_eq(json_object_set_new(expected, "tenant", json_string("alice")), 0);
    ck_assert_msg(json_equal(object, expected), "the line is %s", text);
    json_decref(object);
    json_decref(expected);
    free(text);
}
END_TEST

START_TEST(access_line_leaves_out_what_is_not_known)
{
    struct capture c = capture(CONFIG_LOG_INFO, CONFIG_LOG_JSON);
    struct log_access entry = {.method = "GET", .path = "/livez", .status = 200};
    log_one_access(c.log, &entry);
    char *text = written(&c);
    json_t *object = one_object(text);
    static const char *const left_out[] = {"op",     "error",     "m",          "kernel",
                                           "reason", "kernel_ms", "request_id", "tenant"};
    for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]); i++)
        ck_assert_msg(!json_object_get(object, left_out[i]), "%s is not left out", left_out[i]);
    ck_assert_ptr_nonnull(json_object_get(object, "total_ms"));
    json_decref(object);
    free(text);
}
END_TEST

START_TEST(access_line_as_text)
{
    struct capture c = capture(CONFIG_LOG_INFO, CONFIG_LOG_TEXT);
    log_one_access(c.log, &product);
    char *text = written(&c);
    ck_assert_ptr_nonnull(
        strstr(text, "Z info    request method=POST path=/gemm status=429 error=queue-full "
                     "reason=\"the queue is full\" op=gemm "));
    ck_assert_ptr_nonnull(strstr(text, " kernel_ms=4.000 "));
    ck_assert_ptr_nonnull(strstr(text, " request_id=id-1\n"));
    free(text);
}
END_TEST

/* The worst that clients can send: every string as long and every number as large as can be, of
 * characters that escape to the most bytes. */
START_TEST(no_access_line_is_too_long)
{
    for (int format = CONFIG_LOG_JSON; format <= CONFIG_LOG_TEXT; format++) {
        static char endless[10000];
        memset(endless, 1, sizeof(endless) - 1);
        uint64_t most = UINT64_MAX;
        struct log_access entry = {.request_id = endless,
                                   .peer = endless,
                                   .method = endless,
                                   .path = endless,
                                   .op = endless,
                                   .dtype = endless,
                                   .kernel = endless,
                                   .error = endless,
                                   .reason = endless,
                                   .tenant = endless,
                                   .job = endless,
                                   .trace_id = endless,
                                   .span_id = endless,
                                   .status = 2147483647,
                                   .m = most,
                                   .n = most,
                                   .k = most,
                                   .batch = most,
                                   .request_bytes = most,
                                   .response_bytes = most,
                                   .shared = UINT32_MAX,
                                   .receive_ns = most,
                                   .queue_ns = most,
                                   .h2d_ns = most,
                                   .kernel_ns = most,
                                   .d2h_ns = most,
                                   .send_ns = most,
                                   .total_ns = most};
        for (int i = 0; i < LOG_SIZES_MAX; i++)
            entry.sizes[i] = (struct log_size){"kv_heads", most};
        struct capture c = capture(CONFIG_LOG_INFO, (enum config_log_format)format);
        log_one_access(c.log, &entry);
        char *text = written(&c);
        ck_assert_uint_le(strlen(text), LOG_LINE_MAX);
        ck_assert_int_eq(text[strlen(text) - 1], '\n');
        if (format == CONFIG_LOG_JSON) {
            json_t *object = json_loads(text, JSON_DECODE_INT_AS_REAL, NULL);
            ck_assert_msg(object, "not JSON: %s", text);
            ck_assert_ptr_nonnull(json_object_get(object, "total_ms"));
            ck_assert_ptr_nonnull(strstr(member(object, "path"), "..."));
            json_decref(object);
        }
        free(text);
    }
}
END_TEST

START_TEST(long_messages_are_cut)
{
    struct capture c = capture(CONFIG_LOG_INFO, CONFIG_LOG_JSON);
    static char endless[10000];
    memset(endless, 'x', sizeof(endless) - 1);
    log_event(c.log, CONFIG_LOG_INFO, "%s", endless);
    char *text = written(&c);
    json_t *object = one_object(text);
    const char *message = member(object, "message");
    ck_assert_str_eq(message + strlen(message) - 4, "x...");
    json_decref(object);
    free(text);
}
END_TEST

/* Reads a pipe up to a line that contains `last`, and returns the lines read. */
static char *read_up_to(int fd, const char *last)
{
    enum { CAPACITY = 8 << 20 };
    char *text = malloc(CAPACITY);
    ck_assert_ptr_nonnull(text);
    for (size_t length = 0;;) {
        ssize_t got = read(fd, text + length, CAPACITY - 1 - length);
        ck_assert_int_gt(got, 0);
        length += (size_t)got;
        text[length] = '\0';
        if (strstr(text, last) && text[length - 1] == '\n')
            return text;
    }
}

/* Checks that the lines are those from number `next` on, but for lines whose loss is told in their
 * place. Returns the number of the line that has to follow, and adds to `lost`. */
static uint64_t follow_lines(char *text, uint64_t next, uint64_t *lost)
{
    while (*text != '\0') {
        uint64_t number, gap;
        json_t *object = json_loads(strsep(&text, "\n"), 0, NULL);
        const char *message = member(object, "message");
        if (sscanf(message, "line %" SCNu64, &number) == 1) {
            ck_assert_uint_eq(number, next);
            next++;
        } else {
            ck_assert_int_eq(sscanf(message, "%" SCNu64 " lines of the log were lost", &gap), 1);
            next += gap;
            *lost += gap;
        }
        json_decref(object);
    }
    return next;
}

START_TEST(full_pipe_drops_lines_and_recovers)
{
    int fds[2];
    ck_assert_int_eq(pipe(fds), 0);
    int saved = redirect(fds[1]);
    struct log *log = log_create(CONFIG_LOG_INFO, CONFIG_LOG_JSON);
    /* Nobody reads, and still every call returns: the test ends at all. */
    uint64_t lines = 0;
    while (log_dropped(log) < 10) {
        log_event(log, CONFIG_LOG_INFO, "line %" PRIu64, lines);
        lines++;
    }
    ck_assert_msg(!(fcntl(STDOUT_FILENO, F_GETFL) & O_NONBLOCK),
                  "the flags of the shared output were changed");
    /* The lines that were taken come out in order, and in each gap the number of lost lines. There
     * is more than one gap if the log's thread first runs when lines have been lost already. */
    uint64_t next = 0, lost = 0;
    while (next < lines) {
        char *text = read_up_to(fds[0], "\n");
        next = follow_lines(text, next, &lost);
        free(text);
    }
    ck_assert_uint_eq(next, lines);
    ck_assert_uint_eq(lost, 10);
    log_event(log, CONFIG_LOG_INFO, "again");
    char *text = read_up_to(fds[0], "again");
    json_t *object = one_object(text);
    ck_assert_str_eq(member(object, "message"), "again");
    ck_assert_uint_eq(log_dropped(log), 10);
    json_decref(object);
    free(text);
    log_destroy(log);
    give_back(saved);
    close(fds[0]);
    close(fds[1]);
}
END_TEST

START_TEST(lines_after_a_refused_line_say_so)
{
    struct capture c = capture(CONFIG_LOG_INFO, CONFIG_LOG_JSON);
    struct rlimit before;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit limit = {.rlim_cur = 100, .rlim_max = before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    for (int i = 0; i < 3; i++) {
        log_event(c.log, CONFIG_LOG_INFO, "line %d", i);
        sync_log(c.log);
    }
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    ck_assert_uint_eq(log_dropped(c.log), 2); /* the second line is cut, the third is refused */
    log_event(c.log, CONFIG_LOG_INFO, "line 3");
    log_destroy(c.log);
    c.log = log_create(CONFIG_LOG_INFO, CONFIG_LOG_JSON);
    char *text = written(&c), *rest = text;
    ck_assert_ptr_nonnull(strstr(strsep(&rest, "\n"), "line 0"));
    (void)strsep(&rest, "\n"); /* the part of a line */
    ck_assert_ptr_nonnull(strstr(strsep(&rest, "\n"), "\"2 lines of the log were lost"));
    ck_assert_ptr_nonnull(strstr(strsep(&rest, "\n"), "line 3"));
    ck_assert_str_eq(rest, "");
    free(text);
}
END_TEST

START_TEST(the_end_does_not_wait_for_a_reader)
{
    int fds[2];
    ck_assert_int_eq(pipe(fds), 0);
    int saved = redirect(fds[1]);
    struct log *log = log_create(CONFIG_LOG_INFO, CONFIG_LOG_JSON);
    while (log_dropped(log) == 0)
        log_event(log, CONFIG_LOG_INFO, "line");
    log_destroy(log);
    give_back(saved);
    close(fds[1]);
    char drain[65536];
    while (read(fds[0], drain, sizeof(drain)) > 0) /* ends when the thread has closed its copy */
        continue;
    close(fds[0]);
}
END_TEST

static int held[2], releases[2];

/* Holds up the thread that gets the signal until the test writes to `releases`. */
static void hold_up(int number)
{
    char byte = (char)number;
    (void)!write(held[1], &byte, 1);
    /* Fortified read(2) is a macro of functions that clang-tidy does not know to be safe. */
    (void)!read(releases[0], &byte, 1); /* NOLINT(bugprone-signal-handler,cert-sig30-c) */
}

static pid_t thread_named(const char *name)
{
    char path[64], line[64];
    for (;;) {
        DIR *threads = opendir("/proc/self/task");
        ck_assert_ptr_nonnull(threads);
        for (struct dirent *entry; (entry = readdir(threads)) != NULL;) {
            snprintf(path, sizeof path, "/proc/self/task/%.16s/comm", entry->d_name);
            FILE *file = fopen(path, "r");
            const bool found = file != NULL && fgets(line, sizeof line, file) != NULL &&
                               strncmp(line, name, strlen(name)) == 0;
            const pid_t thread = atoi(entry->d_name);
            if (file != NULL)
                fclose(file);
            if (found) {
                closedir(threads);
                return thread;
            }
        }
        closedir(threads);
    }
}

/* The log's thread has a line to write and does not run. */
START_TEST(the_end_does_not_wait_for_a_thread_that_is_held_up)
{
    int fds[2];
    char byte;
    ck_assert_int_eq(pipe(fds), 0);
    ck_assert_int_eq(pipe(held), 0);
    ck_assert_int_eq(pipe(releases), 0);
    int saved = redirect(fds[1]);
    struct log *log = log_create(CONFIG_LOG_INFO, CONFIG_LOG_JSON);
    log_event(log, CONFIG_LOG_INFO, "first"); /* afterwards the thread waits for lines */
    sync_log(log);
    signal(SIGUSR1, hold_up);
    ck_assert_int_eq((int)syscall(SYS_tgkill, getpid(), thread_named("log\n"), SIGUSR1), 0);
    ck_assert_int_eq(read(held[0], &byte, 1), 1);
    log_event(log, CONFIG_LOG_INFO, "second");
    log_destroy(log);
    give_back(saved);
    close(fds[1]);
    ck_assert_int_eq(write(releases[1], &byte, 1), 1);
    char drain[65536];
    while (read(fds[0], drain, sizeof drain) > 0) /* ends when the thread has closed its copy */
        continue;
    close(fds[0]);
}
END_TEST

START_TEST(closed_and_failing_outputs_are_counted)
{
    int fds[2], saved;
    signal(SIGPIPE, SIG_IGN);
    ck_assert_int_eq(pipe(fds), 0);
    close(fds[0]);
    saved = redirect(fds[1]);
    struct log *log = log_create(CONFIG_LOG_INFO, CONFIG_LOG_JSON);
    log_event(log, CONFIG_LOG_INFO, "nobody reads");
    sync_log(log);
    uint64_t broken = log_dropped(log);
    log_destroy(log);
    close(STDOUT_FILENO);
    log = log_create(CONFIG_LOG_INFO, CONFIG_LOG_JSON);
    int next = dup(STDERR_FILENO); /* as a connection would, it gets the number of the output */
    log_event(log, CONFIG_LOG_INFO, "there is no output");
    sync_log(log);
    uint64_t closed = log_dropped(log);
    log_destroy(log);
    ck_assert_int_eq(next, STDOUT_FILENO);
    int full = open("/dev/full", O_WRONLY);
    dup2(full, STDOUT_FILENO);
    log = log_create(CONFIG_LOG_INFO, CONFIG_LOG_JSON);
    log_event(log, CONFIG_LOG_INFO, "the disk is full");
    sync_log(log);
    uint64_t disk = log_dropped(log);
    log_destroy(log);
    give_back(saved);
    close(full);
    close(fds[1]);
    ck_assert_uint_eq(broken, 1);
    ck_assert_uint_eq(closed, 1);
    ck_assert_uint_eq(disk, 1);
}
END_TEST

enum { THREADS = 4, LINES = 500, ALL_LINES = THREADS * LINES };

static void *write_lines(void *argument)
{
    struct log_buffer buffer = {0};
    for (int i = 0; i < LINES; i++)
        log_access(argument, &buffer, &product, 0);
    log_flush(argument, &buffer);
    return NULL;
}

START_TEST(threads_do_not_mix_lines)
{
    struct capture c = capture(CONFIG_LOG_INFO, CONFIG_LOG_JSON);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, write_lines, c.log), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    char *text = written(&c), *rest = text;
    int lines = 0;
    for (char *line; *rest; lines++) {
        line = strsep(&rest, "\n");
        json_t *object = json_loads(line, 0, NULL);
        ck_assert_msg(object, "a broken line: %s", line);
        json_decref(object);
    }
    ck_assert_int_eq(lines, ALL_LINES);
    free(text);
}
END_TEST

static int lines_in(const struct capture *capture)
{
    sync_log(capture->log);
    char bytes[4 * LOG_BUFFER_BYTES];
    ssize_t got = pread(fileno(capture->file), bytes, sizeof(bytes), 0);
    ck_assert_int_lt(got, (ssize_t)sizeof(bytes));
    int lines = 0;
    for (ssize_t i = 0; i < got; i++)
        lines += bytes[i] == '\n';
    return lines;
}

START_TEST(lines_wait_until_the_buffer_is_full)
{
    struct capture c = capture(CONFIG_LOG_INFO, CONFIG_LOG_JSON);
    struct log_buffer buffer = {0};
    struct log_access fine = {.status = 200};
    int added = 0;
    while (lines_in(&c) == 0 && added < LOG_BUFFER_BYTES) {
        log_access(c.log, &buffer, &fine, 0);
        added++;
    }
    ck_assert_int_eq(lines_in(&c), added - 1);
    ck_assert_int_gt(added, 2);
    log_flush(c.log, &buffer);
    ck_assert_int_eq(lines_in(&c), added);
    free(written(&c));
}
END_TEST

START_TEST(a_warning_does_not_wait)
{
    struct capture c = capture(CONFIG_LOG_INFO, CONFIG_LOG_JSON);
    struct log_buffer buffer = {0};
    struct log_access fine = {.status = 200}, fault = {.status = 503};
    log_access(c.log, &buffer, &fine, 0);
    ck_assert_int_eq(lines_in(&c), 0);
    log_access(c.log, &buffer, &fault, 0);
    ck_assert_int_eq(lines_in(&c), 2);
    free(written(&c));
}
END_TEST

START_TEST(a_buffer_is_due_some_time_after_its_first_line)
{
    struct capture c = capture(CONFIG_LOG_INFO, CONFIG_LOG_JSON);
    struct log_buffer buffer = {0};
    struct log_access fine = {.status = 200};
    const uint64_t ms = 1000000, first = 7 * ms;
    ck_assert_int_eq(clock_ms_until(log_buffer_due_ns(&buffer), first), -1);
    log_access(c.log, &buffer, &fine, first);
    log_access(c.log, &buffer, &fine, first + 5 * ms);
    ck_assert_int_eq(clock_ms_until(log_buffer_due_ns(&buffer), first + 5 * ms), LOG_DELAY_MS - 5);
    ck_assert_int_eq(clock_ms_until(log_buffer_due_ns(&buffer), first + LOG_DELAY_MS * ms), 0);
    log_flush(c.log, &buffer);
    ck_assert_int_eq(clock_ms_until(log_buffer_due_ns(&buffer), first + LOG_DELAY_MS * ms), -1);
    free(written(&c));
}
END_TEST

START_TEST(lines_that_a_full_disk_refuses_are_counted)
{
    int full = open("/dev/full", O_WRONLY), saved = redirect(full);
    struct log *log = log_create(CONFIG_LOG_INFO, CONFIG_LOG_JSON);
    struct log_buffer buffer = {0};
    struct log_access fine = {.status = 200};
    for (int i = 0; i < 3; i++)
        log_access(log, &buffer, &fine, 0);
    log_flush(log, &buffer);
    sync_log(log);
    uint64_t dropped = log_dropped(log);
    log_destroy(log);
    give_back(saved);
    close(full);
    ck_assert_uint_eq(dropped, 3);
}
END_TEST

START_TEST(without_memory_there_is_no_log)
{
    for (long number = 1;; number++) {
        const long live = calls_live_blocks();
        calls_fail(number);
        struct log *log = log_create(CONFIG_LOG_INFO, CONFIG_LOG_JSON);
        if (!calls_end()) {
            ck_assert_ptr_nonnull(log);
            log_destroy(log);
            ck_assert_int_eq(number, 5); /* an allocation, two conditions and a thread */
            break;
        }
        ck_assert_ptr_null(log);
        ck_assert_int_eq(calls_live_blocks(), live);
    }
}
END_TEST

/* Lines that come while a line is written belong to a block of their own. */
START_TEST(no_line_joins_the_block_that_is_written)
{
    int fds[2];
    ck_assert_int_eq(pipe(fds), 0);
    int saved = redirect(fds[1]);
    struct log *log = log_create(CONFIG_LOG_INFO, CONFIG_LOG_JSON);
    /* The log's thread waits in write(2) from the first byte that the full pipe does not take. */
    char filler[4096];
    memset(filler, '\n', sizeof filler);
    ck_assert_int_eq(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
    while (write(fds[1], filler, sizeof filler) > 0)
        continue;
    ck_assert_int_eq(fcntl(fds[1], F_SETFL, 0), 0);
    log_event(log, CONFIG_LOG_INFO, "line 0");
    log_sync(log);
    log_event(log, CONFIG_LOG_INFO, "line 1");
    char *first = read_up_to(fds[0], "line 0");
    log_event(log, CONFIG_LOG_INFO, "line 2");
    char *rest = read_up_to(fds[0], "line 2");
    ck_assert_msg(strstr(first, "line 1") != NULL || strstr(rest, "line 1") != NULL,
                  "line 1 is lost");
    free(first);
    free(rest);
    log_destroy(log);
    give_back(saved);
    close(fds[0]);
    close(fds[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log");
    TCase *tests = tcase_create("log");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, event_has_time_level_and_message);
    tcase_add_test(tests, lesser_levels_are_left_out);
    tcase_add_loop_test(tests, text_survives_escaping, 0, (int)(sizeof(texts) / sizeof(texts[0])));
    tcase_add_test(tests, no_byte_breaks_a_line);
    tcase_add_test(tests, access_line_says_all_of_a_product);
    tcase_add_test(tests, access_line_leaves_out_what_is_not_known);
    tcase_add_test(tests, access_line_as_text);
    tcase_add_test(tests, no_access_line_is_too_long);
    tcase_add_test(tests, long_messages_are_cut);
    tcase_add_test(tests, full_pipe_drops_lines_and_recovers);
    tcase_add_test(tests, lines_after_a_refused_line_say_so);
    tcase_add_test(tests, the_end_does_not_wait_for_a_reader);
    tcase_add_test(tests, the_end_does_not_wait_for_a_thread_that_is_held_up);
    tcase_add_test(tests, closed_and_failing_outputs_are_counted);
    tcase_add_test(tests, threads_do_not_mix_lines);
    tcase_add_test(tests, lines_wait_until_the_buffer_is_full);
    tcase_add_test(tests, a_warning_does_not_wait);
    tcase_add_test(tests, a_buffer_is_due_some_time_after_its_first_line);
    tcase_add_test(tests, lines_that_a_full_disk_refuses_are_counted);
    tcase_add_test(tests, without_memory_there_is_no_log);
    tcase_add_test(tests, no_line_joins_the_block_that_is_written);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
