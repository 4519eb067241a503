#include <string.h>

#include "client/gemmctl/command.h"

enum { HELP_COLUMN = 22, HELP_WIDTH = 80 };

/* Prints the words of a text from `column` on, with a hanging indent. */
static void print_wrapped(const char *text, int column)
{
    int at = column;
    while (*text != '\0') {
        int length = (int)strcspn(text, " ");
        if (at > column && at + 1 + length > HELP_WIDTH) {
            printf("\n%*s", column, "");
            at = column;
        }
        at += printf("%s%.*s", at > column ? " " : "", length, text);
        text += length + (text[length] == ' ');
    }
    putchar('\n');
}

/* The words of an argument that are too long for a line, as a clause of the option's text: "; WORD
 * is one of a, b". The argument becomes WORD. */
static void move_words(char *argument, char *clause, size_t capacity)
{
    int length = snprintf(clause, capacity, "; WORD is one of ");
    for (const char *at = argument; *at != '\0' && (size_t)length + 3 < capacity; at++)
        length +=
            snprintf(clause + length, capacity - (size_t)length, *at == '|' ? ", " : "%c", *at);
    strcpy(argument, "WORD");
}

static void print_option(const struct context *context, const struct command *command,
                         const struct option *option)
{
    enum { ARGUMENT_COLUMNS = 60 };
    char argument[OPTION_TEXT_MAX], help[OPTION_TEXT_MAX], standard[OPTION_TEXT_MAX],
        words[OPTION_TEXT_MAX] = "", text[3 * OPTION_TEXT_MAX + 16], left[128];
    option_text(context->commands, command, option->argument, argument, sizeof argument);
    if (strlen(argument) > ARGUMENT_COLUMNS)
        move_words(argument, words, sizeof words);
    option_text(context->commands, command, option->help, help, sizeof help);
    option_text(context->commands, command, option->standard, standard, sizeof standard);
    snprintf(text, sizeof text, "%s%s%s%s", help, words, *standard != '\0' ? "; default: " : "",
             standard);
    int length = option->letter != 0 ? snprintf(left, sizeof left, "  -%c, ", option->letter)
                                     : snprintf(left, sizeof left, "      ");
    length += snprintf(left + length, sizeof left - (size_t)length, "--%s%s%s", option->name,
                       option->argument != NULL ? " " : "", argument);
    if (length + 2 > HELP_COLUMN)
        printf("%s\n%*s", left, HELP_COLUMN, "");
    else
        printf("%-*s", HELP_COLUMN, left);
    print_wrapped(text, HELP_COLUMN);
}

static void print_heading(const struct context *context, const char *heading)
{
    bool color = context->terminal.out_color;
    printf("\n%s%s%s\n", terminal_bold(color), heading, terminal_plain(color));
}

/* Prints the options of a command, either the common ones or the others. NULL: of any command. */
static void print_options(const struct context *context, const char *heading,
                          const struct command *command, bool common)
{
    const uint64_t takers = command != NULL ? command->taker : FOR_ALL;
    print_heading(context, heading);
    for (int id = 0; id < OPTION_COUNT; id++)
        if ((options[id].takers & takers) != 0 && option_is_common(&options[id]) == common)
            print_option(context, command, &options[id]);
}

/* Lists the names of the common options that a command takes. */
static void print_common_names(const struct context *context, uint64_t taker)
{
    char list[1024];
    int length = snprintf(list, sizeof list, "'gemmctl --help' describes");
    for (int id = 0; id < OPTION_COUNT; id++)
        if ((options[id].takers & taker) != 0 && option_is_common(&options[id]))
            length +=
                snprintf(list + length, sizeof list - (size_t)length, " --%s,", options[id].name);
    list[length - 1] = '.';
    print_heading(context, "Common options");
    fputs("  ", stdout);
    print_wrapped(list, 2);
}

/* The column of the summaries, behind the longest name of a command. */
static int summary_column(const struct command *command)
{
    size_t longest = 0;
    for (; command->name != NULL; command++) {
        const size_t length = strlen(command->name);
        longest = length > longest ? length : longest;
    }
    return (int)longest + 4;
}

/* Prints the commands of a group, or all commands if `group` is NULL. */
static void print_commands(const struct context *context, const char *group)
{
    const int column = summary_column(context->commands);
    print_heading(context, "Commands");
    for (const struct command *command = context->commands; command->name != NULL; command++) {
        if (group != NULL && !command_is_of(command, group) && strcmp(command->name, group) != 0)
            continue;
        printf("  %-*s", column - 2, command->name);
        print_wrapped(command->summary, column);
    }
}

