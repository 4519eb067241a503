/* The functions of request.h and request_parts.h that read a request's headers and its query. */
#include <string.h>
#include <strings.h>

#include "proto/number.h"
#include "server/base/random_id.h"
#include "server/base/trace_context.h"
#include "server/http/io_thread.h"
#include "server/http/request_parts.h"
#include "server/http/server.h"
#include "server/http/tokens.h"

const char *request_header(const struct request *request, const char *name)
{
    return MHD_lookup_connection_value(request->mhd, MHD_HEADER_KIND, name);
}

/* The fields of one name, combined into one list. */
struct header_list {
    const char *name;
    char *out;
    size_t capacity, length;
    bool was_cut;
};

static enum MHD_Result add_to_list(void *cls, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    struct header_list *list = cls;
    (void)kind;
    if (strcasecmp(name, list->name) != 0 || value == NULL || value[0] == '\0')
        return MHD_YES;
    const size_t length = strlen(value), comma = list->length > 0;
    list->was_cut = list->length + comma + length >= list->capacity;
    if (list->was_cut)
        return MHD_NO;
    if (comma)
        list->out[list->length++] = ',';
    memcpy(list->out + list->length, value, length);
    list->length += length;
    return MHD_YES;
}

/* Combines the fields of one name. Returns false if the list does not fit; `out` is empty then. */
static bool combine_fields(const struct request *request, const char *name, char *out,
                           size_t capacity)
{
    struct header_list list = {.name = name, .out = out, .capacity = capacity};
    MHD_get_connection_values(request->mhd, MHD_HEADER_KIND, add_to_list, &list);
    out[list.was_cut ? 0 : list.length] = '\0';
    return !list.was_cut;
}

const char *request_header_list(const struct request *request, const char *name,
                                char list[REQUEST_LIST_MAX])
{
    const char *first = request_header(request, name);
    return first != NULL && combine_fields(request, name, list, REQUEST_LIST_MAX) ? list : first;
}

/* ---- secrets in the query ---- */

/* Whether a parameter of that name has a value that nobody else may read, as the names of other
 * programs' parameters say. No parameter of the daemon has such a name. */
enum { SECRET_NAME_MIN = 3 }; /* characters */
static bool is_secret_name(const char *name)
{
    static const char *const words[] = {"token",   "secret", "pass",       "pwd",
                                        "auth",    "bearer", "credential", "signature",
                                        "session", "cookie", "jwt"};
    static const char *const ends[] = {"key", "sig"};
    const size_t length = strlen(name);
    if (length < SECRET_NAME_MIN)
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (const char *p = name; *p != '\0'; p++)
            if ((*p | 0x20) == words[i][0] && strncasecmp(p, words[i], strlen(words[i])) == 0)
                return true;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (length >= strlen(ends[i]) && strcasecmp(name + length - strlen(ends[i]), ends[i]) == 0)
            return true;
    return false;
}

/* Whether a token may have the character (RFC 6750, b64token) before the equals signs at its end.
 */
static bool is_token_character(char c)
{
    const char letter = (char)(c | 0x20);
    /* The characters from - to 9 are - . / and the digits. */
    return (letter >= 'a' && letter <= 'z') || (c >= '-' && c <= '9') || c == '_' || c == '~' ||
           c == '+';
}

/* How often the daemon's tokens are searched for one query, so that nobody keeps an I/O thread busy
 * by a long query. What is left of a longer one counts as secret. */
enum { SEARCHES_MAX = 32 };
struct secret_search {
    struct tokens *tokens; /* NULL: the daemon has none */
    uint32_t searches;
    bool suspect; /* a parameter has a credential in it, or was not searched as a whole */
};

