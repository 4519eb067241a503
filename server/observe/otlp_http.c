#include "server/observe/otlp_http.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <gnutls/gnutls.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/base/option_file.h"
#include "server/observe/otlp.h"

/* How long connecting and a whole transfer may take, and the longest header of a header file. */
enum { CONNECT_MS = 5000, TRANSFER_MS = 10000, HEADER_MAX = 8190 };

/* The functions of libcurl that are used, with the types of its own header. */
struct curl_functions {
    __typeof__(&curl_global_init) global_init;
    __typeof__(&curl_easy_init) easy_init;
    __typeof__(&curl_easy_cleanup) easy_cleanup;
    __typeof__(&(curl_easy_setopt)) easy_setopt;
    __typeof__(&(curl_easy_getinfo)) easy_getinfo;
    __typeof__(&curl_easy_perform) easy_perform;
    __typeof__(&curl_easy_strerror) easy_strerror;
    __typeof__(&curl_slist_append) slist_append;
    __typeof__(&curl_slist_free_all) slist_free_all;
};

struct otlp_http {
    struct curl_functions curl;
    CURL *easy;
    struct curl_slist *headers;
    char *url;
    const char *ca_file;                /* borrowed; NULL: the system's authorities */
    const _Atomic uint64_t *give_up_ns; /* borrowed */
};

/* Sets a pointer to a function. ISO C has no conversion from a pointer to an object. */
static bool find_function(void *library, const char *name, void *pointer)
{
    void *found = dlsym(library, name);
    memcpy(pointer, &found, sizeof found);
    return found != NULL;
}

/* The library stays loaded, since a thread may still use it at the end of the process. */
static bool load_curl(struct curl_functions *curl)
{
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && library == NULL; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return library != NULL && find_function(library, "curl_global_init", &curl->global_init) &&
           find_function(library, "curl_easy_init", &curl->easy_init) &&
           find_function(library, "curl_easy_cleanup", &curl->easy_cleanup) &&
           find_function(library, "curl_easy_setopt", &curl->easy_setopt) &&
           find_function(library, "curl_easy_getinfo", &curl->easy_getinfo) &&
           find_function(library, "curl_easy_perform", &curl->easy_perform) &&
           find_function(library, "curl_easy_strerror", &curl->easy_strerror) &&
           find_function(library, "curl_slist_append", &curl->slist_append) &&
           find_function(library, "curl_slist_free_all", &curl->slist_free_all) &&
           curl->global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

/* The collector's URL for spans; NULL: out of memory. */
static char *traces_url(const char *endpoint)
{
    static const char path[] = "/v1/traces";
    size_t length = strlen(endpoint);
    char *url = malloc(length + sizeof path);
    if (url == NULL)
        return NULL;
    memcpy(url, endpoint, length + 1);
    if (length >= sizeof path - 1 && strcmp(url + length - (sizeof path - 1), path) == 0)
        return url;
    while (length > 0 && url[length - 1] == '/')
        length--;
    memcpy(url + length, path, sizeof path);
    return url;
}

static size_t take_body(char *bytes, size_t size, size_t count, void *context)
{
    struct otlp_answer *answer = context;
    const size_t length = strlen(answer->body), room = sizeof answer->body - 1 - length;
    const size_t taken = size * count < room ? size * count : room;
    memcpy(answer->body + length, bytes, taken);
    answer->body[length + taken] = '\0';
    return size * count;
}

static int watch_transfer(void *context, curl_off_t to_receive, curl_off_t received,
                          curl_off_t to_send, curl_off_t sent)
{
    const struct otlp_http *http = context;
    (void)to_receive;
    (void)received;
    (void)to_send;
    (void)sent;
    return clock_now_ns() > atomic_load(http->give_up_ns);
}

static bool set_options(struct otlp_http *http)
{
    const struct curl_functions *curl = &http->curl;
    CURL *easy = http->easy;
    return curl->easy_setopt(easy, CURLOPT_URL, http->url) == CURLE_OK &&
           curl->easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
           curl->easy_setopt(easy, CURLOPT_HTTPHEADER, http->headers) == CURLE_OK &&
           curl->easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           curl->easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS) == CURLE_OK &&
           curl->easy_setopt(easy, CURLOPT_NOPROGRESS, 0L) == CURLE_OK &&
           curl->easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, watch_transfer) == CURLE_OK &&
           curl->easy_setopt(easy, CURLOPT_XFERINFODATA, http) == CURLE_OK &&
           curl->easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body) == CURLE_OK;
}

