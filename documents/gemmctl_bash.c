/* The completions of gemmctl for bash. */
#include <string.h>

#include "documents/gemmctl_completions.h"

/* Clauses that find the command among the words of the line. */
bool gemmctl_bash_commands(struct document *document, const char *rest)
{
    FILE *out = document->out;
    const char *before = "        ";
    (void)rest;
    for (const struct command *command = commands; command->name != NULL; command++) {
        if (!command_is_first(command))
            continue;
        fprintf(out, "%s' %.*s'", before, (int)strcspn(command->name, " "), command->name);
        before = " | ";
    }
    fputs(") command=$word ;;\n        ", out);
    words_write_pairs(out, " | ");
    fputs(") command+=\" $word\" ;;\n", out);
    return true;
}

static void bash_group(FILE *out, const char *group)
{
    fprintf(out, "        %s:*) words='", group);
    words_write(out, group);
    fputs("' ;;\n", out);
}

bool gemmctl_bash_words(struct document *document, const char *rest)
{
    (void)rest;
    fputs("        :* | help:*) words='", document->out);
    words_write(document->out, NULL);
    fputs("' ;;\n", document->out);
    words_for_groups(document->out, bash_group);
    return true;
}

static void bash_value(FILE *out, const struct value *value)
{
    if (value->kind == VALUE_FILE)
        fputs(") files=yes ;;\n", out);
    else if (value->kind == VALUE_WORDS)
        fprintf(out, ") words='%s' ;;\n", value->words);
    else if (value->kind == VALUE_NAMES)
        fprintf(out, ") words=$(_gemmctl_names %s) ;;\n", value->words);
    else
        fputs(") ;;\n", out);
}

/* Writes the patterns of an option behind a command. */
static void bash_patterns(FILE *out, const char *before, const char *command,
                          const struct option *option)
{
    fprintf(out, "%s%s:--%s", before, command, option->name);
    if (option->letter != 0)
        fprintf(out, " | %s:-%c", command, option->letter);
}

/* Clauses for values that differ from command to command, and then one for all others. */
bool gemmctl_bash_values(struct document *document, const char *rest)
{
    FILE *out = document->out;
    (void)rest;
    for (int id = 0; id < OPTION_COUNT; id++) {
        if (options[id].argument == NULL)
            continue;
        const struct value of_all = value_of(NULL, (enum option_id)id);
        uint64_t done = 0;
        for (const struct command *command = commands; command->name != NULL; command++) {
            const struct value value = value_of(command, (enum option_id)id);
            if (!option_is_of(&options[id], command) || (done & command->taker) != 0 ||
                value_is(&value, &of_all))
                continue;
            const char *before = "    ";
            for (const struct command *other = command; other->name != NULL; other++) {
                const struct value of_other = value_of(other, (enum option_id)id);
                if (!option_is_of(&options[id], other) || !value_is(&value, &of_other))
                    continue;
                char name[32];
                snprintf(name, sizeof name, "'%s'", other->name);
                bash_patterns(out, before, name, &options[id]);
                before = " | ";
                done |= other->taker;
            }
            bash_value(out, &value);
        }
        bash_patterns(out, "    ", "*", &options[id]);
        bash_value(out, &of_all);
    }
    return true;
}

/* A clause with the options of each command. */
bool gemmctl_bash_options(struct document *document, const char *rest)
{
    FILE *out = document->out;
    (void)rest;
    for (const struct command *command = commands;; command++) {
        const char *before = "";
        fprintf(out, "    %s%s%s) offered='", command->name != NULL ? "'" : "",
                command->name != NULL ? command->name : "*", command->name != NULL ? "'" : "");
        for (int id = 0; id < OPTION_COUNT; id++) {
            if (command->name != NULL ? !option_is_of(&options[id], command)
                                      : !option_is_common(&options[id]))
                continue;
            fprintf(out, "%s--%s", before, options[id].name);
            before = " ";
        }
        fputs("' ;;\n", out);
        if (command->name == NULL)
            return true;
    }
}
