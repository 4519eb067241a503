/* config_flags.c - options from the command line. */
#include <stdlib.h>
#include <string.h>

#include "server/config/config_source.h"

static enum gemmd_error unknown_flag(struct config_reader *reader, const char *argument,
                                     const char *name, size_t length)
{
    const char *nearest = config_option_nearest(name, length);
    if (nearest)
        return fault_set(reader->fault, GEMMD_ERR_USAGE, NULL,
                         "%.60s is not an option; did you mean --%s?", argument, nearest);
    return fault_set(reader->fault, GEMMD_ERR_USAGE, NULL,
                     "%.60s is not an option; --help lists them", argument);
}

/* Reads the flag at argv[*i]; *i becomes the index of the last argument that belongs to the flag.
 */
static enum gemmd_error read_flag(struct config_reader *reader, int argc, char *const argv[],
                                  int *i)
{
    const char *argument = argv[*i];
    if (argument[0] != '-')
        return fault_set(reader->fault, GEMMD_ERR_USAGE, NULL,
                         "\"%.60s\" is not expected: gemmd takes only options, which --help lists",
                         argument);
    const char *name = argument + strspn(argument, "-");
    const char *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    const char *value = equals ? equals + 1 : NULL;
    if (name != argument + 2)
        return unknown_flag(reader, argument, name, length);

    const struct config_option *option = config_option_find(name, length);
    if (!option && !value && strncmp(name, "no-", 3) == 0) {
        option = config_option_find(name + 3, length - 3);
        if (option && option->kind == CONFIG_KIND_SWITCH)
            return config_set(reader, option, CONFIG_SOURCE_FLAG, "false");
        option = NULL;
    }
    if (!option)
        return unknown_flag(reader, argument, name, length);
    if (option->kind == CONFIG_KIND_ACTION) {
        if (value)
            return config_fault(reader, option, CONFIG_SOURCE_FLAG, "takes no value");
        reader->config->action = (enum config_action)option->min;
        return GEMMD_OK;
    }
    if (!value && option->kind == CONFIG_KIND_SWITCH) {
        uint64_t ignored;
        bool follows = *i + 1 < argc && config_value_read(option, argv[*i + 1], &ignored);
        value = follows ? argv[++*i] : "true";
    } else if (!value) {
        /* No value starts with "--": an argument that does is the next flag, and the value of this
         * flag is missing. */
        if (*i + 1 >= argc || strncmp(argv[*i + 1], "--", 2) == 0)
            return config_fault(reader, option, CONFIG_SOURCE_FLAG, "needs a value: --%s %s",
                                option->name, option->placeholder);
        value = argv[++*i];
    }
    return config_set(reader, option, CONFIG_SOURCE_FLAG, value);
}

enum gemmd_error config_read_flags(struct config_reader *reader, int argc, char *const argv[])
{
    for (int i = 1; i < argc; i++) {
        enum gemmd_error error = read_flag(reader, argc, argv, &i);
        if (error != GEMMD_OK)
            return error;
        /* --help and --version work even if later flags are wrong. */
        if (reader->config->action == CONFIG_HELP || reader->config->action == CONFIG_VERSION)
            return GEMMD_OK;
    }
    return GEMMD_OK;
}
