/*
 * config_environment.c - options from GEMMD_... variables.
 *
 * A variable that starts with GEMMD_ and belongs to no option is an error, as an unknown flag is: a
 * mistyped GEMMD_TOKEN_FILE must not start a daemon that needs no token. The exceptions are
 * variables of clients and the variables that Kubernetes sets in every container for a service
 * whose name is gemmd or starts with "gemmd-". A variable with an empty value counts as not set.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "server/config/config_source.h"

static const char prefix[] = "GEMMD_";

/* Variables that are not the daemon's: libgemmd and gemmctl read all but the last three, images
 * commonly have the version of their program in a variable, and GEMMD_HANDOVER and
 * GEMMD_DEVICE_RESTARTS come from the daemon that this one replaces (inherited_sockets.h,
 * device_restarts.h). */
static const char *const others[] = {"URL",      "TOKEN",   "CA_FILE",  "CERT_FILE",
                                     "KEY_FILE", "VERSION", "HANDOVER", "DEVICE_RESTARTS"};

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* Whether the rest of a variable's name, from the start or from behind an underscore, is one that
 * Kubernetes uses: SERVICE_HOST, SERVICE_PORT, SERVICE_PORT_..., PORT with a URL as its value, or
 * PORT_<digit>... */
static bool is_kubernetes_part(const char *part, size_t length, const char *value)
{
    static const char host[] = "SERVICE_HOST", port[] = "SERVICE_PORT", url[] = "PORT";
    if (length == sizeof(host) - 1 && starts_with(part, host))
        return true;
    if (starts_with(part, port))
        return length == sizeof(port) - 1 || part[sizeof(port) - 1] == '_';
    if (!starts_with(part, url))
        return false;
    const char *rest = part + sizeof(url) - 1;
    return length == sizeof(url) - 1 ? strstr(value, "://") != NULL
                                     : rest[0] == '_' && isdigit((unsigned char)rest[1]);
}

static bool is_kubernetes(const char *name, size_t length, const char *value)
{
    for (size_t i = 0; i < length; i++)
        if ((i == 0 || name[i - 1] == '_') && is_kubernetes_part(name + i, length - i, value))
            return true;
    return false;
}

static bool is_other(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (strlen(others[i]) == length && memcmp(others[i], name, length) == 0)
            return true;
    return false;
}

/* Writes the option's name that a variable without its prefix stands for: "queue-bytes" for
 * QUEUE_BYTES. Returns its length; 0: the name is longer than any option's. */
static size_t option_name(const char *variable, size_t length, char out[CONFIG_TEXT_MAX])
{
    if (length >= CONFIG_TEXT_MAX)
        return 0;
    for (size_t i = 0; i < length; i++)
        out[i] = variable[i] == '_' ? '-' : (char)tolower((unsigned char)variable[i]);
    out[length] = '\0';
    return length;
}

static bool is_option(const char *variable, size_t length)
{
    char expected[CONFIG_TEXT_MAX];
    for (uint32_t i = 0; i < config_option_count; i++) {
        if (!(config_options[i].sources & CONFIG_SOURCE_ENVIRONMENT))
            continue;
        config_option_variable(&config_options[i], expected);
        const char *name = expected + sizeof(prefix) - 1;
        if (strlen(name) == length && memcmp(name, variable, length) == 0)
            return true;
    }
    return false;
}

/* Whether an entry of the environment sets a GEMMD_ variable that nothing reads. */
static bool is_unknown(const char *entry)
{
    const char *equals = strchr(entry, '=');
    if (!starts_with(entry, prefix) || !equals || equals[1] == '\0')
        return false;
    const char *name = entry + sizeof(prefix) - 1;
    const size_t length = (size_t)(equals - name);
    return !is_option(name, length) && !is_other(name, length) &&
           !is_kubernetes(name, length, equals + 1);
}

static enum gemmd_error unknown_variable(struct config_reader *reader, const char *entry)
{
    const int shown = (int)strcspn(entry, "=") < 60 ? (int)strcspn(entry, "=") : 60;
    const char *variable = entry + sizeof(prefix) - 1;
    char name[CONFIG_TEXT_MAX];
    const size_t length = option_name(variable, strcspn(variable, "="), name);
    const char *nearest = config_option_nearest(name, length);
    const struct config_option *option =
        nearest ? config_option_find(nearest, strlen(nearest)) : NULL;
    if (option && (option->sources & CONFIG_SOURCE_ENVIRONMENT)) {
        config_option_variable(option, name);
        return fault_set(reader->fault, GEMMD_ERR_USAGE, NULL,
                         "the environment variable %.*s belongs to no option; did you mean %s?",
                         shown, entry, name);
    }
    return fault_set(reader->fault, GEMMD_ERR_USAGE, NULL,
                     "the environment variable %.*s belongs to no option; --help lists the options",
                     shown, entry);
}

static const char *variable_value(char *const environment[], const char *name)
{
    size_t length = strlen(name);
    for (char *const *entry = environment; *entry; entry++) {
        if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=')
            return *entry + length + 1;
    }
    return NULL;
}

static enum gemmd_error read_addresses(struct config_reader *reader,
                                       const struct config_option *option, const char *text)
{
    char *list = strdup(text), *rest = list;
    if (!list)
        return fault_set(reader->fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                         "out of memory while the options were read");
    enum gemmd_error error = GEMMD_OK;
    while (rest && error == GEMMD_OK)
        error = config_set(reader, option, CONFIG_SOURCE_ENVIRONMENT, strsep(&rest, ","));
    free(list);
    return error;
}

enum gemmd_error config_read_environment(struct config_reader *reader, char *const environment[])
{
    for (char *const *entry = environment; *entry; entry++) {
        if (is_unknown(*entry))
            return unknown_variable(reader, *entry);
    }
    for (uint32_t i = 0; i < config_option_count; i++) {
        const struct config_option *option = &config_options[i];
        if (!(option->sources & CONFIG_SOURCE_ENVIRONMENT))
            continue;
        char name[CONFIG_TEXT_MAX];
        config_option_variable(option, name);
        const char *value = variable_value(environment, name);
        if (!value || value[0] == '\0')
            continue;
        enum gemmd_error error = option->kind == CONFIG_KIND_ADDRESSES
                                     ? read_addresses(reader, option, value)
                                     : config_set(reader, option, CONFIG_SOURCE_ENVIRONMENT, value);
        if (error != GEMMD_OK)
            return error;
    }
    return GEMMD_OK;
}
