/* config_check.c - sets the defaults, and finds options that contradict each other. */
#include <inttypes.h>
#include <string.h>

#include "server/base/cores.h"
#include "server/base/inherited_sockets.h"
#include "server/base/network.h"
#include "server/config/config_source.h"

static const struct config_option *option_named(const char *name)
{
    return config_option_find(name, strlen(name));
}

static enum config_source source_of(const struct config_reader *reader, const char *name)
{
    return reader->sources[config_option_index(option_named(name))];
}

static bool is_set(const struct config_reader *reader, const char *name)
{
    return source_of(reader, name) > CONFIG_SOURCE_DEFAULT;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* A default that depends on another option is chosen so that the two never contradict each other.
 */
void config_derive(struct config_reader *reader)
{
    struct config *config = reader->config;
    const uint64_t gib = UINT64_C(1) << 30;

    if (!is_set(reader, "busy-poll-us"))
        config->busy_poll_us = cores_usable() >= 8 ? 50 : 0;
    if (!is_set(reader, "queue-bytes"))
        config->queue_bytes = config->pinned_bytes;
    uint64_t half = least(config->pinned_bytes, config->queue_bytes) / 2;
    if (config->tenant_bytes > 0)
        half = least(half, config->tenant_bytes / 2);
    config->shares_requests = !is_set(reader, "tenant-requests");
    config->shares_bytes = !is_set(reader, "tenant-bytes");
    config->shares_tensors = !is_set(reader, "tenant-tensor-bytes");
    if (!is_set(reader, "max-connections-per-address"))
        config->max_connections_per_address = config->max_connections - config->max_connections / 8;
    if (!is_set(reader, "max-body"))
        config->max_body_bytes = least(gib, half);
    if (!is_set(reader, "max-result"))
        config->max_result_bytes = least(gib, half);
    if (!is_set(reader, "job-bytes"))
        config->job_bytes = config->max_result_bytes > gib ? config->max_result_bytes : gib;
    if (!is_set(reader, "timeout"))
        config->default_timeout_ms =
            config->max_timeout_ms ? least(60000, config->max_timeout_ms) : 60000;
}

enum gemmd_error config_read_defaults(struct config_reader *reader)
{
    for (uint32_t i = 0; i < config_option_count; i++) {
        const struct config_option *option = &config_options[i];
        if (!option->standard || reader->sources[i] != CONFIG_SOURCE_NONE)
            continue;
        if (option->kind == CONFIG_KIND_ADDRESSES && inherited_manager_sockets() > 0)
            continue;
        enum gemmd_error error =
            config_set(reader, option, CONFIG_SOURCE_DEFAULT, option->standard);
        if (error != GEMMD_OK)
            return error;
    }
    config_derive(reader);
    return GEMMD_OK;
}

/* Checks that a request whose body and result are as large as allowed fits in an option's bytes:
 * its body and its result are in memory at the same time. */
static enum gemmd_error check_room(struct config_reader *reader, const char *name)
{
    const struct config *config = reader->config;
    const struct config_option *option = option_named(name);
    uint64_t room = config_value_load(config, option);
    /* The sum cannot overflow: each limit is 16 TiB at most. */
    uint64_t needed = config->max_body_bytes + config->max_result_bytes;
    if (needed <= room)
        return GEMMD_OK;
    char body[CONFIG_TEXT_MAX], result[CONFIG_TEXT_MAX];
    config_source_text(reader, option_named("max-body"), source_of(reader, "max-body"), body);
    config_source_text(reader, option_named("max-result"), source_of(reader, "max-result"), result);
    return config_fault(reader, option, source_of(reader, name),
                        "of %" PRIu64 " is too small for one request at both limits, %s of %" PRIu64
                        " and %s of %" PRIu64 "; --%s of %" PRIu64 " is enough",
                        room, body, config->max_body_bytes, result, config->max_result_bytes, name,
                        needed);
}

/* Checks that the options of TLS are given together. */
static enum gemmd_error check_tls(struct config_reader *reader)
{
    const struct config *config = reader->config;
    if ((config->tls_cert == NULL) != (config->tls_key == NULL)) {
        const char *given = config->tls_cert != NULL ? "tls-cert" : "tls-key";
        return config_fault(reader, option_named(given), source_of(reader, given), "needs --%s too",
                            config->tls_cert != NULL ? "tls-key" : "tls-cert");
    }
    if (config->tls_client_ca != NULL && config->tls_cert == NULL)
        return config_fault(reader, option_named("tls-client-ca"),
                            source_of(reader, "tls-client-ca"),
                            "needs --tls-cert and --tls-key too");
    if (config->tls_client_ca == NULL && is_set(reader, "tls-client-auth"))
        return config_fault(reader, option_named("tls-client-auth"),
                            source_of(reader, "tls-client-auth"), "needs --tls-client-ca too");
    return GEMMD_OK;
}

/* Whether the authority of an http or https URL has a part before '@'. */
static bool has_credentials(const char *url)
{
    const char *authority = strstr(url, "://") + 3;
    return memchr(authority, '@', strcspn(authority, "/?#")) != NULL;
}

/* Checks that --timeout is not longer than --max-timeout. */
static enum gemmd_error check_timeouts(struct config_reader *reader)
{
    const struct config *config = reader->config;
    const enum config_source source = source_of(reader, "timeout");
    char longest[CONFIG_TEXT_MAX];
    if (config->max_timeout_ms == 0 ||
        (config->default_timeout_ms != 0 && config->default_timeout_ms <= config->max_timeout_ms))
        return GEMMD_OK;
    config_source_text(reader, option_named("max-timeout"), source_of(reader, "max-timeout"),
                       longest);
    if (config->default_timeout_ms == 0)
        return config_fault(reader, option_named("timeout"), source,
                            "of 0 (no deadline) is longer than %s of %" PRIu64 " ms", longest,
                            config->max_timeout_ms);
    return config_fault(reader, option_named("timeout"), source,
                        "of %" PRIu64 " ms is longer than %s of %" PRIu64 " ms",
                        config->default_timeout_ms, longest, config->max_timeout_ms);
}

/* Checks the options of the exporter of spans. */
static enum gemmd_error check_otlp(struct config_reader *reader)
{
    const struct config *config = reader->config;
    const char *endpoint = config->otlp_endpoint;
    if (endpoint != NULL && strncmp(endpoint, "http://", 7) != 0 &&
        strncmp(endpoint, "https://", 8) != 0)
        return config_fault(reader, option_named("otlp-endpoint"),
                            source_of(reader, "otlp-endpoint"),
                            "of '%.100s' does not begin with http:// or https://", endpoint);
    if (endpoint != NULL && has_credentials(endpoint))
        return config_fault(
            reader, option_named("otlp-endpoint"), source_of(reader, "otlp-endpoint"),
            "must not hold a user or a password, which logs and --check-config would "
            "show; put an Authorization header in --otlp-header-file");
    if (endpoint == NULL && config->otlp_header_file != NULL)
        return config_fault(reader, option_named("otlp-header-file"),
                            source_of(reader, "otlp-header-file"), "needs --otlp-endpoint too");
    if (config->otlp_ca_file != NULL && (endpoint == NULL || strncmp(endpoint, "https://", 8) != 0))
        return config_fault(reader, option_named("otlp-ca-file"), source_of(reader, "otlp-ca-file"),
                            "needs an --otlp-endpoint that begins with https://");
    return GEMMD_OK;
}

/* Checks that the limit for one address is not higher than the limit of all connections. */
static enum gemmd_error check_connections(struct config_reader *reader)
{
    const struct config *config = reader->config;
    char total[CONFIG_TEXT_MAX];
    if (config->max_connections_per_address <= config->max_connections)
        return GEMMD_OK;
    config_source_text(reader, option_named("max-connections"),
                       source_of(reader, "max-connections"), total);
    return config_fault(reader, option_named("max-connections-per-address"),
                        source_of(reader, "max-connections-per-address"),
                        "of %" PRIu32 " is more than %s of %" PRIu32,
                        config->max_connections_per_address, total, config->max_connections);
}

/* Whether a text is one or more segments of a path, each with a slash before it. Segments of dots
 * would be removed when a client resolves a reference. */
static bool is_base_path(const char *text)
{
    static const char marks[] = "-._~";
    enum { BASE_PATH_MAX = 128 };
    if (strlen(text) > BASE_PATH_MAX)
        return false;
    do {
        const char *segment = text + 1;
        if (*text != '/')
            return false;
        for (text = segment; *text != '\0' && *text != '/'; text++)
            if (!(*text >= '0' && *text <= '9') && !(*text >= 'a' && *text <= 'z') &&
                !(*text >= 'A' && *text <= 'Z') && strchr(marks, *text) == NULL)
                return false;
        if (strspn(segment, ".") == (size_t)(text - segment))
            return false;
    } while (*text != '\0');
    return true;
}

/* Whether `length` characters are an origin as browsers send it: scheme://host or
 * scheme://host:port, in lower case and without a path. */
static bool is_origin(const char *text, size_t length)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    size_t at = strspn(text, letters);
    at += strspn(text + at, "+-.abcdefghijklmnopqrstuvwxyz0123456789");
    if (at == 0 || at + 3 >= length || strncmp(text + at, "://", 3) != 0)
        return false;
    for (at += 3; at < length; at++)
        if (text[at] == '\0' ||
            (strchr(letters, text[at]) == NULL && strchr("-._:[]", text[at]) == NULL))
            return false;
    return true;
}

