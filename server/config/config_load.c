/* config_load.c - reads the options at the start, and again for a reload, which applies those that
 * may change while running. */
#include <inttypes.h>
#include <string.h>

#include "server/config/config_source.h"

/* Reads all sources from the strongest to the weakest, with the defaults. */
static enum gemmd_error config_read_sources(struct config_reader *reader, int argc,
                                            char *const argv[], char *const environment[])
{
    struct config *config = reader->config;
    enum gemmd_error error = config_read_flags(reader, argc, argv);
    if (error != GEMMD_OK || config->action == CONFIG_HELP || config->action == CONFIG_VERSION)
        return error;
    error = config_read_environment(reader, environment);
    if (error == GEMMD_OK && config->config_file)
        error = config_read_file(reader, config->config_file);
    return error == GEMMD_OK ? config_read_defaults(reader) : error;
}

enum gemmd_error config_load(struct config *config, int argc, char *const argv[],
                             char *const environment[], struct fault *fault)
{
    struct config_reader reader = {.config = config, .fault = fault};
    *config = (struct config){.action = CONFIG_RUN};
    enum gemmd_error error = config_read_sources(&reader, argc, argv, environment);
    if (error != GEMMD_OK || config->action == CONFIG_HELP || config->action == CONFIG_VERSION)
        return error;
    return config_check(&reader);
}

/* ---- a reload ---- */

_Static_assert((int)CONFIG_CHANGES_MAX >= (int)CONFIG_OPTION_MAX, "every option can change");

/* Writes a value as text for the log: a number, a word, a string, or addresses. */
static void value_text(const struct config *config, const struct config_option *option,
                       char out[CONFIG_VALUE_MAX])
{
    const unsigned char *field = (const unsigned char *)config + option->offset;
    size_t length = 0;
    switch (option->kind) {
    case CONFIG_KIND_SWITCH:
        snprintf(out, CONFIG_VALUE_MAX, "%s", config_value_load(config, option) ? "true" : "false");
        break;
    case CONFIG_KIND_CHOICE:
        snprintf(out, CONFIG_VALUE_MAX, "%s", option->choices[config_value_load(config, option)]);
        break;
    case CONFIG_KIND_TEXT: {
        const char *text = *(char *const *)(const void *)field;
        snprintf(out, CONFIG_VALUE_MAX, "%s", text != NULL ? text : "(not set)");
        break;
    }
    case CONFIG_KIND_ADDRESSES:
        snprintf(out, CONFIG_VALUE_MAX, "(not set)");
        for (uint32_t i = 0; i < config->listen_count && length < CONFIG_VALUE_MAX; i++)
            length += (size_t)snprintf(out + length, CONFIG_VALUE_MAX - length, "%s%s",
                                       i > 0 ? ", " : "", config->listen[i]);
        break;
    default: {
        char number[32];
        config_value_write(option, config_value_load(config, option), number);
        snprintf(out, CONFIG_VALUE_MAX, "%s", number);
    } break;
    }
}

static bool is_number(const struct config_option *option)
{
    return option->kind != CONFIG_KIND_TEXT && option->kind != CONFIG_KIND_ADDRESSES &&
           option->kind != CONFIG_KIND_ACTION;
}

/* Gives the options that are not reloadable the values in force, for the checks of the others. */
static void keep_running(struct config *loaded, const struct config *running)
{
    for (uint32_t i = 0; i < config_option_count; i++) {
        const struct config_option *option = &config_options[i];
        if (!option->reloadable && is_number(option))
            config_value_store(loaded, option, config_value_load(running, option));
    }
}

static void copy_reloadable(struct config *next, const struct config *loaded)
{
    for (uint32_t i = 0; i < config_option_count; i++)
        if (config_options[i].reloadable)
            config_value_store(next, &config_options[i],
                               config_value_load(loaded, &config_options[i]));
}

/* Adds the options of one kind (reloadable or not) whose value differs. */
static void add_changes(struct config_changes *changes, const struct config *before,
                        const struct config *after, bool reloadable)
{
    for (uint32_t i = 0; i < config_option_count; i++) {
        const struct config_option *option = &config_options[i];
        struct config_change *change = &changes->list[changes->count];
        if (option->reloadable != reloadable || option->kind == CONFIG_KIND_ACTION)
            continue;
        value_text(before, option, change->old_value);
        value_text(after, option, change->new_value);
        change->name = option->name;
        change->applied = reloadable;
        changes->count += strcmp(change->old_value, change->new_value) != 0;
    }
}

enum gemmd_error config_reload(const struct config_reload *reload, struct config *next,
                               struct config_changes *changes, struct fault *fault)
{
    struct config loaded = {.action = CONFIG_RUN}, fixed;
    struct config_reader reader = {.config = &loaded, .fault = fault, .while_serving = true};
    enum gemmd_error error =
        config_read_sources(&reader, reload->argc, reload->argv, reload->environment);
    if (error != GEMMD_OK)
        goto free_loaded;
    fixed = loaded; /* borrows the strings of `loaded` */
    keep_running(&loaded, reload->running);
    config_derive(&reader);
    keep_running(&loaded, reload->running);
    error = config_check(&reader);
    if (error != GEMMD_OK)
        goto free_loaded;
    *next = *reload->running;
    copy_reloadable(next, &loaded);
    changes->count = 0;
    add_changes(changes, reload->running, next, true);
    add_changes(changes, reload->given, &fixed, false);

free_loaded:
    config_free(&loaded);
    return error;
}
