/*
 * config_option.h - the table of the daemon's options, and how a value of each kind is read.
 *
 * Internal to config_*.c and their tests. Constant data and pure functions; any thread.
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
    CONFIG_OPTION_MAX = 96, /* the table has no more entries than this */
    CONFIG_TEXT_MAX =
        128 /* bytes for a text about one option, such as its name or the values it takes */
};

enum config_kind {
    CONFIG_KIND_NUMBER,
    CONFIG_KIND_BYTES,
    CONFIG_KIND_TIME,  /* milliseconds */
    CONFIG_KIND_SHARE, /* a decimal from 0 to 1; stored in millionths */
    CONFIG_KIND_MODE,  /* permissions of a file, written in octal */
    CONFIG_KIND_SWITCH,
    CONFIG_KIND_CHOICE,    /* an enum; its value is the index in `choices` */
    CONFIG_KIND_TEXT,      /* a char * */
    CONFIG_KIND_ADDRESSES, /* repeatable: the char *[] and count of `listen` */
    CONFIG_KIND_ACTION     /* a flag without a value, which sets `action` to the entry's `min` */
};

enum config_group {
    CONFIG_GROUP_LISTENING,
    CONFIG_GROUP_COMPUTING,
    CONFIG_GROUP_LIMITS,
    CONFIG_GROUP_TIMES,
    CONFIG_GROUP_OPERATION,
    CONFIG_GROUP_COUNT
};

/* Where a value came from. A larger source wins over a smaller one. As a set of bits: the sources
 * in which an option may be given. */
enum config_source {
    CONFIG_SOURCE_NONE = 0,
    CONFIG_SOURCE_DEFAULT = 1,
    CONFIG_SOURCE_FILE = 2,
    CONFIG_SOURCE_ENVIRONMENT = 4,
    CONFIG_SOURCE_FLAG = 8
};

struct config_option {
    const char *name;
    const char *help;           /* sentences that make sense on their own; --help adds `standard` */
    const char *placeholder;    /* the value's name in --help; NULL for switches and actions */
    const char *standard;       /* the default, as a user would write it. NULL: the option is not
                                   set, or config_check.c computes the default, and `help` tells
                                   it */
    const char *const *choices; /* the words of a CHOICE, NULL-terminated */
    uint64_t min, max;   /* least and largest value of a NUMBER, BYTES, TIME, SHARE or MODE */
    size_t offset, size; /* of the field in struct config; a number has 4 or 8 bytes */
    enum config_kind kind;
    enum config_group group;
    uint32_t sources; /* where the option may be given: bits of enum config_source */
    bool private;     /* the option is left out of /info */
    bool reloadable;  /* config_reload applies a new value; else the value at the start stays */
};

/* The sentence that --help and the man page add to a reloadable option. */
#define CONFIG_RELOADABLE_TEXT "Reloadable."

extern const struct config_option config_options[];
extern const uint32_t config_option_count;

/* Returns the option whose name is the first `length` characters of `name`; NULL: there is none. */
const struct config_option *config_option_find(const char *name, size_t length);
/* Returns the name of the option that a mistyped name is most like; NULL: no name is like it. */
const char *config_option_nearest(const char *name, size_t length);
uint32_t config_option_index(const struct config_option *option);
/* Writes the name of the option's environment variable, such as GEMMD_QUEUE_REQUESTS. */
void config_option_variable(const struct config_option *option, char out[CONFIG_TEXT_MAX]);
const char *config_group_title(enum config_group group);

/* Reads the value of an option that is stored as a number: of kind NUMBER, BYTES, TIME, SHARE,
 * MODE, SWITCH or CHOICE. Returns false if the text is no such value or the value is out of range.
 */
bool config_value_read(const struct config_option *option, const char *text, uint64_t *out);
/* Writes the value of an option of one of these kinds as text: a SHARE as a decimal, a MODE in
 * octal, any other as a whole number. */
void config_value_write(const struct config_option *option, uint64_t value, char out[32]);
/* Writes which values config_value_read takes for an option: "a whole number from 1 to 64". */
void config_value_expected(const struct config_option *option, char out[CONFIG_TEXT_MAX]);
/* Store and load the number that config_value_read returned, in the option's field of a config. */
void config_value_store(struct config *config, const struct config_option *option, uint64_t value);
uint64_t config_value_load(const struct config *config, const struct config_option *option);

#endif
