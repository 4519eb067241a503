/*
 * config_option.h - the table of options, and what a value of each kind looks like.
 *
 * Internal to config_*.c and their tests. Constant data and pure functions, any thread.
 */
#ifndef SERVER_CONFIG_CONFIG_OPTION_H
#define SERVER_CONFIG_CONFIG_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/error.h"
#include "server/config/config.h"

enum {
    CONFIG_OPTION_MAX = 64, /* more than the table has */
    CONFIG_TEXT_MAX = 128   /* for what an option expects, and for its name in a sentence */
};

enum config_kind {
    CONFIG_KIND_NUMBER,
    CONFIG_KIND_BYTES,
    CONFIG_KIND_TIME, /* milliseconds */
    CONFIG_KIND_SWITCH,
    CONFIG_KIND_CHOICE,    /* an enum; its value is the index in `choices` */
    CONFIG_KIND_TEXT,      /* a char * */
    CONFIG_KIND_ADDRESSES, /* repeatable: the char *[] and count of `listen` */
    CONFIG_KIND_ACTION     /* a flag without value that sets `action` to `min` */
};

enum config_group {
    CONFIG_GROUP_LISTENING,
    CONFIG_GROUP_COMPUTING,
    CONFIG_GROUP_LIMITS,
    CONFIG_GROUP_TIMES,
    CONFIG_GROUP_OPERATION,
    CONFIG_GROUP_COUNT
};

/* Where a value came from, strongest last. As bits: where an option may be given. */
enum config_source {
    CONFIG_SOURCE_NONE = 0,
    CONFIG_SOURCE_DEFAULT = 1,
    CONFIG_SOURCE_FILE = 2,
    CONFIG_SOURCE_ENVIRONMENT = 4,
    CONFIG_SOURCE_FLAG = 8
};

struct config_option {
    const char *name;
    const char *help;           /* sentences, without default and unit */
    const char *placeholder;    /* what --help calls the value; NULL for switches and actions */
    const char *standard;       /* default, as a user would write it; NULL: not set, or computed
                                   from other options (config_check.c), as `help` then says */
    const char *const *choices; /* NULL-terminated */
    uint64_t min, max;          /* of numbers, bytes, milliseconds */
    size_t offset, size;        /* of the field in struct config; numbers have 4 or 8 bytes */
    enum config_kind kind;
    enum config_group group;
    uint32_t sources; /* config_source bits */
    bool private;     /* left out of /info */
};

extern const struct config_option config_options[];
extern const uint32_t config_option_count;

/* The option of a name that is `length` long; NULL if there is none. */
const struct config_option *config_option_find(const char *name, size_t length);
/* The name most like a mistyped one, or NULL if none comes near. */
const char *config_option_nearest(const char *name, size_t length);
uint32_t config_option_index(const struct config_option *option);
/* "GEMMD_QUEUE_REQUESTS" */
void config_option_variable(const struct config_option *option, char out[CONFIG_TEXT_MAX]);
const char *config_group_title(enum config_group group);

/* Reads a value that is a number in the end (NUMBER, BYTES, TIME, SWITCH, CHOICE); false if the
 * text is not one or it is out of range. */
bool config_value_read(const struct config_option *option, const char *text, uint64_t *out);
/* What config_value_read takes: "a whole number from 1 to 64". */
void config_value_expected(const struct config_option *option, char out[CONFIG_TEXT_MAX]);
/* Stores and loads such a number in the option's field. */
void config_value_store(struct config *config, const struct config_option *option, uint64_t value);
uint64_t config_value_load(const struct config *config, const struct config_option *option);

#endif
