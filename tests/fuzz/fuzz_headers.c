/* Values of headers, names and the first bytes of a connection, a line for each. Every line is read
 * as each of them, since most readers take any text. */
#include <arpa/inet.h>
#include <ctype.h>
#include <microhttpd.h>
#include <string.h>

#include "fuzz.h"
#include "input.h"
#include "server/base/address.h"
#include "server/base/trace_context.h"
#include "server/http/arrival.h"
#include "server/http/forwarded.h"
#include "server/http/guard.h"
#include "server/http/negotiation.h"
#include "server/http/request_parts.h"
#include "server/jobs/job_id.h"
#include "server/observe/metrics.h"
#include "server/shm/regions.h"
#include "server/shm/system_object.h"
#include "server/tensors/tensor_condition.h"

static void check_accept(const char *text)
{
    const char *list = text;
    struct accept_element element;
    enum format format;
    while (accept_next(&list, &element)) {
        MUST(element.range[0] != '\0' && memchr(element.range, '\0', ACCEPT_RANGE_MAX) != NULL);
        MUST(element.q >= 0 && element.q <= 1);
    }
    MUST(*list == '\0');
    for (int own = FORMAT_RAW; own <= FORMAT_SAFETENSORS; own++) {
        format = (enum format)99;
        (void)accept_format(text, (enum format)own, &format);
        MUST(format <= FORMAT_SAFETENSORS);
    }
    MUST(coding_accepted(text) < CODING_COUNT);
    (void)metrics_content_type(metrics_negotiate(text));
}

static void check_lists(const char *text)
{
    struct coding_list codings = {.count = 0};
    struct preferences preferences = {.respond_async = false}, twice;
    coding_read(&codings, text);
    MUST(codings.coding < CODING_COUNT && (codings.count > 0 || !codings.unknown));
    prefer_read(&preferences, text);
    twice = preferences;
    prefer_read(&twice, text); /* the first preference of a name counts */
    MUST(twice.respond_async == preferences.respond_async);
    MUST(!preferences.has_wait || (twice.has_wait && twice.wait_s == preferences.wait_s));
}

/* The client is an address of the list, and nobody's proxy unless the client is the first one. */
static void check_forwarded(const char *text)
{
    struct networks trusted;
    const char *wrong;
    size_t length;
    MUST(networks_read(&trusted, "10.0.0.0/8,::1", &wrong, &length));
    for (int rfc7239 = 0; rfc7239 < 2; rfc7239++) {
        struct forwarded once = {.trusted = &trusted, .is_rfc7239 = rfc7239 == 1}, twice;
        forwarded_read(&once, text);
        twice = once;
        forwarded_read(&twice, text); /* as two lines */
        MUST(!once.found || (twice.found && memcmp(&once.client, &twice.client, 16) == 0));
    }
    (void)networks_read(&trusted, text, &wrong, &length);
    MUST(trusted.count <= NETWORKS_MAX && wrong >= text && wrong + length <= text + strlen(text));
}

static bool is_lower_hex(const char *text, size_t length)
{
    return strlen(text) == length && strspn(text, "0123456789abcdef") == length &&
           strspn(text, "0") != length;
}

static void check_trace(const char *text)
{
    struct trace_context trace, before;
    memset(&trace, 'x', sizeof trace);
    trace.sampled = false;
    before = trace;
    if (!trace_context_read(&trace, text)) {
        MUST(memcmp(&trace, &before, sizeof trace) == 0);
        return;
    }
    MUST(is_lower_hex(trace.trace_id, TRACE_ID_TEXT));
    MUST(is_lower_hex(trace.parent_id, SPAN_ID_TEXT));
    MUST(strstr(text, trace.trace_id) != NULL && strstr(text, trace.parent_id) != NULL);
}

static void check_conditions(const char *text)
{
    static const char *const tags[] = {"\"a\"", NULL};
    const struct tensor_condition both[] = {{.if_match = text}, {.if_none_match = text}};
    for (int which = 0; which < 2; which++) {
        struct fault fault = {.code = GEMMD_OK};
        const enum gemmd_error code = tensor_condition_check(&both[which], &fault);
        MUST(fault.code == code && (code == GEMMD_OK || code == GEMMD_ERR_MALFORMED));
        for (int exists = 0; exists < 2 && code == GEMMD_OK; exists++)
            for (int i = 0; i < 2; i++) {
                const enum tensor_condition_result result =
                    tensor_condition_evaluate(&both[which], exists, tags[i]);
                const enum gemmd_error required =
                    tensor_condition_require(&both[which], exists, tags[i], NULL);
                MUST((result == TENSOR_CONDITION_HOLDS) == (required == GEMMD_OK));
                MUST(exists ||
                     result == (which == 0 ? TENSOR_CONDITION_OTHER : TENSOR_CONDITION_HOLDS));
            }
    }
}

