#include "client/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/failure.h"
#include "client/process.h"
#include "client/record.h"
#include "client/schedule.h"
#include "client/transfer.h"

#define DEFAULT_URL "http://127.0.0.1:8080"

enum { TOKEN_MAX = 4096 };

static const struct gemmd_options defaults = {
    .connect_timeout_ms = 5000,
    .total_timeout_ms = 300000,
    .stall_timeout_ms = 30000,
    .retries = 4,
    .max_in_flight = 64,
};

void gemmd_options_init(struct gemmd_options *options, size_t size)
{
    record_write(options, size, &defaults, sizeof defaults);
}

static void use_default(uint32_t *value, uint32_t otherwise)
{
    if (*value == 0)
        *value = otherwise;
}

/* Takes the name of a file from the environment if the option is not given. An empty name is none.
 */
static void use_file(const char **file, const char *variable)
{
    if (*file == NULL)
        *file = secure_getenv(variable);
    if (*file != NULL && **file == '\0')
        *file = NULL;
}

/* libcurl takes a file that it cannot read for a lost connection, or for a daemon that is not
 * trusted. */
static bool is_readable(const char *file)
{
    return file == NULL || access(file, R_OK) == 0;
}

static bool copy_text(char **out, const char *text)
{
    *out = text == NULL ? NULL : strdup(text);
    return text == NULL || *out != NULL;
}

static enum gemmd_error read_options(struct gemmd_options *out, const struct gemmd_options *in,
                                     struct gemmd_error_info *error)
{
    *out = defaults;
    if (in != NULL && record_read(out, sizeof *out, in, GEMMD_OPTIONS_SIZE_0_1, "options",
                                  "options", error) != GEMMD_OK)
        return GEMMD_ERR_USAGE;
    use_default(&out->connect_timeout_ms, defaults.connect_timeout_ms);
    use_default(&out->total_timeout_ms, defaults.total_timeout_ms);
    use_default(&out->stall_timeout_ms, defaults.stall_timeout_ms);
    use_default(&out->max_in_flight, defaults.max_in_flight);
    if (out->url == NULL)
        out->url = secure_getenv("GEMMD_URL");
    if (out->url == NULL || out->url[0] == '\0')
        out->url = DEFAULT_URL;
    if (out->token == NULL)
        out->token = secure_getenv("GEMMD_TOKEN");
    if (out->token == NULL)
        out->token = "";
    use_file(&out->ca_file, "GEMMD_CA_FILE");
    use_file(&out->cert_file, "GEMMD_CERT_FILE");
    use_file(&out->key_file, "GEMMD_KEY_FILE");
    if (!is_readable(out->ca_file))
        return failure_set(error, GEMMD_ERR_USAGE, "ca_file", "%.200s cannot be read: %s",
                           out->ca_file, strerror(errno));
    if (!is_readable(out->cert_file))
        return failure_set(error, GEMMD_ERR_USAGE, "cert_file", "%.200s cannot be read: %s",
                           out->cert_file, strerror(errno));
    if (!is_readable(out->key_file))
        return failure_set(error, GEMMD_ERR_USAGE, "key_file", "%.200s cannot be read: %s",
                           out->key_file, strerror(errno));
    if (out->key_file != NULL && out->cert_file == NULL)
        return failure_set(error, GEMMD_ERR_USAGE, "key_file",
                           "a key file needs the certificate file that it belongs to");
    if (out->traceparent != NULL && !traceparent_is_valid(out->traceparent))
        return failure_set(error, GEMMD_ERR_USAGE, "traceparent", TRACEPARENT_FORM);
    return GEMMD_OK;
}

static bool append_header(struct curl_slist **list, const char *line)
{
    struct curl_slist *longer = curl_slist_append(*list, line);
    if (longer == NULL)
        return false;
    *list = longer;
    return true;
}

