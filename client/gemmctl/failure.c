#include <stdio.h>
#include <string.h>

#include "client/gemmctl/command.h"
#include "client/gemmctl/hint.h"
#include "client/gemmctl/print.h"

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
    return json_pack("{s:s, s:i, s:b, s:i, s:i, s:s, s:s, s:s}", "code",
                     gemmd_error_name(error->code), "http_status", (int)error->http_status,
                     "retriable", (int)error->retriable, "retry_after_ms",
                     (int)(error->retry_after_ms & INT32_MAX), "attempts", (int)error->attempts,
                     "field", error->field, "request_id", error->request_id, "message",
                     error->message);
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