/* Returns the first of comma-separated origins that is none, and its length; NULL: all are. */
static const char *wrong_origin(const char *origins, size_t *length)
{
    for (;; origins += *length + 1) {
        *length = strcspn(origins, ",");
        if (!is_origin(origins, *length))
            return origins;
        if (origins[*length] == '\0')
            return NULL;
    }
}

/* Checks the options for a daemon behind a proxy. */
static enum gemmd_error check_proxy(struct config_reader *reader)
{
    const struct config *config = reader->config;
    if (config->base_path != NULL && !is_base_path(config->base_path))
        return config_fault(reader, option_named("base-path"), source_of(reader, "base-path"),
                            "of '%.60s' is not a path such as /gemmd: it begins with a slash, does "
                            "not end with one, and has letters, digits and -._~, 128 at most",
                            config->base_path);
    struct networks trusted;
    const char *wrong = NULL;
    size_t length = 0;
    if (config->trusted_proxies != NULL &&
        !networks_read(&trusted, config->trusted_proxies, &wrong, &length))
        return config_fault(
            reader, option_named("trusted-proxy"), source_of(reader, "trusted-proxy"),
            trusted.count == NETWORKS_MAX
                ? "has more than 64 networks; the first one too many is '%.*s'"
                : "has '%.*s', which is not an address, a network such as 10.0.0.0/8, or unix",
            (int)(length < 60 ? length : 60), wrong);
    if (config->trusted_proxies == NULL && is_set(reader, "forwarded-header"))
        return config_fault(reader, option_named("forwarded-header"),
                            source_of(reader, "forwarded-header"), "needs --trusted-proxy too");
    wrong = config->allow_origin == NULL ? NULL : wrong_origin(config->allow_origin, &length);
    if (wrong != NULL)
        return config_fault(reader, option_named("allow-origin"), source_of(reader, "allow-origin"),
                            "has '%.*s', which is not an origin as browsers send it: "
                            "scheme://host or scheme://host:port, in lower case, without a path",
                            (int)(length < 60 ? length : 60), wrong);
    return GEMMD_OK;
}

enum gemmd_error config_check(struct config_reader *reader)
{
    enum gemmd_error error = check_tls(reader);
    if (error == GEMMD_OK)
        error = check_room(reader, "pinned-bytes");
    if (error == GEMMD_OK)
        error = check_room(reader, "queue-bytes");
    if (error == GEMMD_OK && reader->config->tenant_bytes > 0)
        error = check_room(reader, "tenant-bytes");
    if (error == GEMMD_OK)
        error = check_timeouts(reader);
    if (error == GEMMD_OK)
        error = check_otlp(reader);
    if (error == GEMMD_OK)
        error = check_connections(reader);
    if (error == GEMMD_OK)
        error = check_proxy(reader);
    return error;
}
