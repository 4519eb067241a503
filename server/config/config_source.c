#include "server/config/config_source.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "proto/utf8.h"
#include "server/base/address.h"

void config_source_text(const struct config_reader *reader, const struct config_option *option,
                        enum config_source source, char out[CONFIG_TEXT_MAX])
{
    switch (source) {
    case CONFIG_SOURCE_ENVIRONMENT:
        config_option_variable(option, out);
        break;
    case CONFIG_SOURCE_FILE:
        snprintf(out, CONFIG_TEXT_MAX, "\"%s\" in %.80s", option->name,
                 reader->config->config_file);
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

enum gemmd_error config_fault(const struct config_reader *reader,
                              const struct config_option *option, enum config_source source,
                              const char *format, ...)
{
    char where[CONFIG_TEXT_MAX], sentence[256];
    config_source_text(reader, option, source, where);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof(sentence), format, arguments);
    va_end(arguments);
    return fault_set(reader->fault, GEMMD_ERR_USAGE, option->name, "%s %s", where, sentence);
}

static enum gemmd_error no_memory(struct config_reader *reader)
{
    return fault_set(reader->fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                     "out of memory while the options were read");
}

static enum gemmd_error set_text(struct config_reader *reader, const struct config_option *option,
                                 const char *text)
{
    char **field = (char **)(void *)((unsigned char *)reader->config + option->offset);
    char *copy = strdup(text);
    if (!copy)
        return no_memory(reader);
    free(*field);
    *field = copy;
    return GEMMD_OK;
}

static enum gemmd_error add_address(struct config_reader *reader,
                                    const struct config_option *option, enum config_source source,
                                    const char *text)
{
    struct config *config = reader->config;
    if (config->listen_count == CONFIG_LISTEN_MAX)
        return config_fault(reader, option, source, "is given more than %d times",
                            CONFIG_LISTEN_MAX);
    char *copy = strdup(text);
    if (!copy)
        return no_memory(reader);
    config->listen[config->listen_count++] = copy;
    return GEMMD_OK;
}

enum gemmd_error config_set(struct config_reader *reader, const struct config_option *option,
                            enum config_source source, const char *text)
{
    enum config_source *winner = &reader->sources[config_option_index(option)];
    bool wins =
        *winner <= source; /* equal: the same flag is given again, and the last one counts */
    enum gemmd_error error = GEMMD_OK;
    uint64_t value;
    struct address parsed;
    struct fault fault = {0};

    /* --check-config and /info write the options as JSON, which is UTF-8. */
    if (!utf8_is_text(text))
        return config_fault(reader, option, source, "is not valid UTF-8");
    switch (option->kind) {
    case CONFIG_KIND_ADDRESSES:
        if (address_parse(text, &parsed, &fault) != GEMMD_OK)
            return config_fault(reader, option, source, "%.80s: %s", text, fault.detail);
        if (wins)
            error = add_address(reader, option, source, text);
        break;
    case CONFIG_KIND_TEXT:
        if (text[0] == '\0')
            return config_fault(reader, option, source, "has an empty value");
        if (wins)
            error = set_text(reader, option, text);
        break;
    default:
        if (!config_value_read(option, text, &value)) {
            char expected[CONFIG_TEXT_MAX];
            config_value_expected(option, expected);
            return config_fault(reader, option, source, "is \"%.40s\"; it must be %s", text,
                                expected);
        }
        if (wins)
            config_value_store(reader->config, option, value);
        break;
    }
    if (error == GEMMD_OK && wins)
        *winner = source;
    return error;
}