/* Has the collector's certificate verified with the authorities of a file alone. libcurl reads the
 * file for each connection, so that a file that was replaced needs no restart. */
static bool trust_only(const struct otlp_http *http, const char *ca_file)
{
    const struct curl_functions *curl = &http->curl;
    /* Versions of libcurl without this option keep no authorities in memory. */
    curl->easy_setopt(http->easy, CURLOPT_CA_CACHE_TIMEOUT, 0L);
    return curl->easy_setopt(http->easy, CURLOPT_CAINFO, ca_file) == CURLE_OK &&
           curl->easy_setopt(http->easy, CURLOPT_CAPATH, NULL) == CURLE_OK;
}

/* Refuses a file that libcurl could use for no connection. */
static enum gemmd_error check_authorities(const char *ca_file, struct fault *fault)
{
    const struct option_file file = {.option = "otlp-ca-file", .path = ca_file};
    gnutls_certificate_credentials_t credentials;
    struct option_text text;
    const enum gemmd_error code = option_file_read(&file, &text, fault);
    if (code != GEMMD_OK)
        return code;
    const gnutls_datum_t authorities = {.data = (unsigned char *)text.bytes,
                                        .size = (unsigned)text.length};
    int certificates = gnutls_certificate_allocate_credentials(&credentials);
    if (certificates >= 0) {
        certificates =
            gnutls_certificate_set_x509_trust_mem(credentials, &authorities, GNUTLS_X509_FMT_PEM);
        gnutls_certificate_free_credentials(credentials);
    }
    option_text_free(&text);
    if (certificates > 0)
        return GEMMD_OK;
    return fault_set(fault, GEMMD_ERR_USAGE, "otlp-ca-file", "%.120s has no certificate in PEM%s%s",
                     ca_file, certificates < 0 ? ": " : "",
                     certificates < 0 ? gnutls_strerror(certificates) : "");
}

/* Whether a line is a header: a name of token characters (RFC 9110), a colon, and a value. */
static bool is_header(const char *line)
{
    static const char token[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const size_t name = strspn(line, token);
    const char *value = line + name + 1;
    if (name == 0 || line[name] != ':' || value[strspn(value, " \t")] == '\0')
        return false;
    for (; *value != '\0'; value++)
        if ((*value < ' ' && *value != '\t') || *value == 0x7f)
            return false;
    return true;
}

/* Appends the lines of --otlp-header-file to the headers. A fault names no line's text, which may
 * be a secret. */
static enum gemmd_error read_headers(struct otlp_http *http, const char *path, struct fault *fault)
{
    const struct option_file file = {
        .option = "otlp-header-file", .path = path, .is_private = true};
    struct option_text text;
    size_t length;
    char *line;
    enum gemmd_error code = option_file_read(&file, &text, fault);
    for (int number = 1; code == GEMMD_OK && (line = option_text_line(&text, &length)) != NULL;
         number++) {
        if (length == 0 || line[0] == '#')
            continue;
        struct curl_slist *longer = NULL;
        if (length > HEADER_MAX || strlen(line) != length || !is_header(line))
            code = fault_set(fault, GEMMD_ERR_USAGE, "otlp-header-file",
                             "line %d of %.120s is not NAME: VALUE of at most %d characters",
                             number, path, HEADER_MAX);
        else if ((longer = http->curl.slist_append(http->headers, line)) == NULL)
            code = fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, "otlp-header-file",
                             "no memory for --otlp-header-file");
        else
            http->headers = longer;
    }
    option_text_free(&text);
    return code;
}

