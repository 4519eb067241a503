#include "documents/gemmctl_completions.h"

#include <string.h>

bool option_is_of(const struct option *option, const struct command *command)
{
    return (option->takers & command->taker) != 0;
}

const char *command_second_word(const struct command *command)
{
    const char *space = strchr(command->name, ' ');
    return space != NULL ? space + 1 : NULL;
}

bool command_is_first(const struct command *command)
{
    const size_t length = strcspn(command->name, " ");
    return command == commands || strncmp(command[-1].name, command->name, length) != 0 ||
           strcspn(command[-1].name, " ") != length;
}

/* The kernels that compute what the command asks for. */
static void kernels_of(const struct command *command, char *out, size_t room)
{
    const char *second = command_second_word(command);
    const char *operation = second != NULL ? second : command->name;
    if (strcmp(operation, "bench") == 0)
        operation = "gemm";
    snprintf(out, room, "kernels:%s%s", operation, strcmp(operation, "conv") == 0 ? "2d" : "");
}

struct value value_of(const struct command *command, enum option_id id)
{
    static const struct {
        enum option_id id;
        enum value_kind kind;
        const char *words;
    } special[] = {{OPTION_CONTEXT, VALUE_NAMES, "contexts"},
                   {OPTION_PADDING, VALUE_WORDS, "same"},
                   {OPTION_PRIORITY, VALUE_WORDS, "0 1 2 3 4 5 6 7 8 9"},
                   {OPTION_URL, VALUE_WORDS, "http:// https:// unix:"}};
    struct value value = {.kind = VALUE_FREE};
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++) {
        if (special[i].id == id) {
            value.kind = special[i].kind;
            snprintf(value.words, sizeof value.words, "%s", special[i].words);
            return value;
        }
    }
    if (id == OPTION_KERNEL && command != NULL) {
        value.kind = VALUE_NAMES;
        kernels_of(command, value.words, sizeof value.words);
        return value;
    }
    char text[sizeof value.words];
    option_text(commands, command, options[id].argument, text, sizeof text);
    if (strcmp(text, "FILE") == 0)
        value.kind = VALUE_FILE;
    if (strchr(text, '|') == NULL)
        return value;
    value.kind = VALUE_WORDS;
    for (size_t i = 0; text[i] != '\0'; i++)
        value.words[i] = (char)(text[i] == '|' ? ' ' : text[i]);
    return value;
}

bool value_is(const struct value *value, const struct value *other)
{
    return value->kind == other->kind && strcmp(value->words, other->words) == 0;
}

void summary_of_command(FILE *out, const struct command *command, const char *escaped)
{
    if (command_second_word(command) != NULL)
        fprintf(out, "commands for %.*ss", (int)strcspn(command->name, " "), command->name);
    else
        shell_quote(out, command->summary, strlen(command->summary), escaped);
}

void summary_of_option(FILE *out, const struct command *command, const struct option *option,
                       const char *escaped)
{
    char text[OPTION_TEXT_MAX];
    option_text(commands, command, option->help, text, sizeof text);
    const char *end = strstr(text, "; ");
    shell_quote(out, text, end != NULL ? (size_t)(end - text) : strlen(text), escaped);
}

void words_write(FILE *out, const char *group)
{
    const char *before = "";
    for (const struct command *command = commands; command->name != NULL; command++) {
        if (group != NULL && command_is_of(command, group))
            fprintf(out, "%s%s", before, command_second_word(command));
        else if (group == NULL && command_is_first(command))
            fprintf(out, "%s%.*s", before, (int)strcspn(command->name, " "), command->name);
        else
            continue;
        before = " ";
    }
}

void words_for_groups(FILE *out, void (*write)(FILE *out, const char *group))
{
    char last[16] = "";
    for (const struct command *command = commands; command->name != NULL; command++) {
        char group[16];
        snprintf(group, sizeof group, "%.*s", (int)strcspn(command->name, " "), command->name);
        if (command_second_word(command) != NULL && strcmp(group, last) != 0) {
            memcpy(last, group, sizeof last);
            write(out, group);
        }
    }
}

void words_write_pairs(FILE *out, const char *between)
{
    const char *before = "";
    for (const struct command *command = commands; command->name != NULL; command++) {
        if (command_second_word(command) == NULL)
            continue;
        fprintf(out, "%s'%s'", before, command->name);
        before = between;
    }
}