static bool is_token(struct secret_search *search, const char *text, size_t length)
{
    static const char bearer[] = "Bearer ";
    char header[sizeof bearer + TOKEN_LENGTH_MAX];
    struct token_grant grant;
    if (search->tokens == NULL || length < TOKEN_LENGTH_MIN || length > TOKEN_LENGTH_MAX)
        return false;
    if (search->searches == SEARCHES_MAX)
        return true;
    search->searches++;
    memcpy(stpcpy(header, bearer), text, length);
    header[sizeof bearer - 1 + length] = '\0';
    const enum token_verdict verdict = tokens_check(search->tokens, header, &grant);
    return verdict == TOKEN_GRANTED || verdict == TOKEN_EXPIRED;
}

/* Whether a word, which equals signs may follow, is a token of the daemon or a JSON Web Token. */
static bool is_secret_word(struct secret_search *search, const char *word, size_t length)
{
    static const char web_token[] = "eyJ";
    const size_t marks = strspn(word + length, "=");
    const char *dot = memchr(word, '.', length);
    if (dot != NULL && strncmp(word, web_token, sizeof web_token - 1) == 0 &&
        memchr(dot + 1, '.', (size_t)(word + length - dot) - 1) != NULL)
        return true;
    /* The last of the equals signs may be the one behind a name. */
    for (size_t taken = 0; taken <= marks; taken++)
        if (is_token(search, word, length + taken))
            return true;
    return false;
}

static bool is_scheme(const char *word, size_t length, const char *scheme)
{
    return length == strlen(scheme) && word[length] == '+' &&
           strncasecmp(word, scheme, length) == 0;
}

/* Whether a text has a secret in it: a token of the daemon, the value of a header Authorization, or
 * a JSON Web Token. The text has a plus sign for each space, since the plus sign of a token may
 * have been sent as it is. */
static bool has_secret(struct secret_search *search, const char *text, size_t length)
{
    const char *end = text + length;
    if (length < TOKEN_LENGTH_MIN)
        return false;
    while (text < end) {
        size_t run = 0;
        while (is_token_character(text[run]))
            run++;
        const char *plus = memchr(text, '+', run);
        const size_t word = plus == NULL ? run : (size_t)(plus - text);
        if (is_scheme(text, word, "Bearer") || is_scheme(text, word, "Basic") ||
            is_secret_word(search, text, word) || (word < run && is_secret_word(search, text, run)))
            return true;
        text += word + 1;
    }
    return false;
}

/* Copies a part of a query to `out`, decoded, as far as there is room, with a plus sign for each
 * space. Returns the length. */
static size_t decode_part(char *out, size_t room, const char *text, size_t length)
{
    if (length >= room)
        length = room - 1;
    memcpy(out, text, length);
    out[length] = '\0';
    if (memchr(out, '%', length) != NULL)
        length = MHD_http_unescape(out);
    for (char *p = out; (p = memchr(p, ' ', (size_t)(out + length - p))) != NULL; p++)
        *p = '+';
    return length;
}

/* Returns how many bytes of a parameter of a query are no secret. `value_at` is the offset of the
 * value; 0: the parameter has none. Sets search->suspect if a credential is in the
 * parameter. */
static size_t public_bytes(struct secret_search *search, const char *parameter, size_t bytes,
                           size_t value_at)
{
    if (bytes < TOKEN_LENGTH_MIN && value_at <= SECRET_NAME_MIN)
        return bytes;                                       /* as short as m=64, decoded or not */
    char text[REQUEST_PATH_MAX + 3 * TOKEN_LENGTH_MAX + 1]; /* a name, and a token of %xx each */
    const size_t name =
        decode_part(text, REQUEST_PATH_MAX, parameter, value_at == 0 ? 0 : value_at - 1);
    const bool hides_value = value_at > 0 && is_secret_name(text);
    size_t length = name;
    if (value_at > 0)
        text[length++] = '=';
    length +=
        decode_part(text + length, sizeof text - length, parameter + value_at, bytes - value_at);
    if (!has_secret(search, text, length))
        return hides_value ? value_at : bytes;
    search->suspect = true;
    if (value_at == 0 || !has_secret(search, text + name + 1, length - name - 1))
        return 0;
    const size_t name_end = name + strspn(text + name, "=");
    text[name_end] = '\0';
    return has_secret(search, text, name_end) ? 0 : value_at;
}

