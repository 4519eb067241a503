#include "server/http/guard.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/memory_header.h"
#include "proto/number.h"
#include "proto/size_text.h"
#include "server/http/connection.h"
#include "server/http/digests.h"
#include "server/http/inflater.h"
#include "server/http/io_thread.h"
#include "server/http/request_parts.h"
#include "server/http/server.h"

/* The fields of the head that are read for every request. A request may have each of them once: of
 * two, a proxy could take another one than the daemon. Two of FIELD_TRACEPARENT are ignored. */
enum field {
    FIELD_HOST,
    FIELD_CONTENT_LENGTH,
    FIELD_TRANSFER_ENCODING,
    FIELD_X_REQUEST_ID,
    FIELD_TRACEPARENT,
    FIELD_EXPECT,
    FIELD_AUTHORIZATION,
    FIELD_CONTENT_TYPE,
    FIELD_IF_MATCH,
    FIELD_IF_NONE_MATCH,
    FIELD_MEMORY,
    FIELD_INFERENCE_LENGTH,
    FIELD_COUNT
};
static const struct field_name {
    const char *text;
    size_t bytes;
} field_names[FIELD_COUNT] = {
#define NAME(text)                                                                                 \
    {                                                                                              \
        text, sizeof text - 1                                                                      \
    }
    [FIELD_HOST] = NAME("Host"),
    [FIELD_CONTENT_LENGTH] = NAME("Content-Length"),
    [FIELD_TRANSFER_ENCODING] = NAME("Transfer-Encoding"),
    [FIELD_X_REQUEST_ID] = NAME("X-Request-Id"),
    [FIELD_TRACEPARENT] = NAME("traceparent"),
    [FIELD_EXPECT] = NAME("Expect"),
    [FIELD_AUTHORIZATION] = NAME("Authorization"),
    [FIELD_CONTENT_TYPE] = NAME("Content-Type"),
    [FIELD_IF_MATCH] = NAME("If-Match"),
    [FIELD_IF_NONE_MATCH] = NAME("If-None-Match"),
    [FIELD_MEMORY] = NAME(MEMORY_HEADER),
    [FIELD_INFERENCE_LENGTH] = NAME("Inference-Header-Content-Length"),
#undef NAME
};

/* What the headers of a request say that every request is asked for. They are read once. */
struct framing {
    uint32_t counts[FIELD_COUNT], bad_names, bad_lines;
    const char *values[FIELD_COUNT]; /* the first of each; NULL: none */
    const char *next; /* where the next header line has to begin in libmicrohttpd's buffer */
    struct coding_list codings;
    bool has_digests; /* one of the fields of digests.h is there */
};

/* Whether the text is a token (RFC 9110, 5.6.2). */
static bool is_token(const char *text)
{
    static const char marks[] = "!#$%&'*+.^_`|~";
    const char *p = text;
    while ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || *p == '-' ||
           (*p >= '0' && *p <= '9') || (*p != '\0' && strchr(marks, *p) != NULL))
        p++;
    return p > text && *p == '\0';
}

/* Whether a header line is sound and begins where the line before it ended.
 *
 * libmicrohttpd 0.9 leaves a request's head where it was received, and replaces the colon, and each
 * of the bytes that end a line, with a zero byte. A value ends at the first zero byte. So if the
 * value contains a zero byte, or its line ends with LF alone, or continues on the next line, the
 * next line does not begin two bytes behind the value. */
static bool is_sound_line(const struct framing *framing, const char *name, const char *value,
                          size_t value_bytes)
{
    return name == framing->next && value != NULL && value[value_bytes + 1] == '\0' &&
           memchr(value, '\r', value_bytes) == NULL;
}

