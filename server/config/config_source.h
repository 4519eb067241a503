/*
 * config_source.h - reads the options from flags, environment, file and defaults.
 *
 * Internal to config_*.c. The sources are read from the strongest to the weakest, and the first
 * source that names an option wins. Values from weaker sources are checked too, so that a wrong
 * value is found even while a flag overrides it.
 */
#ifndef SERVER_CONFIG_CONFIG_SOURCE_H
#define SERVER_CONFIG_CONFIG_SOURCE_H

#include "server/config/config_set.h"

/* Each of these functions reads one source. An unknown option is a fault that suggests the nearest
 * name. */
enum gemmd_error config_read_flags(struct config_reader *reader, int argc, char *const argv[]);
enum gemmd_error config_read_environment(struct config_reader *reader, char *const environment[]);
enum gemmd_error config_read_file(struct config_reader *reader, const char *path);
/* Sets the defaults in the table, then the defaults that depend on other options. */
enum gemmd_error config_read_defaults(struct config_reader *reader);
/* Sets the defaults that depend on other options. */
void config_derive(struct config_reader *reader);
/* Reads all sources from the strongest to the weakest, with the defaults (config_load.c). */
enum gemmd_error config_read_sources(struct config_reader *reader, int argc, char *const argv[],
                                     char *const environment[]);
/* Finds options that contradict each other. */
enum gemmd_error config_check(struct config_reader *reader);

#endif
