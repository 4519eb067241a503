#include "client/gemmctl/hint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