static void check_names(const char *text)
{
    struct job_id id;
    char written[JOB_ID_TEXT + 1], request_id[REQUEST_ID_MAX + 1];
    uint64_t state = 1;
    if (job_id_read(text, &id)) {
        job_id_write(&id, written);
        MUST(strcmp(written, text) == 0);
    }
    if (system_object_is_key(text))
        MUST(text[0] == '/' && strchr(text + 1, '/') == NULL && strcmp(text, "/..") != 0);
    if (region_is_name(text))
        MUST(strlen(text) >= 1 && strlen(text) <= REGION_NAME_MAX && strchr(text, '/') == NULL);
    request_id_choose(request_id, text, &state);
    MUST(request_id[0] != '\0');
    for (const char *p = request_id; *p != '\0'; p++)
        MUST(*p >= ' ' && *p <= '~');
    const char *path = route_path(text);
    MUST((path >= text && path <= text + strlen(text)) || strcmp(path, "/") == 0);
    if (guard_target(text, strlen(text)))
        for (const char *p = text; *p != '\0'; p++)
            MUST((unsigned char)*p > ' ' && *p != 0x7f);
}

/* No parameter of the query has a secret in it. Decodes the query in place. */
static void check_harmless(char *query)
{
    for (char *next = query; next != NULL;) {
        char *name = strsep(&next, "&"), *value = name;
        strsep(&value, "=");
        for (char *part = name; part != NULL; part = part == name ? value : NULL) {
            for (char *p = part; (p = strchr(p, '+')) != NULL;)
                *p = ' ';
            MHD_http_unescape(part);
        }
        MUST(!query_has_secret(NULL, name, value));
    }
}

/* What is kept of a path fits, and is the same as far as the path has no query. */
static void check_kept_path(char *text)
{
    char kept[REQUEST_PATH_MAX];
    const size_t before = strcspn(text, "?");
    memset(kept, 'x', sizeof kept);
    const bool may_have_secret = request_path_copy(NULL, text, kept);
    MUST(memchr(kept, '\0', sizeof kept) != NULL);
    MUST(strncmp(kept, text, before < strlen(kept) ? before : strlen(kept)) == 0);
    (void)query_has_secret(NULL, text, NULL);
    (void)query_has_secret(NULL, "name", text);
    if (!may_have_secret && text[before] == '?')
        check_harmless(text + before + 1);
}

static void check_address(const char *text)
{
    struct address address;
    struct fault fault = {.code = GEMMD_OK};
    struct sockaddr_storage socket_address;
    struct in_addr number;
    socklen_t length;
    char written[ADDRESS_TEXT_MAX], again[ADDRESS_TEXT_MAX];
    const enum gemmd_error code = address_parse(text, &address, &fault);
    MUST(fault.code == code && (code == GEMMD_OK || code == GEMMD_ERR_USAGE));
    if (code != GEMMD_OK || (!address.is_unix && inet_pton(AF_INET, address.host, &number) != 1) ||
        address_resolve(&address, &socket_address, &length, NULL) != GEMMD_OK)
        return;
    address_text(&socket_address, length, written, sizeof written);
    MUST(address_parse(written, &address, NULL) == GEMMD_OK);
    MUST(address_resolve(&address, &socket_address, &length, NULL) == GEMMD_OK);
    address_text(&socket_address, length, again, sizeof again);
    MUST(strcmp(written, again) == 0);
}

/* Bytes that cannot begin a request never become its beginning by further bytes. */
static void check_first_bytes(const uint8_t *bytes, size_t length)
{
    bool can = true;
    for (size_t received = 0; received <= length; received += 1 + received / 4) {
        char *head = malloc(received > 0 ? received : 1);
        MUST(head != NULL);
        if (received > 0)
            memcpy(head, bytes, received);
        const bool still = arrival_can_be_request(head, received);
        MUST(can || !still);
        can = still;
        (void)arrival_announced_bytes(head, received);
        free(head);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct fuzz_input input = {bytes, length};
    check_first_bytes(bytes, length);
    while (input.length > 0) {
        char *text = input_text(&input, '\n');
        check_accept(text);
        check_lists(text);
        check_forwarded(text);
        check_trace(text);
        check_conditions(text);
        check_names(text);
        check_kept_path(text);
        check_address(text);
        free(text);
    }
    return 0;
}
