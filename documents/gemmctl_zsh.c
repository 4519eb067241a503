/* The completions of gemmctl for zsh. */
#include <string.h>

#include "documents/gemmctl_completions.h"

/* Whether the table has the option and its contrary, as --shm and --no-shm. */
static const char *contrary(const struct option *option)
{
    for (int id = 0; id < OPTION_COUNT; id++) {
        const char *name = options[id].name;
        if ((strncmp(name, "no-", 3) == 0 && strcmp(name + 3, option->name) == 0) ||
            (strncmp(option->name, "no-", 3) == 0 && strcmp(option->name + 3, name) == 0))
            return name;
    }
    return NULL;
}

static void zsh_option(FILE *out, const struct command *command, enum option_id id)
{
    const struct option *option = &options[id];
    const struct value value = value_of(command, id);
    char argument[OPTION_TEXT_MAX];
    option_text(commands, command, option->argument, argument, sizeof argument);
    fputs("        '", out);
    if (option->letter != 0)
        fprintf(out, "(-%c --%s)'{-%c,--%s}'[", option->letter, option->name, option->letter,
                option->name);
    else if (contrary(option) != NULL)
        fprintf(out, "(--%s)--%s[", contrary(option), option->name);
    else
        fprintf(out, "--%s[", option->name);
    summary_of_option(out, command, option, "\\]");
    fputc(']', out);
    if (option->argument != NULL)
        fprintf(out, ":%s:", strchr(argument, '|') != NULL ? option->name : argument);
    if (value.kind == VALUE_FILE)
        fputs("_files", out);
    else if (value.kind != VALUE_FREE)
        fputs(value.kind == VALUE_WORDS ? "(" : "_gemmctl_names ", out);
    shell_quote(out, value.words, strlen(value.words), ":");
    fputs(value.kind == VALUE_WORDS ? ")'\n" : "'\n", out);
}

bool gemmctl_zsh_common(struct document *document, const char *rest)
{
    (void)rest;
    for (int id = 0; id < OPTION_COUNT; id++)
        if (option_is_common(&options[id]))
            zsh_option(document->out, NULL, (enum option_id)id);
    return true;
}

/* The first words of all commands with what they do. */
bool gemmctl_zsh_commands(struct document *document, const char *rest)
{
    FILE *out = document->out;
    (void)rest;
    for (const struct command *command = commands; command->name != NULL; command++) {
        if (!command_is_first(command))
            continue;
        fprintf(out, "            '%.*s:", (int)strcspn(command->name, " "), command->name);
        summary_of_command(out, command, "\\:");
        fputs("'\n", out);
    }
    return true;
}

/* A clause with the options of each command, those of two words first. */
bool gemmctl_zsh_options(struct document *document, const char *rest)
{
    FILE *out = document->out;
    (void)rest;
    for (int words = 2; words > 0; words--) {
        for (const struct command *command = commands; command->name != NULL; command++) {
            if ((command_second_word(command) != NULL) != (words == 2))
                continue;
            fprintf(out, "    '%s '*) options=(\n", command->name);
            for (int id = 0; id < OPTION_COUNT; id++)
                if (option_is_of(&options[id], command) && !option_is_common(&options[id]))
                    zsh_option(out, command, (enum option_id)id);
            fputs("    ) ;;\n", out);
        }
    }
    return true;
}

static void zsh_group(FILE *out, const char *group)
{
    fprintf(out, "    '%s '*) first=('1:command:(", group);
    words_write(out, group);
    fputs(")') ;;\n", out);
}

bool gemmctl_zsh_words(struct document *document, const char *rest)
{
    (void)rest;
    fputs("    'help '*) first=('1:command:(", document->out);
    words_write(document->out, NULL);
    fputs(")') ;;\n", document->out);
    words_for_groups(document->out, zsh_group);
    return true;
}