static enum MHD_Result read_framing_header(void *cls, enum MHD_ValueKind kind, const char *name,
                                           size_t name_bytes, const char *value, size_t value_bytes)
{
    static const char digest[] = "-Digest"; /* Content-Digest, Repr-Digest and their Want- fields */
    const size_t digest_bytes = sizeof digest - 1;
    struct framing *framing = cls;
    (void)kind;
    if (!is_token(name))
        framing->bad_names++;
    if (framing->next != NULL) {
        if (!is_sound_line(framing, name, value, value_bytes))
            framing->bad_lines++;
        framing->next = value == NULL ? name : value + value_bytes + 2;
    }
    for (int field = 0; field < FIELD_COUNT; field++)
        if (name_bytes == field_names[field].bytes &&
            strcasecmp(name, field_names[field].text) == 0 && framing->counts[field]++ == 0)
            framing->values[field] = value == NULL ? "" : value;
    if (name_bytes > digest_bytes && strcasecmp(name + name_bytes - digest_bytes, digest) == 0)
        framing->has_digests = true;
    if (strcasecmp(name, "Content-Encoding") == 0)
        coding_read(&framing->codings, value == NULL ? "" : value);
    return MHD_YES;
}

static bool is_digits(const char *text)
{
    return *text != '\0' && text[strspn(text, "0123456789")] == '\0';
}

bool guard_target(const char *target, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)target[i] <= ' ' || target[i] == 0x7f)
            return false;
    return bytes > 0;
}

/* The value of a field that the request has exactly once, else NULL. */
static const char *only_value(const struct framing *framing, enum field field)
{
    return framing->counts[field] == 1 ? framing->values[field] : NULL;
}

/* Reads all headers, and checks the request line, the names of the headers, and where the lines
 * begin and end if the parser is lenient. */
static enum gemmd_error read_head(struct request *request, const struct request_line *line,
                                  struct framing *framing)
{
    const bool lenient = request->server->lenient_parser;
    struct fault *fault = &request->fault;
    if (lenient)
        framing->next = line->version + strlen(line->version) + 2;
    (void)MHD_get_connection_values_n(request->mhd, MHD_HEADER_KIND, read_framing_header, framing);
    request_id_choose(request->id, only_value(framing, FIELD_X_REQUEST_ID),
                      &request->thread->id_state);
    request_trace_begin(request, only_value(framing, FIELD_TRACEPARENT));
    /* libmicrohttpd 0.9 accepts several spaces between the method, the target and the version, and
     * cuts the target at a zero byte. */
    const bool has_gaps = lenient && (request->target != line->method + strlen(line->method) + 1 ||
                                      line->version != request->target + request->target_bytes + 1);
    if (!request->target_is_sound || !is_token(line->method) || has_gaps)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the request line is malformed; it is a method, a path and HTTP/1.1, with "
                         "one space between each");
    if (lenient) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(request->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
        /* The empty line ends the head. */
        if (info == NULL || framing->next + 2 != line->method + info->header_size)
            framing->bad_lines++;
    }
    if (framing->bad_lines > 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "a header line is malformed; it ends with CR LF, holds no other CR and no "
                         "zero byte, and does not continue on the next line");
    if (framing->bad_names > 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "a header's name is malformed; the colon follows it at once");
    return GEMMD_OK;
}

/* Sets the coding and the known length of the body. The coding of an empty body is ignored. */
static enum gemmd_error set_coding(struct request *request, const struct coding_list *codings)
{
    const bool has_body = request->chunked || request->content_length > 0;
    request->refuses_coding = codings->unknown || codings->count > 1;
    request->coding = has_body ? codings->coding : CODING_IDENTITY;
    request->sized = !request->chunked && request->coding == CODING_IDENTITY;
    request->body_bytes = request->sized ? request->content_length : 0;
    if (codings->unknown)
        return fault_set(&request->fault, GEMMD_ERR_MEDIA_TYPE, NULL,
                         "Content-Encoding can be gzip, deflate or identity");
    if (codings->count > 1)
        return fault_set(&request->fault, GEMMD_ERR_MEDIA_TYPE, NULL,
                         "the body is compressed more than once; only one coding is allowed");
    if (request->coding == CODING_IDENTITY)
        return GEMMD_OK;
    const uint64_t limit = request->config->max_body_bytes, longest = inflater_longest_bytes(limit);
    if (request->content_length > longest)
        return fault_set(&request->fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "the compressed body is %s; a compressed body may be up to %s long, since "
                         "--max-body is %s",
                         size_text(request->content_length).text, size_text(longest).text,
                         size_text(limit).text);
    return GEMMD_OK;
}

/* Sets request->fault for a Content-Length that is no number, or one that does not fit in 64 bits,
 * and returns its code. */
