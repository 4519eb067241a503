/* The manual pages of gemmctl, from the tables of commands and options and from the longer texts of
 * client/man/options.roff. */
#include <ctype.h>
#include <string.h>

#include "client/gemmctl/command.h"
#include "documents/document.h"

/* Whether gemmctl.1 describes the option, for all commands. */
static bool is_in_overview(int id)
{
    return option_is_common(&options[id]) || id == OPTION_JSON;
}

static int find_option(const char *name, size_t length)
{
    int id = 0;
    while (id < OPTION_COUNT &&
           (strlen(options[id].name) != length || memcmp(options[id].name, name, length) != 0))
        id++;
    return id;
}

/* Returns the command that a list of commands begins with, and moves `*list` to what follows the
 * name: ", ", ":" or the end of the line. NULL: there is no such command. */
static const struct command *take_command(const char **list)
{
    for (const struct command *command = commands; command->name != NULL; command++) {
        const size_t length = strlen(command->name);
        if (strncmp(*list, command->name, length) == 0 && strchr(",:\n", (*list)[length]) != NULL) {
            *list += length;
            return command;
        }
    }
    return NULL;
}

/* Returns the text behind `front`, with which the line begins; NULL: the line begins with another
 * text. */
static const char *behind(const char *line, const char *front)
{
    const size_t length = strlen(front);
    return strncmp(line, front, length) == 0 ? line + length : NULL;
}

/* Whether the list of a .FOR has the command. An empty list has every command. */
static bool list_has(const char *list, const struct command *command)
{
    bool has = *list == '\n';
    while (*list == ' ' || *list == ',') {
        list += strspn(list, ", ");
        const struct command *named = take_command(&list);
        has = has || (named != NULL && named == command);
    }
    return has;
}

/* Writes the lines of options.roff about the option as `command` has it. Returns whether there are
 * any. */
static bool write_text(struct document *document, const struct option *option,
                       const struct command *command)
{
    bool here = false, about = true, any = false;
    for (const char *line = document->texts; *line != '\0';) {
        const size_t length = strcspn(line, "\n") + 1;
        const char *name = behind(line, ".OPTION "), *list = behind(line, ".FOR");
        if (name != NULL) {
            here = strlen(option->name) == length - 1 - (size_t)(name - line) &&
                   strncmp(name, option->name, strlen(option->name)) == 0;
            about = true;
        } else if (list != NULL) {
            about = list_has(list, command);
        } else if (here && about) {
            fwrite(line, 1, length, document->out);
            any = true;
        }
        line += length;
    }
    return any;
}

bool gemmctl_check_texts(struct document *document)
{
    struct document texts = {.template = "options.roff", .line = 1};
    int id = OPTION_COUNT;
    for (const char *line = document->texts; line != NULL && *line != '\0'; texts.line++) {
        const size_t length = strcspn(line, "\n");
        const char *name = behind(line, ".OPTION "), *list = behind(line, ".FOR");
        if (line[length] == '\0')
            return document_fail(&texts, "a line does not end:", line);
        if (name != NULL &&
            (id = find_option(name, length - (size_t)(name - line))) == OPTION_COUNT)
            return document_fail(&texts, "gemmctl has no such option:", name);
        while (list != NULL && *list != '\n') {
            list += strspn(list, ", ");
            const struct command *command = take_command(&list);
            if (command == NULL || id == OPTION_COUNT || (options[id].takers & command->taker) == 0)
                return document_fail(&texts, "no command with the option:", line);
        }
        line += length + 1;
    }
    return true;
}

/* Writes the option as an entry of a list of definitions begins: "-o, --output FILE". */
static void write_head(FILE *out, const struct option *option, const char *argument)
{
    char name[64];
    if (option->letter != 0)
        fprintf(out, "\\fB\\-%c\\fR, ", option->letter);
    roff_text(out, name, (size_t)snprintf(name, sizeof name, "--%s", option->name));
    for (const char *at = argument; *at != '\0';) {
        size_t length = 0;
        while (isalnum((unsigned char)at[length]) || strchr("_-", at[length]) != NULL) {
            if (at[length] == '\0')
                break;
            length++;
        }
        fputs(at == argument ? " " : "", out);
        if (length > 0) {
            fputs("\\fI", out);
            roff_text(out, at, length);
            fputs("\\fR", out);
        }
        at += length;
        if (*at != '\0')
            fputc(*at++, out);
    }
    fputc('\n', out);
}

