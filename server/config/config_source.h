/*
 * config_source.h - reads the options from flags, environment, file and defaults. The files that
 * read a source call config_set for each value that they find.
 *
 * Internal to config_*.c. The sources are read from the strongest to the weakest, and the first
 * source that names an option wins. Values from weaker sources are checked too, so that a wrong
 * value is found even while a flag overrides it.
 */
#ifndef SERVER_CONFIG_CONFIG_SOURCE_H
#define SERVER_CONFIG_CONFIG_SOURCE_H

#include "server/config/config_option.h"

/* The options being read. All pointers are borrowed. */
struct config_reader {
    struct config *config;                         /* the values so far */
    enum config_source sources[CONFIG_OPTION_MAX]; /* where each option's value came from */
    struct fault *fault;                           /* describes the first error */
    bool while_serving;                            /* no pipe is waited for */
};

/* Checks one value of one option, and stores the value unless a stronger source has set the option.
 * `source` is a single bit. A value of an option of kind ADDRESSES is appended. */
enum gemmd_error config_set(struct config_reader *reader, const struct config_option *option,
                            enum config_source source, const char *text);
/* Writes what a source calls an option: --max-body, GEMMD_MAX_BODY, "max-body" in FILE. */
void config_source_text(const struct config_reader *reader, const struct config_option *option,
                        enum config_source source, char out[CONFIG_TEXT_MAX]);
/* Sets a fault about one option. The fault's text is the text of config_source_text, a space, and
 * the formatted sentence. */
enum gemmd_error config_fault(const struct config_reader *reader,
                              const struct config_option *option, enum config_source source,
                              const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Each of these functions reads one source. An unknown option is a fault that suggests the nearest
 * name. */
enum gemmd_error config_read_flags(struct config_reader *reader, int argc, char *const argv[]);
enum gemmd_error config_read_environment(struct config_reader *reader, char *const environment[]);
enum gemmd_error config_read_file(struct config_reader *reader, const char *path);
/* Sets the defaults in the table, then the defaults that depend on other options. */
enum gemmd_error config_read_defaults(struct config_reader *reader);
/* Sets the defaults that depend on other options. */
void config_derive(struct config_reader *reader);
/* Finds options that contradict each other. */
enum gemmd_error config_check(struct config_reader *reader);

#endif
