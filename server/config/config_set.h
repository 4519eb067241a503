/*
 * config_set.h - stores the value of one option, from any source, in the options being read.
 *
 * Internal to config_*.c. The files that read a source (config_source.h) call config_set for each
 * value that they find.
 */
#ifndef SERVER_CONFIG_CONFIG_SET_H
#define SERVER_CONFIG_CONFIG_SET_H

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

#endif