static enum gemmd_error client_write_headers(struct gemmd_client *client, const char *token,
                                             bool digests, struct gemmd_error_info *error)
{
    static const char raw[] = "Content-Type: application/octet-stream";
    static const char accept[] = "Accept: application/octet-stream";
    static const char tensors[] = "Accept: application/vnd.safetensors";
    static const char ask[] = "Expect: 100-continue";
    static const char *const lines[HEADERS_COUNT][3] = {
        [HEADERS_ACCEPT] = {accept},
        [HEADERS_ACCEPT_TENSORS] = {tensors},
        [HEADERS_SEND] = {"Expect:", raw, accept},
        [HEADERS_ASK] = {ask, raw, accept},
        [HEADERS_SEND_FOR_TENSORS] = {"Expect:", raw, tensors},
        [HEADERS_ASK_FOR_TENSORS] = {ask, raw, tensors},
        [HEADERS_PUT] = {ask, raw},
        [HEADERS_PUT_SAFETENSORS] = {ask, "Content-Type: application/vnd.safetensors"},
    };
    char line[TOKEN_MAX + 64];
    size_t length = strlen(token);
    for (size_t i = 0; i < length; i++)
        if (token[i] <= ' ' || token[i] == 0x7f || length > TOKEN_MAX)
            return failure_set(error, GEMMD_ERR_USAGE, "token",
                               "a token is 1 to %d characters without spaces", TOKEN_MAX);
    snprintf(line, sizeof line, "Authorization: Bearer %s", token);
    for (int kind = 0; kind < HEADERS_COUNT; kind++) {
        if (length > 0 && !append_header(&client->headers[kind], line))
            return GEMMD_ERR_OUT_OF_MEMORY;
        if (digests && !append_header(&client->headers[kind], ANSWER_DIGEST_WISH))
            return GEMMD_ERR_OUT_OF_MEMORY;
        for (int i = 0; i < 3 && lines[kind][i] != NULL; i++)
            if (!append_header(&client->headers[kind], lines[kind][i]))
                return GEMMD_ERR_OUT_OF_MEMORY;
    }
    return GEMMD_OK;
}

struct gemmd_client *gemmd_client_new(const struct gemmd_options *given,
                                      struct gemmd_error_info *error)
{
    struct gemmd_options options;
    failure_clear(error);
    process_start();
    if (read_options(&options, given, error) != GEMMD_OK)
        return NULL;
    struct gemmd_client *client = calloc(1, sizeof *client);
    if (client == NULL)
        goto no_memory;
    client->forks = process_forks();
    client->loop.epoll = client->loop.timer = -1;
    client->check_us = LOOP_NEVER;
    client->random = backoff_seed();
    TAILQ_INIT(&client->requests);
    TAILQ_INIT(&client->queued);
    TAILQ_INIT(&client->running);
    TAILQ_INIT(&client->done);
    TAILQ_INIT(&client->calls);

    enum gemmd_error code = address_parse(&client->address, options.url, error);
    if (code == GEMMD_OK)
        code = client_write_headers(client, options.token, options.check_digests != 0, error);
    if (code == GEMMD_OK && options.shared == GEMMD_SHARED_ALWAYS &&
        client->address.unix_path == NULL)
        code = failure_set(error, GEMMD_ERR_USAGE, "shared",
                           "GEMMD_SHARED_ALWAYS needs the URL of a Unix socket (unix:PATH)");
    if (code == GEMMD_ERR_OUT_OF_MEMORY)
        goto no_memory;
    if (code != GEMMD_OK)
        goto fail;
    if (!copy_text(&client->ca_file, options.ca_file) ||
        !copy_text(&client->cert_file, options.cert_file) ||
        !copy_text(&client->key_file, options.key_file))
        goto no_memory;
    if (options.traceparent != NULL)
        memcpy(client->traceparent, options.traceparent, sizeof client->traceparent);
    options.url = options.token = options.ca_file = options.cert_file = options.key_file = NULL;
    options.traceparent = NULL;
    client->options = options;
    if (!loop_open(&client->loop, options.max_in_flight))
        goto no_memory;
    return client;

no_memory:
    failure_set(error, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                "there is no memory or no file descriptor for a client");
fail:
    gemmd_client_free(client);
    return NULL;
}

void gemmd_client_free(struct gemmd_client *client)
{
    if (client == NULL)
        return;
    process_disown(client);
    while (!TAILQ_EMPTY(&client->requests))
        gemmd_request_free(TAILQ_FIRST(&client->requests));
    transfer_free_idle(client);
    shared_memory_close(client);
    loop_close(&client->loop);
    for (int kind = 0; kind < HEADERS_COUNT; kind++)
        curl_slist_free_all(client->headers[kind]);
    address_free(&client->address);
    free(client->ca_file);
    free(client->cert_file);
    free(client->key_file);
    free(client);
}

void *gemmd_memory_alloc(struct gemmd_client *client, uint64_t bytes,
                         struct gemmd_error_info *error)
{
    failure_clear(error);
    (void)process_enter(client);
    return shared_memory_alloc(client, bytes, error);
}

void gemmd_memory_free(struct gemmd_client *client, void *block)
{
    (void)process_enter(client);
    if (block != NULL)
        shared_memory_free(client, block);
}