bool request_path_copy(struct tokens *tokens, const char *path, char out[REQUEST_PATH_MAX])
{
    static const char hidden[] = "***";
    struct secret_search search = {.tokens = tokens};
    const size_t room = REQUEST_PATH_MAX - sizeof hidden;
    const char *next = path + strcspn(path, "?");
    size_t length = (size_t)(next - path);
    if (*next == '\0' || length >= room) {
        length = length < REQUEST_PATH_MAX ? length : REQUEST_PATH_MAX - 1;
        memcpy(out, path, length);
        out[length] = '\0';
        return *next != '\0';
    }
    memcpy(out, path, length);
    while (*next != '\0' && length < room) {
        out[length++] = *next++; /* the ? or & */
        const size_t bytes = strcspn(next, "&"), before = strcspn(next, "=&");
        search.suspect |= bytes > room - length;
        const size_t shown = public_bytes(&search, next, bytes, before < bytes ? before + 1 : 0);
        const size_t kept = shown < room - length ? shown : room - length;
        memcpy(out + length, next, kept);
        length += kept;
        if (shown < bytes)
            length = (size_t)(stpcpy(out + length, hidden) - out);
        next += bytes;
    }
    out[length] = '\0';
    return search.suspect || *next != '\0';
}

bool query_has_secret(struct tokens *tokens, const char *name, const char *value)
{
    struct secret_search search = {.tokens = tokens};
    char text[REQUEST_PATH_MAX + TOKEN_LENGTH_MAX + 1];
    if (strlen(name) + (value == NULL ? 0 : strlen(value)) < TOKEN_LENGTH_MIN - 1)
        return false;
    int length = snprintf(text, sizeof text, "%s%s%s", name, value == NULL ? "" : "=",
                          value == NULL ? "" : value);
    if (length >= (int)sizeof text)
        length = sizeof text - 1;
    for (char *p = text; (p = strchr(p, ' ')) != NULL; p++)
        *p = '+';
    return has_secret(&search, text, (size_t)length);
}

/* ---- parameters ---- */

/* The arguments of request_parameters, for the callback of libmicrohttpd. */
struct parameter_visit {
    struct request *request;
    request_parameter *take;
    void *context;
};

static enum MHD_Result show_parameter(void *cls, enum MHD_ValueKind kind, const char *name,
                                      size_t name_size, const char *value, size_t value_size)
{
    const struct parameter_visit *visit = cls;
    (void)kind;
    if (strlen(name) != name_size || (value != NULL && strlen(value) != value_size)) {
        fault_set(&visit->request->fault, GEMMD_ERR_MALFORMED, NULL,
                  "a parameter contains a zero byte");
        return MHD_NO;
    }
    if (visit->request->may_have_secret &&
        query_has_secret(visit->request->server->tokens, name, value)) {
        fault_set(&visit->request->fault, GEMMD_ERR_MALFORMED, NULL,
                  "a parameter looks like a token; a token belongs in the header Authorization");
        return MHD_NO;
    }
    return visit->take(visit->context, name, value == NULL ? "" : value) ? MHD_YES : MHD_NO;
}

enum gemmd_error request_parameters(struct request *request, request_parameter *take, void *context)
{
    struct parameter_visit visit = {request, take, context};
    MHD_get_connection_values_n(request->mhd, MHD_GET_ARGUMENT_KIND, show_parameter, &visit);
    return request->fault.code;
}

/* ---- X-Request-Id ---- */

void request_id_choose(char id[REQUEST_ID_MAX + 1], const char *given, uint64_t *state)
{
    size_t length = given == NULL ? 0 : strlen(given);
    bool usable = length > 0 && length <= REQUEST_ID_MAX;
    for (size_t i = 0; usable && i < length; i++)
        usable = given[i] > ' ' && given[i] < 0x7f;
    if (usable) {
        memcpy(id, given, length + 1);
        return;
    }
    random_id(id, state);
}

