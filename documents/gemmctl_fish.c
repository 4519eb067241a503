/* The completions of gemmctl for fish. */
#include <string.h>

#include "documents/gemmctl_completions.h"

/* The clause of the options without a value. */
bool gemmctl_fish_flags(struct document *document, const char *rest)
{
    FILE *out = document->out;
    (void)rest;
    fputs("            case '--*=*'", out);
    for (int id = 0; id < OPTION_COUNT; id++) {
        if (options[id].argument != NULL)
            continue;
        fprintf(out, " --%s", options[id].name);
        if (options[id].letter != 0)
            fprintf(out, " -%c", options[id].letter);
    }
    fputc('\n', out);
    return true;
}

static void fish_group(FILE *out, const char *group)
{
    fprintf(out, "complete -c gemmctl -n '__gemmctl_has %s' -a '", group);
    words_write(out, group);
    fputs("'\n", out);
}

bool gemmctl_fish_pairs(struct document *document, const char *rest)
{
    (void)rest;
    fputs("    set -l pairs ", document->out);
    words_write_pairs(document->out, " ");
    fputc('\n', document->out);
    return true;
}

bool gemmctl_fish_commands(struct document *document, const char *rest)
{
    FILE *out = document->out;
    (void)rest;
    for (const struct command *command = commands; command->name != NULL; command++) {
        if (!command_is_first(command))
            continue;
        fprintf(out, "complete -c gemmctl -n __gemmctl_has -a %.*s -d '",
                (int)strcspn(command->name, " "), command->name);
        summary_of_command(out, command, "");
        fputs("'\n", out);
    }
    words_for_groups(out, fish_group);
    fputs("complete -c gemmctl -n '__gemmctl_has help' -a '", out);
    words_write(out, NULL);
    fputs("'\n", out);
    return true;
}

/* Writes the condition of an option: the commands from `command` on that have it with the same
 * value and help. Returns these commands' bits. */
static uint64_t fish_condition(FILE *out, const struct command *command, enum option_id id)
{
    const struct value value = value_of(command, id);
    char help[OPTION_TEXT_MAX], of_other[OPTION_TEXT_MAX];
    uint64_t takers = 0;
    option_text(commands, command, options[id].help, help, sizeof help);
    help[strcspn(help, ";")] = '\0';
    fputs(" -n '__gemmctl_is", out);
    for (const struct command *other = command; other->name != NULL; other++) {
        const struct value value_of_other = value_of(other, id);
        option_text(commands, other, options[id].help, of_other, sizeof of_other);
        of_other[strcspn(of_other, ";")] = '\0';
        if (!option_is_of(&options[id], other) || !value_is(&value, &value_of_other) ||
            strcmp(help, of_other) != 0)
            continue;
        fprintf(out, strchr(other->name, ' ') != NULL ? " \"%s\"" : " %s", other->name);
        takers |= other->taker;
    }
    fputc('\'', out);
    return takers;
}

static void fish_option(FILE *out, const struct command *command, enum option_id id)
{
    const struct value value = value_of(command, id);
    fprintf(out, " -l %s", options[id].name);
    if (options[id].letter != 0)
        fprintf(out, " -s %c", options[id].letter);
    if (value.kind == VALUE_FILE)
        fputs(" -r -F", out);
    else if (options[id].argument != NULL)
        fputs(" -x", out);
    if (value.kind == VALUE_WORDS)
        fprintf(out, " -a '%s'", value.words);
    else if (value.kind == VALUE_NAMES)
        fprintf(out, " -a '(__gemmctl_names %s)'", value.words);
    fputs(" -d '", out);
    summary_of_option(out, command, &options[id], "");
    fputs("'\n", out);
}

bool gemmctl_fish_options(struct document *document, const char *rest)
{
    FILE *out = document->out;
    (void)rest;
    for (int id = 0; id < OPTION_COUNT; id++) {
        const bool common = option_is_common(&options[id]);
        uint64_t done = 0;
        for (const struct command *command = commands; command->name != NULL; command++) {
            if (!option_is_of(&options[id], command) || (done & command->taker) != 0)
                continue;
            fputs("complete -c gemmctl", out);
            done |= common ? FOR_ALL : fish_condition(out, command, (enum option_id)id);
            fish_option(out, command, (enum option_id)id);
        }
    }
    return true;
}
