/* config_load.c - reads all sources of options in order. */
#include "server/config/config_source.h"

enum gemmd_error config_read_sources(struct config_reader *reader, int argc, char *const argv[],
                                     char *const environment[])
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