void request_choose_id(struct request *request)
{
    request_id_choose(request->id, request_header(request, "X-Request-Id"),
                      &request->thread->id_state);
}

/* ---- Prefer ---- */

/* Longer than every word that the daemon knows. */
enum { WORD_MAX = 32 };

/* The end of an element: the next comma outside of quotes, or the end of the text. */
static const char *element_end(const char *text)
{
    bool quoted = false;
    for (; *text != '\0' && (quoted || *text != ','); text++) {
        if (*text == '"')
            quoted = !quoted;
        else if (quoted && *text == '\\' && text[1] != '\0')
            text++;
    }
    return text;
}

/* Reads the word at `text`, which ends before `end` or one of the characters `stops`, without the
 * quotes around it. Returns false if the word is longer than every word that the daemon knows. */
static bool read_word(const char *text, const char *end, const char *stops, char word[WORD_MAX])
{
    size_t length = strcspn(text, stops);
    if (length > (size_t)(end - text))
        length = (size_t)(end - text);
    if (length >= 2 && text[0] == '"' && text[length - 1] == '"') {
        text++;
        length -= 2;
    }
    if (length >= WORD_MAX)
        return false;
    memcpy(word, text, length);
    word[length] = '\0';
    return true;
}

static const char *skip_space(const char *text)
{
    return text + strspn(text, " \t");
}

static void read_element(struct preferences *preferences, const char *text, const char *end)
{
    char name[WORD_MAX], value[WORD_MAX] = "";
    text = skip_space(text);
    if (!read_word(text, end, " \t=;,", name))
        return;
    const char *next = skip_space(text + strlen(name));
    if (next < end && *next == '=' && !read_word(skip_space(next + 1), end, " \t;,", value))
        return;
    if (strcasecmp(name, "respond-async") == 0)
        preferences->respond_async = true;
    else if (strcasecmp(name, "wait") == 0 && !preferences->has_wait)
        preferences->has_wait = number_u64(value, &preferences->wait_s);
}

void prefer_read(struct preferences *preferences, const char *value)
{
    while (*value != '\0') {
        const char *end = element_end(value);
        read_element(preferences, value, end);
        value = end + (*end == ',');
    }
}

static enum MHD_Result read_preference(void *cls, enum MHD_ValueKind kind, const char *name,
                                       const char *value)
{
    (void)kind;
    if (strcasecmp(name, "Prefer") == 0 && value != NULL)
        prefer_read(cls, value);
    return MHD_YES;
}

struct preferences request_preferences(const struct request *request)
{
    struct preferences preferences = {.respond_async = false};
    if (request_header(request, "Prefer") == NULL)
        return preferences;
    MHD_get_connection_values(request->mhd, MHD_HEADER_KIND, read_preference, &preferences);
    return preferences;
}

/* ---- traceparent and tracestate ---- */

void request_trace_begin(struct request *request, const char *traceparent)
{
    struct trace_context *trace = &request->trace;
    uint64_t *state = &request->thread->id_state;
    const bool exports = request->server->otlp != NULL;
    const bool given = traceparent != NULL && trace_context_read(trace, traceparent);
    if (!given && !exports)
        return;
    if (!given) {
        trace->sampled = random_number(state) % 100 < request->config->otlp_sample;
        if (trace->sampled)
            trace_context_begin(trace, state);
    }
    if (exports && trace->sampled)
        random_id(trace->span_id, state);
    else if (given)
        memcpy(trace->span_id, trace->parent_id, sizeof trace->span_id);
}

void request_trace_state(const struct request *request, char *out, size_t capacity)
{
    out[0] = '\0';
    if (request->trace.parent_id[0] == '\0' ||
        !combine_fields(request, "tracestate", out, capacity))
        return;
    for (const char *p = out; *p != '\0'; p++)
        if (*p < ' ' || *p > '~') {
            out[0] = '\0';
            return;
        }
}
