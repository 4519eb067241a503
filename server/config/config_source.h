/*
 * config_source.h - putting a config together from several sources.
 *
 * Internal to config_*.c. The strongest source is read first and the first to name an option wins;
 * values from weaker ones are still checked, so that a bad one never lies in wait.
 */
#ifndef SERVER_CONFIG_CONFIG_SOURCE_H
#define SERVER_CONFIG_CONFIG_SOURCE_H

#include "server/config/config_option.h"

struct config_load {
    struct config *config;
    enum config_source sources[CONFIG_OPTION_MAX]; /* by option index */
    struct fault *fault;
};

/* One value of one option. `source` is where it stands, a single bit. Appends to ADDRESSES. */
enum gemmd_error config_set(struct config_load *load, const struct config_option *option,
                            enum config_source source, const char *text);
/* The option as the user wrote it: "--max-body", "GEMMD_MAX_BODY", "\"max-body\" in FILE". */
void config_source_text(const struct config_load *load, const struct config_option *option,
                        enum config_source source, char out[CONFIG_TEXT_MAX]);
/* A fault about one option: "<source text> <sentence>". */
enum gemmd_error config_fault(const struct config_load *load, const struct config_option *option,
                              enum config_source source, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The sources, one each. `name` of an unknown option is suggested a neighbour. */
enum gemmd_error config_read_flags(struct config_load *load, int argc, char *const argv[]);
enum gemmd_error config_read_environment(struct config_load *load, char *const environment[]);
enum gemmd_error config_read_file(struct config_load *load, const char *path);
/* Defaults of the table, then those that depend on other options. */
enum gemmd_error config_read_defaults(struct config_load *load);
/* Options that contradict each other. */
enum gemmd_error config_check(struct config_load *load);

#endif
