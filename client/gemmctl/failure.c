#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/gemmctl/command.h"
#include "client/gemmctl/print.h"

/* ---- hints ---- */

static bool is_set(const char *variable)
{
    const char *value = getenv(variable);
    return value != NULL && value[0] != '\0';
}

static bool is_given(const struct context *context, enum option_id id, const char *variable)
{
    return context->arguments->values[id] != NULL || (variable != NULL && is_set(variable));
}

static bool is_of(const struct context *context, const char *group)
{
    return context->arguments->command != NULL && command_is_of(context->arguments->command, group);
}

/* Whether libcurl may have gone through a proxy to the address that the message names. */
static bool is_proxied(const char *message)
{
    if (strstr(message, "unix:") != NULL || is_set("no_proxy") || is_set("NO_PROXY"))
        return false;
    if (is_set("all_proxy") || is_set("ALL_PROXY"))
        return true;
    return strstr(message, "https://") != NULL ? is_set("https_proxy") || is_set("HTTPS_PROXY")
                                               : is_set("http_proxy");
}

/* What to do about a daemon that cannot be reached. */
static const char *hint_connection(const struct context *context, const char *message)
{
    /* GnuTLS and OpenSSL say in these words that a server answers without TLS. */
    if (strstr(message, "unexpected TLS packet") != NULL ||
        strstr(message, "wrong version") != NULL)
        return "the URL of a daemon that does not speak https begins with http://";
    if (strstr(message, "certificate") != NULL)
        return "--ca-file names the certificates to trust";
    if (is_proxied(message))
        return "the environment names a proxy (http_proxy, https_proxy or all_proxy), and no_proxy "
               "names the hosts to reach without it";
    return is_given(context, OPTION_URL, "GEMMD_URL") ||
                   is_given(context, OPTION_CONTEXT, "GEMMD_CONTEXT")
               ? NULL
               : "--url or GEMMD_URL sets the daemon's address";
}

const char *hint_for(const struct context *context, const struct gemmd_error_info *error)
{
    switch (error->code) {
    case GEMMD_ERR_UNAUTHORIZED:
        return is_given(context, OPTION_TOKEN_FILE, "GEMMD_TOKEN") ||
                       is_given(context, OPTION_CONTEXT, "GEMMD_CONTEXT")
                   ? "the daemon accepts none of the tokens of --token-file, GEMMD_TOKEN and "
                     "--context"
                   : "name the file of a token with --token-file, or set GEMMD_TOKEN";
    case GEMMD_ERR_NOT_FOUND:
        if (is_of(context, "job"))
            return "'gemmctl job ls' lists the jobs";
        return strstr(error->message, "tensor") != NULL ? "'gemmctl tensor ls' lists the tensors"
                                                        : NULL;
    case GEMMD_ERR_CONNECTION:
        return hint_connection(context, error->message);
    case GEMMD_ERR_TIMEOUT:
        return is_of(context, "bench") ? NULL : "--timeout sets a longer time";
    case GEMMD_ERR_QUEUE_FULL:
    case GEMMD_ERR_DRAINING:
        return is_given(context, OPTION_RETRIES, NULL) ? NULL
                                                       : "--retries sets the number of repeats";
    default:
        return NULL;
    }
}

void hint_option_sentence(const struct context *context, const struct fault *fault, char *out,
                          size_t room)
{
    char name[sizeof fault->field];
    size_t length = strlen(fault->field);
    snprintf(name, sizeof name, "%s", fault->field);
    for (char *at = strchr(name, '_'); at != NULL; at = strchr(at, '_'))
        *at = '-';
    const char *detail = fault->detail;
    const bool starts = length > 0 && strncmp(detail, fault->field, length) == 0 &&
                        (detail[length] == ' ' || detail[length] == '=');
    int id = 0;
    while (id < OPTION_COUNT && (!options[id].parameter || strcmp(options[id].name, name) != 0))
        id++;
    /* Of "k is 4 by the shape of B and 3 by that of A", k is an option only if the user gave it. */
    const bool is_option = id < OPTION_COUNT && (context->arguments->values[id] != NULL ||
                                                 strstr(detail, " by the shape of ") == NULL);
    if (starts && is_option)
        snprintf(out, room, "--%s%s", name, detail + length);
    else
        snprintf(out, room, "%s", detail);
}

/* ---- failures ---- */

static void print_sentence(const struct context *context, const char *sentence)
{
    bool color = context->terminal.err_color;
    fprintf(stderr, "%sgemmctl:%s ", terminal_red(color), terminal_plain(color));
    (void)terminal_put(sentence, stderr);
    fputc('\n', stderr);
}

