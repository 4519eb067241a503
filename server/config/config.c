/* config.c - reads the options from all sources in order, and stores a value in struct config. */
#include "server/config/config.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "proto/utf8.h"
#include "server/base/address.h"
#include "server/config/config_source.h"

void config_source_text(const struct config_load *load, const struct config_option *option,
                        enum config_source source, char out[CONFIG_TEXT_MAX])
{
    switch (source) {
    case CONFIG_SOURCE_ENVIRONMENT:
        config_option_variable(option, out);
        break;
    case CONFIG_SOURCE_FILE:
        snprintf(out, CONFIG_TEXT_MAX, "\"%s\" in %.80s", option->name, load->config->config_file);
        break;
    case CONFIG_SOURCE_FLAG:
        snprintf(out, CONFIG_TEXT_MAX, "--%s", option->name);
        break;
    case CONFIG_SOURCE_DEFAULT:
    case CONFIG_SOURCE_NONE:
        snprintf(out, CONFIG_TEXT_MAX, "--%s (default)", option->name);
        break;
    }
}

enum gemmd_error config_fault(const struct config_load *load, const struct config_option *option,
                              enum config_source source, const char *format, ...)
{
    char where[CONFIG_TEXT_MAX], sentence[256];
    config_source_text(load, option, source, where);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof(sentence), format, arguments);
    va_end(arguments);
    return fault_set(load->fault, GEMMD_ERR_USAGE, option->name, "%s %s", where, sentence);
}

static enum gemmd_error no_memory(struct config_load *load)
{
    return fault_set(load->fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                     "out of memory while the options were read");
}

static enum gemmd_error set_text(struct config_load *load, const struct config_option *option,
                                 const char *text)
{
    char **field = (char **)(void *)((unsigned char *)load->config + option->offset);
    char *copy = strdup(text);
    if (!copy)
        return no_memory(load);
    free(*field);
    *field = copy;
    return GEMMD_OK;
}

static enum gemmd_error add_address(struct config_load *load, const struct config_option *option,
                                    enum config_source source, const char *text)
{
    struct config *config = load->config;
    if (config->listen_count == CONFIG_LISTEN_MAX)
        return config_fault(load, option, source, "is given more than %d times", CONFIG_LISTEN_MAX);
    char *copy = strdup(text);
    if (!copy)
        return no_memory(load);
    config->listen[config->listen_count++] = copy;
    return GEMMD_OK;
}

enum gemmd_error config_set(struct config_load *load, const struct config_option *option,
                            enum config_source source, const char *text)
{
    enum config_source *winner = &load->sources[config_option_index(option)];
    bool wins =
        *winner <= source; /* equal: the same flag is given again, and the last one counts */
    enum gemmd_error error = GEMMD_OK;
    uint64_t value;
    struct address parsed;
    struct fault fault = {0};

    /* --check-config and /info write the options as JSON, which is UTF-8. */
    if (!utf8_is_text(text))
        return config_fault(load, option, source, "is not valid UTF-8");
    switch (option->kind) {
    case CONFIG_KIND_ADDRESSES:
        if (address_parse(text, &parsed, &fault) != GEMMD_OK)
            return config_fault(load, option, source, "%.80s: %s", text, fault.detail);
        if (wins)
            error = add_address(load, option, source, text);
        break;
    case CONFIG_KIND_TEXT:
        if (text[0] == '\0')
            return config_fault(load, option, source, "has an empty value");
        if (wins)
            error = set_text(load, option, text);
        break;
    default:
        if (!config_value_read(option, text, &value)) {
            char expected[CONFIG_TEXT_MAX];
            config_value_expected(option, expected);
            return config_fault(load, option, source, "is \"%.40s\"; it must be %s", text,
                                expected);
        }
        if (wins)
            config_value_store(load->config, option, value);
        break;
    }
    if (error == GEMMD_OK && wins)
        *winner = source;
    return error;
}

enum gemmd_error config_read_sources(struct config_load *load, int argc, char *const argv[],
                                     char *const environment[])
{
    struct config *config = load->config;
    enum gemmd_error error = config_read_flags(load, argc, argv);
    if (error != GEMMD_OK || config->action == CONFIG_HELP || config->action == CONFIG_VERSION)
        return error;
    error = config_read_environment(load, environment);
    if (error == GEMMD_OK && config->config_file)
        error = config_read_file(load, config->config_file);
    return error == GEMMD_OK ? config_read_defaults(load) : error;
}

enum gemmd_error config_load(struct config *config, int argc, char *const argv[],
                             char *const environment[], struct fault *fault)
{
    struct config_load load = {.config = config, .fault = fault};
    *config = (struct config){.action = CONFIG_RUN};
    enum gemmd_error error = config_read_sources(&load, argc, argv, environment);
    if (error != GEMMD_OK || config->action == CONFIG_HELP || config->action == CONFIG_VERSION)
        return error;
    return config_check(&load);
}

uint64_t config_share(const struct config *config, uint32_t tenants, uint64_t limit)
{
    const uint32_t percent = config->tenant_share;
    if (tenants < 2 || percent == 100)
        return 0;
    const uint64_t share = limit / 100 * percent + limit % 100 * percent / 100;
    return share > 0 || limit == 0 ? share : 1;
}

uint64_t config_longest_timeout_ms(const struct config *config)
{
    return config->max_timeout_ms != 0 ? config->max_timeout_ms : INT32_MAX;
}

void config_free(struct config *config)
{
    for (uint32_t i = 0; i < config->listen_count; i++)
        free(config->listen[i]);
    config->listen_count = 0;
    for (uint32_t i = 0; i < config_option_count; i++) {
        if (config_options[i].kind != CONFIG_KIND_TEXT)
            continue;
        char **field = (char **)(void *)((unsigned char *)config + config_options[i].offset);
        free(*field);
        *field = NULL;
    }
}