static void print_command(const struct context *context, const struct command *command)
{
    int start = printf("gemmctl %s: ", command->name);
    print_wrapped(command->summary, start);
    print_heading(context, "Usage");
    printf("  gemmctl %s [OPTION ...]%s%s\n", command->name, *command->usage != '\0' ? " " : "",
           command->usage);
    bool own = false;
    for (int id = 0; id < OPTION_COUNT; id++)
        own = own || (!option_is_common(&options[id]) && (options[id].takers & command->taker));
    if (own)
        print_options(context, "Options", command, false);
    print_common_names(context, command->taker);
    print_heading(context, "Examples");
    fputs(command->examples, stdout);
    /* The page of the first word is about all commands of a group; gemmctl(1) is about help. */
    if (command->taker != FOR_HELP)
        printf("\n'man gemmctl-%.*s' says more.\n", (int)strcspn(command->name, " "),
               command->name);
}

static void print_overview(const struct context *context)
{
    printf("gemmctl: matrix products and other tensor operations on a gemmd daemon\n");
    print_heading(context, "Usage");
    printf("  gemmctl COMMAND [OPTION ...] [OPERAND ...]\n");
    print_commands(context, NULL);
    print_heading(context, "Examples");
    printf("  gemmctl gemm A.npy B.npy -o C.npy\n"
           "  gemmctl tensor put weights W.npy\n"
           "  gemmctl gemm X.npy tensor:weights -o Y.npy\n"
           "  gemmctl attention Q.npy K.npy V.npy -o O.npy --causal\n"
           "  gemmctl conv X.npy W.npy -o Y.npy --padding same\n"
           "  gemmctl softmax X.npy -o Y.npy\n"
           "  gemmctl bench -m 64 -n 64 -k 64 --connections 32\n");
    print_options(context, "Common options", NULL, true);
    print_heading(context, "Exit status");
    printf("  0    success\n"
           "  1    the daemon could not compute, or the result could not be written\n"
           "  2    the command line or an input file is wrong\n"
           "  3    the daemon refused the request for the moment (429, 503), or a job\n"
           "       is not done yet\n"
           "  4    no connection to the daemon, or the time ran out\n"
           "  5    the result did not pass --verify or --check\n"
           "  130  interrupted\n"
           "\n'gemmctl COMMAND --help' describes a command. 'man gemmctl' and\n"
           "'man gemmctl-COMMAND' say more.\n");
}

static void print_group(const struct context *context, const char *group)
{
    printf("gemmctl %s: commands for %ss\n", group, group);
    print_commands(context, group);
    print_heading(context, "Examples");
    for (const struct command *command = context->commands; command->name != NULL; command++)
        if (command_is_of(command, group))
            fputs(command->examples, stdout);
    printf("\n'gemmctl %s COMMAND --help' describes a command.\n'man gemmctl-%s' says more.\n",
           group, group);
}

/* Prints the help of the command, or of the group of commands, that the operands of `help` name. */
static int print_named(const struct context *context, const char *first, const char *second)
{
    char problem[PROBLEM_MAX], name[PROBLEM_MAX / 2];
    snprintf(name, sizeof name, "%.48s%s%.48s", first, second != NULL ? " " : "",
             second != NULL ? second : "");
    bool is_group = false;
    for (const struct command *command = context->commands; command->name != NULL; command++) {
        if (strcmp(command->name, name) == 0) {
            print_command(context, command);
            return EXIT_OK;
        }
        is_group = is_group || command_is_of(command, name);
    }
    if (is_group) {
        print_group(context, name);
        return EXIT_OK;
    }
    snprintf(problem, sizeof problem,
             "there is no command '%s'; 'gemmctl --help' lists the commands", name);
    return fail_usage(context, problem);
}

int command_help(const struct context *context)
{
    const struct arguments *arguments = context->arguments;
    const struct command *command = arguments->command;
    const bool is_help =
        command != NULL && command->run == command_help && !option_flag(arguments, OPTION_HELP);
    if (is_help && arguments->operand_count > 0)
        return print_named(context, arguments->operands[0], arguments->operands[1]);
    if (command == NULL && arguments->group != NULL)
        print_group(context, arguments->group);
    else if (command == NULL || is_help)
        print_overview(context);
    else
        print_command(context, command);
    return EXIT_OK;
}