enum exit_code exit_code_of(const struct gemmd_error_info *error)
{
    switch (error->code) {
    case GEMMD_OK:
        return EXIT_OK;
    case GEMMD_ERR_USAGE:
        return EXIT_USAGE;
    case GEMMD_ERR_UNSUPPORTED: /* without a status, libgemmd has refused the command line */
        return error->http_status == 0 ? EXIT_USAGE : EXIT_FAILED;
    case GEMMD_ERR_TIMEOUT:
    case GEMMD_ERR_DEADLINE:
        return EXIT_NETWORK;
    case GEMMD_ERR_CANCELLED:
        return EXIT_INTERRUPTED;
    case GEMMD_ERR_VERIFICATION:
        return EXIT_MISMATCH;
    case GEMMD_ERR_INTERNAL: /* of a daemon before 0.2 */
        return strcmp(error->field, "verify") == 0 ? EXIT_MISMATCH : EXIT_FAILED;
    default:
        break;
    }
    if (error->http_status == 429 || error->http_status == 503 || error->http_status == 409)
        return EXIT_REFUSED;
    return error->code == GEMMD_ERR_CONNECTION ? EXIT_NETWORK : EXIT_FAILED;
}

json_t *fail_describe(const struct gemmd_error_info *error)
{
    return json_pack("{s:s, s:i, s:b, s:i, s:i, s:o, s:o, s:o}", "code",
                     gemmd_error_name(error->code), "http_status", (int)error->http_status,
                     "retriable", (int)error->retriable, "retry_after_ms",
                     (int)(error->retry_after_ms & INT32_MAX), "attempts", (int)error->attempts,
                     "field", print_text(error->field), "request_id", print_text(error->request_id),
                     "message", print_text(error->message));
}

static void print_error(const struct gemmd_error_info *error)
{
    print_json(
        json_pack("{s:i, s:o}", "version", PRINT_JSON_VERSION, "error", fail_describe(error)));
}

/* Reports a failure of gemmctl itself, before the request or after the answer. */
static void fail_here(const struct context *context, enum gemmd_error code, const char *field,
                      const char *sentence)
{
    struct gemmd_error_info error = {.code = code};
    snprintf(error.field, sizeof error.field, "%s", field);
    snprintf(error.message, sizeof error.message, "%s", sentence);
    if (option_flag(context->arguments, OPTION_JSON))
        print_error(&error);
    print_sentence(context, sentence);
}

int fail_usage(const struct context *context, const char *sentence)
{
    fail_here(context, GEMMD_ERR_USAGE, "", sentence);
    return EXIT_USAGE;
}

/* A file that could not be written is a failure, and not wrong usage. */
int fail_fault(const struct context *context, const struct fault *fault)
{
    char sentence[sizeof fault->detail + 8];
    if (fault->code == GEMMD_ERR_IO && terminal_reader_left())
        return EXIT_PIPE;
    hint_option_sentence(context, fault, sentence, sizeof sentence);
    fail_here(context, fault->code, fault->field, sentence);
    return fault->code == GEMMD_ERR_IO || fault->code == GEMMD_ERR_OUT_OF_MEMORY ? EXIT_FAILED
                                                                                 : EXIT_USAGE;
}

int fail_named(const struct context *context, const char *name,
               const struct gemmd_error_info *error)
{
    char sentence[sizeof error->message + 384];
    const char *hint = hint_for(context, error), *semicolon = hint != NULL ? "; " : "";
    if (hint == NULL)
        hint = "";
    const char *front = name != NULL ? name : "", *colon = name != NULL ? ": " : "";
    const bool interrupted = error->code == GEMMD_ERR_CANCELLED && error->http_status == 0;
    const char *attempts = "";
    char times[32];
    if (error->attempts > 1) {
        snprintf(times, sizeof times, " (%u attempts)", error->attempts);
        attempts = times;
    }
    if (error->http_status != 0)
        snprintf(sentence, sizeof sentence, "%.128s%s%s (HTTP %d)%s%s%s", front, colon,
                 error->message, error->http_status, attempts, semicolon, hint);
    else
        snprintf(sentence, sizeof sentence, "%.128s%s%s%s%s%s", front, colon,
                 interrupted ? "interrupted; the request was cancelled" : error->message, attempts,
                 semicolon, hint);
    print_sentence(context, sentence);
    return (int)exit_code_of(error);
}

int fail_sentence(const struct context *context, const struct gemmd_error_info *error)
{
    return fail_named(context, NULL, error);
}

int fail_request(const struct context *context, const struct gemmd_error_info *error)
{
    if (option_flag(context->arguments, OPTION_JSON))
        print_error(error);
    return fail_sentence(context, error);
}