static void write_entry(struct document *document, const struct option *option,
                        const struct command *command)
{
    char text[OPTION_TEXT_MAX];
    FILE *out = document->out;
    fputs(".TP\n", out);
    write_head(out, option, option_text(commands, command, option->argument, text, sizeof text));
    if (!write_text(document, option, command)) {
        option_text(commands, command, option->help, text, sizeof text);
        for (const char *part = text, *end; part != NULL; part = end != NULL ? end + 2 : NULL) {
            end = strstr(part, "; ");
            roff_sentence(out, part, end != NULL ? (size_t)(end - part) : strlen(part));
        }
    }
    option_text(commands, command, option->standard, text, sizeof text);
    if (*text != '\0') {
        fputs("Default: ", out);
        roff_text(out, text, strlen(text));
        fputs(".\n", out);
    }
}

/* Whether both commands have the option with the same value, help and default. */
static bool is_alike(const struct option *option, const struct command *command,
                     const struct command *other)
{
    const char *const texts[] = {option->argument, option->help, option->standard};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char text[OPTION_TEXT_MAX], of_other[OPTION_TEXT_MAX];
        option_text(commands, command, texts[i], text, sizeof text);
        if (strcmp(text, option_text(commands, other, texts[i], of_other, sizeof of_other)) != 0)
            return false;
    }
    return true;
}

/* "COMMAND, COMMAND: OPTION OPTION" describes these options as all these commands have them; "all:"
 * stands for all commands. */
bool gemmctl_options(struct document *document, const char *rest)
{
    const struct command *of[32] = {NULL};
    size_t count = 0;
    const char *names = behind(rest, "all");
    if (names == NULL)
        for (names = rest; *names != ':'; names += *names == ',' ? 2 : 0)
            if (count == sizeof of / sizeof of[0] || (of[count++] = take_command(&names)) == NULL)
                return document_fail(document, "there is no such command:", names);
    if (*names++ != ':')
        return document_fail(document, "the commands do not end with a colon:", rest);
    while (*(names += strspn(names, " ")) != '\0') {
        const size_t length = strcspn(names, " ");
        const int id = find_option(names, length);
        if (id == OPTION_COUNT)
            return document_fail(document, "gemmctl has no such option:", names);
        for (size_t i = 0; i < count || i == 0; i++) {
            const uint64_t takers = count > 0 ? of[i]->taker : options[id].takers;
            if ((options[id].takers & takers) != takers || is_in_overview(id) != (count == 0))
                return document_fail(document, "this is no option of these commands:", names);
            if ((document->described[id] & takers) != 0)
                return document_fail(document, "the page describes this option twice:", names);
            if (count > 0 && !is_alike(&options[id], of[0], of[i]))
                return document_fail(document, "the commands have different options:", names);
            document->described[id] |= takers;
        }
        write_entry(document, &options[id], of[0]);
        names += length;
    }
    return true;
}

bool gemmctl_check_page(struct document *document)
{
    char word[16] = "";
    const char *slash = strrchr(document->template, '/');
    const char *name = slash != NULL ? slash + 1 : document->template;
    if (strcmp(name, "gemmctl.1") != 0 && sscanf(name, "gemmctl-%15[a-z].1", word) != 1)
        return true;
    for (const struct command *command = commands; command->name != NULL; command++) {
        const size_t length = strcspn(command->name, " ");
        if (*word != '\0' && (strncmp(command->name, word, length) != 0 || word[length] != '\0'))
            continue;
        for (int id = 0; id < OPTION_COUNT; id++)
            if ((options[id].takers & command->taker) != 0 &&
                is_in_overview(id) == (*word == '\0') &&
                (document->described[id] & command->taker) == 0)
                return document_fail(document, "the page lacks the option", options[id].name);
    }
    return true;
}
