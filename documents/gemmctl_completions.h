/*
 * gemmctl_completions.h - what the completions of gemmctl for all shells have in common.
 *
 * Constant data and pure functions, and functions that write words to a script.
 */
#ifndef DOCUMENTS_GEMMCTL_COMPLETIONS_H
#define DOCUMENTS_GEMMCTL_COMPLETIONS_H

#include "client/gemmctl/command.h"
#include "documents/document.h"

/* What completes the value of an option. */
enum value_kind {
    VALUE_FREE, /* nothing */
    VALUE_FILE,
    VALUE_WORDS, /* `words`, with spaces between */
    VALUE_NAMES  /* what "gemmctl completion WORDS" prints */
};
struct value {
    enum value_kind kind;
    char words[128];
};

/* The value of an option as `command` has it; NULL: as all commands have it. */
struct value value_of(const struct command *command, enum option_id id);
bool value_is(const struct value *value, const struct value *other);

bool option_is_of(const struct option *option, const struct command *command);

/* Returns the second word of a command; NULL: the command has one word. */
const char *command_second_word(const struct command *command);
/* Whether the command is the first of the table that has its first word. */
bool command_is_first(const struct command *command);

/* Writes the first words of all commands, each once; or the second words of a group's commands. */
void words_write(FILE *out, const char *group);
/* Writes the names of the commands that have two words, quoted. */
void words_write_pairs(FILE *out, const char *between);
/* Calls `write` for the first word of each group of commands. */
void words_for_groups(FILE *out, void (*write)(FILE *out, const char *group));

/* Write, for a text between single quotes, what a first word does; and the first part of an
 * option's help as `command` has it. `escaped` is as in shell_quote. */
void summary_of_command(FILE *out, const struct command *command, const char *escaped);
void summary_of_option(FILE *out, const struct command *command, const struct option *option,
                       const char *escaped);

#endif