enum gemmd_error otlp_http_open(const struct otlp_collector *collector,
                                const _Atomic uint64_t *give_up_ns, struct otlp_http **out,
                                struct fault *fault)
{
    struct otlp_http *http = calloc(1, sizeof *http);
    if (http == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, "otlp-endpoint",
                         "no memory for --otlp-endpoint");
    http->give_up_ns = give_up_ns;
    http->ca_file = collector->ca_file;
    enum gemmd_error code = GEMMD_OK;
    if (!load_curl(&http->curl)) {
        code = fault_set(fault, GEMMD_ERR_INTERNAL, "otlp-endpoint",
                         "--otlp-endpoint needs libcurl, which cannot be loaded; install libcurl, "
                         "libcurl4 or libcurl3-gnutls");
        goto failed;
    }
    http->headers = http->curl.slist_append(NULL, "Content-Type: application/json");
    if (http->headers != NULL && collector->header_file != NULL)
        code = read_headers(http, collector->header_file, fault);
    if (code == GEMMD_OK && collector->ca_file != NULL)
        code = check_authorities(collector->ca_file, fault);
    if (code != GEMMD_OK)
        goto failed;
    http->url = traces_url(collector->endpoint);
    http->easy = http->curl.easy_init();
    if (http->headers != NULL && http->url != NULL && http->easy != NULL && set_options(http) &&
        (collector->ca_file == NULL || trust_only(http, collector->ca_file))) {
        *out = http;
        return GEMMD_OK;
    }
    code = fault_set(fault, GEMMD_ERR_INTERNAL, "otlp-endpoint",
                     "--otlp-endpoint '%.100s' cannot be used by libcurl", collector->endpoint);

failed:
    otlp_http_close(http);
    return code;
}

void otlp_http_close(struct otlp_http *http)
{
    if (http == NULL)
        return;
    if (http->easy != NULL)
        http->curl.easy_cleanup(http->easy);
    if (http->headers != NULL)
        http->curl.slist_free_all(http->headers);
    free(http->url);
    free(http);
}

/* The time that a transfer may take: TRANSFER_MS, or the time until `give_up_ns` if that is
 * shorter. */
static long transfer_ms(const struct otlp_http *http)
{
    const uint64_t now_ns = clock_now_ns(), end_ns = atomic_load(http->give_up_ns);
    const uint64_t left_ms = end_ns > now_ns ? (end_ns - now_ns) / 1000000 : 0;
    if (left_ms < 1)
        return 1;
    return left_ms < TRANSFER_MS ? (long)left_ms : (long)TRANSFER_MS;
}

void otlp_http_post(struct otlp_http *http, const char *text, struct otlp_answer *answer)
{
    const struct curl_functions *curl = &http->curl;
    long status = 0;
    curl_off_t retry_after_s = 0;
    *answer = (struct otlp_answer){.status = 0};
    /* libcurl would wait for a writer if the file was replaced by a FIFO. */
    const struct option_file authorities = {.option = "otlp-ca-file", .path = http->ca_file};
    struct fault fault;
    if (http->ca_file != NULL && option_file_check(&authorities, &fault) != GEMMD_OK) {
        snprintf(answer->error, sizeof answer->error, "%.150s", fault.detail);
        return;
    }
    curl->easy_setopt(http->easy, CURLOPT_POSTFIELDS, text);
    curl->easy_setopt(http->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(text));
    curl->easy_setopt(http->easy, CURLOPT_WRITEDATA, answer);
    curl->easy_setopt(http->easy, CURLOPT_TIMEOUT_MS, transfer_ms(http));
    const CURLcode code = curl->easy_perform(http->easy);
    if (code != CURLE_OK) {
        snprintf(answer->error, sizeof answer->error, "%s", curl->easy_strerror(code));
        return;
    }
    curl->easy_getinfo(http->easy, CURLINFO_RESPONSE_CODE, &status);
    curl->easy_getinfo(http->easy, CURLINFO_RETRY_AFTER, &retry_after_s);
    answer->status = (int)status;
    answer->retry_after_s = retry_after_s > 0 ? (uint64_t)retry_after_s : 0;
}