static enum gemmd_error set_bad_length(struct request *request, bool is_too_large)
{
    if (is_too_large)
        return fault_set(&request->fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "Content-Length does not fit in 64 bits; --max-body is %s",
                         size_text(request->config->max_body_bytes).text);
    return fault_set(&request->fault, GEMMD_ERR_MALFORMED, NULL,
                     "Content-Length is not a number of bytes");
}

static enum gemmd_error refuse_repeated(struct request *request, const struct framing *framing)
{
    for (int field = 0; field < FIELD_COUNT; field++)
        if (framing->counts[field] > 1 && field != FIELD_TRACEPARENT)
            return fault_set(&request->fault, GEMMD_ERR_MALFORMED, NULL,
                             "there is more than one %s header", field_names[field].text);
    return GEMMD_OK;
}

enum gemmd_error guard_headers(struct request *request, const struct request_line *line)
{
    struct framing framing = {0};
    struct fault *fault = &request->fault;
    const bool version_1_0 = strcmp(line->version, "HTTP/1.0") == 0;

    /* If the length of the body is in doubt, the request counts as chunked, so that request_refuse
     * answers without reading the body and the connection is closed. */
    request->chunked = true;
    if (read_head(request, line, &framing) != GEMMD_OK)
        return fault->code;
    const bool has_encoding = framing.counts[FIELD_TRANSFER_ENCODING] > 0;
    request->chunked = has_encoding || framing.counts[FIELD_CONTENT_LENGTH] > 1;
    request->unverified_framing = request->chunked && request->server->lenient_parser;
    if (framing.counts[FIELD_HOST] == 0 && !version_1_0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL, "there is no Host header");
    if (has_encoding && version_1_0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "HTTP/1.0 has no Transfer-Encoding; chunks need HTTP/1.1");
    if (refuse_repeated(request, &framing) != GEMMD_OK)
        return fault->code;
    if (has_encoding && framing.counts[FIELD_CONTENT_LENGTH] > 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "Content-Length and Transfer-Encoding exclude each other");
    if (has_encoding && strcasecmp(framing.values[FIELD_TRANSFER_ENCODING], "chunked") != 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the only Transfer-Encoding that is supported is chunked");
    const char *length = framing.values[FIELD_CONTENT_LENGTH];
    if (length != NULL && !number_u64(length, &request->content_length))
        return set_bad_length(request, is_digits(length));

    const char *expect = framing.values[FIELD_EXPECT];
    request->expects_continue = expect != NULL && strcasecmp(expect, "100-continue") == 0;
    if (framing.has_digests && digests_open(request) != GEMMD_OK)
        return fault->code;
    return set_coding(request, &framing.codings);
}

/* ---- requests that libmicrohttpd 0.9 refuses ---- */

/* Whether libmicrohttpd has all headers of the request and no answer to it. It gives the size of
 * the headers only if they are complete. */
static bool is_at_its_headers(const struct request *request)
{
    return request->connection->phase == CONNECTION_HEADERS &&
           MHD_get_connection_info(request->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE) != NULL &&
           MHD_get_connection_info(request->mhd, MHD_CONNECTION_INFO_HTTP_STATUS) == NULL;
}

static void refuse_head(struct request *request, unsigned status)
{
    struct connection *connection = request->connection;
    struct fault *fault = &request->fault;
    if (status == MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE)
        fault_set(fault, GEMMD_ERR_HEADERS_TOO_LARGE, NULL,
                  "the cookies do not fit in the connection's buffer");
    else
        set_bad_length(request, status == MHD_HTTP_CONTENT_TOO_LARGE);
    request_choose_id(request);
    connection->phase = CONNECTION_EXPIRED;
    connection->ended_by = fault->code;
    connection->linger = true;
    request->response_bytes = connection_answer_fault(connection, fault, request->id);
    shutdown(connection->fd, SHUT_WR);
}

void guard_on_message(void *cls, const char *format, va_list arguments)
{
    const struct io_thread *thread = cls;
    /* libmicrohttpd writes this message before it answers by itself. The first argument is the
     * status of its answer. */
    if (strstr(format, "(HTTP response code is %u (") == NULL)
        return;
    struct list_item *item = thread->reading_heads.last;
    while (item != NULL && !is_at_its_headers(OWNER_OF(item, struct request, in_heads)))
        item = item->previous;
    if (item != NULL)
        refuse_head(OWNER_OF(item, struct request, in_heads), va_arg(arguments, unsigned));
}

/* ---- how libmicrohttpd parses requests ---- */

/* The most runs that libmicrohttpd may need to read a request that has been sent completely. */
enum { RUNS_MAX = 16 };

static const char sample[] = "GET /path?name=value HTTP/1.1\r\nHost: localhost\r\nX-Empty:\r\n"
                             "X-Last:  two words\r\n\r\n";

/* The state of the sample request in libmicrohttpd. Only pointers are compared, since the memory
 * that they point to may not be as the guard expects. */
struct trial {
    const char *target;
    const char *next; /* where the next header line has to begin */
    unsigned headers;
    bool was_asked, is_as_expected;
};

static void *take_target(void *cls, const char *target, struct MHD_Connection *mhd)
{
    struct trial *trial = cls;
    (void)mhd;
    trial->target = target;
    return trial;
}

static enum MHD_Result take_header(void *cls, enum MHD_ValueKind kind, const char *name,
                                   size_t name_bytes, const char *value, size_t value_bytes)
{
    struct trial *trial = cls;
    (void)kind;
    (void)name_bytes;
    trial->headers++;
    trial->is_as_expected &= name == trial->next && value != NULL;
    trial->next = value == NULL ? NULL : value + value_bytes + 2;
    return MHD_YES;
}

static enum MHD_Result take_request(void *cls, struct MHD_Connection *mhd, const char *url,
                                    const char *method, const char *version, const char *body,
                                    size_t *body_bytes, void **context)
{
    struct trial *trial = cls;
    (void)url;
    (void)body;
    (void)body_bytes;
    (void)context;
    trial->was_asked = true;
    trial->next = version + strlen(version) + 2;
    trial->is_as_expected =
        trial->target == method + strlen("GET ") &&
        version == trial->target + strlen("/path?name=value "); /* the target is cut at its query */
    MHD_get_connection_values_n(mhd, MHD_HEADER_KIND, take_header, trial);
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    trial->is_as_expected = trial->is_as_expected && trial->headers == 3 && info != NULL &&
                            trial->next + 2 == method + info->header_size;
    return MHD_NO; /* closes the connection */
}

/* Lets libmicrohttpd read the sample. Returns false if libmicrohttpd could not be tried. */
static bool try_sample(struct trial *trial)
{
    int ends[2];
    const struct sockaddr address = {.sa_family = AF_UNIX};
    struct MHD_Daemon *mhd =
        MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL, take_request,
                         trial, MHD_OPTION_URI_LOG_CALLBACK, take_target, trial, MHD_OPTION_END);
    if (mhd == NULL)
        return false;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        goto stop;
    /* libmicrohttpd closes its end of the connection, whether or not it takes the connection. */
    if (send(ends[1], sample, sizeof sample - 1, MSG_NOSIGNAL) == (ssize_t)(sizeof sample - 1)) {
        if (MHD_add_connection(mhd, ends[0], &address, sizeof address.sa_family) == MHD_YES)
            for (int i = 0; i < RUNS_MAX && !trial->was_asked; i++)
                (void)MHD_run(mhd);
    } else {
        close(ends[0]);
    }
    close(ends[1]);
stop:
    MHD_stop_daemon(mhd);
    return trial->was_asked;
}

enum gemmd_error guard_parser_find(bool *is_lenient, struct fault *fault)
{
    static const char lenient[] = "0.9.";
    const char *version = MHD_get_version();
    struct trial trial = {.was_asked = false};
    *is_lenient = strncmp(version, lenient, sizeof lenient - 1) == 0;
    if (!*is_lenient && atoi(version) < 1)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, NULL,
                         "libmicrohttpd %.32s is not known to gemmd, which needs 0.9.75 or newer, "
                         "or 1.0 or newer",
                         version);
    if (!*is_lenient)
        return GEMMD_OK;
    if (!try_sample(&trial))
        return fault_set(fault, GEMMD_ERR_INTERNAL, NULL,
                         "libmicrohttpd %.32s could not be tried with a request", version);
    if (!trial.is_as_expected)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, NULL,
                         "libmicrohttpd %.32s keeps the head of a request in another way than "
                         "gemmd checks it, so that requests could be smuggled past a proxy",
                         version);
    return GEMMD_OK;
}
