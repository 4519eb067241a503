#include "client/gemmctl/options.h"

#include <string.h>

#include "proto/number.h"

enum { WORD_MAX = 32 };

static uint32_t min_of_three(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t smaller = a < b ? a : b;
    return smaller < c ? smaller : c;
}

static uint32_t distance(const char *a, const char *b)
{
    uint32_t cost[WORD_MAX + 1][WORD_MAX + 1];
    size_t a_length = strlen(a), b_length = strlen(b);
    if (a_length > WORD_MAX || b_length > WORD_MAX)
        return UINT32_MAX;
    for (uint32_t i = 0; i <= a_length; i++)
        cost[i][0] = i;
    for (uint32_t j = 0; j <= b_length; j++)
        cost[0][j] = j;
    for (uint32_t i = 1; i <= a_length; i++) {
        for (uint32_t j = 1; j <= b_length; j++) {
            cost[i][j] = min_of_three(cost[i - 1][j] + 1, cost[i][j - 1] + 1,
                                      cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                cost[i - 2][j - 2] + 1 < cost[i][j])
                cost[i][j] = cost[i - 2][j - 2] + 1;
        }
    }
    return cost[a_length][b_length];
}

const char *suggest(const char *word, const char *const *names, uint32_t count)
{
    const char *nearest = NULL;
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t away = distance(word, names[i]);
        /* A suggestion differs by at most two edits, and by at most half of the word. */
        if (away < best && away <= 2 && away <= strlen(names[i]) / 2) {
            best = away;
            nearest = names[i];
        }
    }
    return nearest;
}

enum { WORDS_MAX = 24, WORD_ROOM = 16 };

const struct option options[OPTION_COUNT] = {
#define X(id, name, letter, argument, standard, takers, parameter, help)                           \
    {name, argument, standard, help, takers, letter, parameter},
    OPTION_MAP(X)
#undef X
};

static enum option_id find_name(const char *name, size_t length)
{
    int id = 0;
    while (id < OPTION_COUNT &&
           (strncmp(options[id].name, name, length) != 0 || options[id].name[length] != '\0'))
        id++;
    return (enum option_id)id;
}

static enum option_id find_letter(char letter)
{
    int id = 0;
    while (id < OPTION_COUNT && options[id].letter != letter)
        id++;
    return (enum option_id)id;
}

/* Whether `name` is `second`, or, if `first` is not NULL, the two words with a space between. */
static bool is_named(const char *name, const char *first, const char *second)
{
    if (first != NULL) {
        size_t length = strlen(first);
        if (strncmp(name, first, length) != 0 || name[length] != ' ')
            return false;
        name += length + 1;
    }
    return strcmp(name, second) == 0;
}

static const struct command *find_command(const struct command *commands, const char *group,
                                          const char *word)
{
    for (; commands->name != NULL; commands++)
        if (is_named(commands->name, group, word))
            return commands;
    return NULL;
}

bool command_is_of(const struct command *command, const char *group)
{
    size_t length = strlen(group);
    return strncmp(command->name, group, length) == 0 && command->name[length] == ' ';
}

static bool is_group(const struct command *commands, const char *word)
{
    for (; commands->name != NULL; commands++)
        if (command_is_of(commands, word))
            return true;
    return false;
}

/* Writes that there is no such option, and which option of the command (NULL: not known) the user
 * may have meant. */
static void unknown_option(const char *text, const struct command *command,
                           char problem[PROBLEM_MAX])
{
    const uint64_t taker = command != NULL ? command->taker : FOR_ALL;
    const char *name = command != NULL ? command->name : "";
    const char *names[OPTION_COUNT];
    uint32_t count = 0;
    for (int id = 0; id < OPTION_COUNT; id++)
        if ((options[id].takers & taker) != 0)
            names[count++] = options[id].name;
    const char *meant = strncmp(text, "--", 2) == 0 ? suggest(text + 2, names, count) : NULL;
    if (meant != NULL)
        snprintf(problem, PROBLEM_MAX, "there is no option '%.64s'; did you mean --%s?", text,
                 meant);
    else
        snprintf(problem, PROBLEM_MAX,
                 "there is no option '%.64s'; 'gemmctl %s%s--help' lists the options", text, name,
                 *name != '\0' ? " " : "");
}

/* Lists the first words of all commands, or, with `group`, the second words of the group's
 * commands. Each word is listed once. Returns the number of words. */
static uint32_t list_words(const struct command *commands, const char *group,
                           char words[WORDS_MAX][WORD_ROOM])
{
    uint32_t count = 0;
    for (; commands->name != NULL && count < WORDS_MAX; commands++) {
        if (group != NULL && !command_is_of(commands, group))
            continue;
        const char *from = commands->name + (group != NULL ? strlen(group) + 1 : 0);
        snprintf(words[count], WORD_ROOM, "%.*s", (int)strcspn(from, " "), from);
        if (count == 0 || strcmp(words[count - 1], words[count]) != 0)
            count++;
    }
    return count;
}

/* Lists the commands of two words whose second word is `word`: "tensor ls or job ls". Returns
 * whether there is one. */
static bool list_seconds(const struct command *commands, const char *word, char *out, size_t room)
{
    size_t length = 0;
    for (; commands->name != NULL; commands++) {
        const char *space = strchr(commands->name, ' ');
        if (space != NULL && strcmp(space + 1, word) == 0 && length < room)
            length += (size_t)snprintf(out + length, room - length, "%s%s",
                                       length > 0 ? " or " : "", commands->name);
    }
    return length > 0;
}

/* Returns the one of `names` that other programs call `word`, or NULL. */
static const char *same_meaning(const char *word, const char *const *names, uint32_t count)
{
    static const char *const words[][2] = {
        {"list", "ls"},      {"delete", "rm"},  {"remove", "rm"},   {"delete", "cancel"},
        {"rm", "cancel"},    {"upload", "put"}, {"create", "put"},  {"fetch", "get"},
        {"download", "get"}, {"get", "result"}, {"show", "status"}, {"show", "ls"},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        for (uint32_t at = 0; at < count && strcmp(words[i][0], word) == 0; at++)
            if (strcmp(names[at], words[i][1]) == 0)
                return names[at];
    return NULL;
}

static void unknown_command(const struct command *commands, const char *group, const char *word,
                            char problem[PROBLEM_MAX])
{
    char words[WORDS_MAX][WORD_ROOM], longer[PROBLEM_MAX / 2];
    const char *names[WORDS_MAX] = {NULL};
    uint32_t count = list_words(commands, group, words);
    for (uint32_t i = 0; i < count; i++)
        names[i] = words[i];
    const char *meant = same_meaning(word, names, count);
    if (meant == NULL)
        meant = suggest(word, names, count);
    const char *front = group != NULL ? group : "", *space = group != NULL ? " " : "";
    if (group == NULL && strcmp(word, "context") == 0)
        snprintf(problem, PROBLEM_MAX,
                 "there is no command 'context'; --context NAME chooses a context of "
                 "~/.config/gemmd/config, which an editor writes ('gemmctl --help' says more)");
    else if (group == NULL && list_seconds(commands, word, longer, sizeof longer))
        snprintf(problem, PROBLEM_MAX, "there is no command '%s'; did you mean %s?", word, longer);
    else if (meant != NULL)
        snprintf(problem, PROBLEM_MAX, "there is no command '%s%s%.64s'; did you mean %s%s%s?",
                 front, space, word, front, space, meant);
    else
        snprintf(problem, PROBLEM_MAX,
                 "there is no command '%s%s%.64s'; 'gemmctl %s%s--help' lists the commands", front,
                 space, word, front, space);
}

static bool set_value(struct arguments *arguments, enum option_id id, const char *value,
                      char problem[PROBLEM_MAX])
{
    bool flag;
    if (options[id].argument == NULL && !number_flag(value, &flag)) {
        snprintf(problem, PROBLEM_MAX, "--%s takes no value", options[id].name);
        return false;
    }
    if (arguments->values[id] != NULL) {
        snprintf(problem, PROBLEM_MAX, "--%s is given twice", options[id].name);
        return false;
    }
    arguments->values[id] = value;
    return true;
}

/* Whether a part of a text of the table is about the command. Moves `*part` past the commands that
 * the part begins with. */
static bool take_commands(const struct command *commands, const struct command *command,
                          const char **part)
{
    bool about = false;
    for (const char *at = *part;; at += 2) {
        size_t length = 0;
        const struct command *named = commands;
        for (; named->name != NULL; named++) {
            length = strlen(named->name);
            if (strncmp(at, named->name, length) == 0 && strchr(":,", at[length]) != NULL)
                break;
        }
        if (named->name == NULL || at[length] == '\0')
            return true; /* the part begins with no commands */
        about = about || named == command;
        at += length;
        if (*at == ':') {
            *part = at + 2;
            return about;
        }
    }
}

const char *option_text(const struct command *commands, const struct command *command,
                        const char *text, char *out, size_t room)
{
    size_t length = 0;
    out[0] = '\0';
    for (const char *part = text; part != NULL;) {
        const char *end = strstr(part, "; "), *next = end != NULL ? end + 2 : NULL;
        if (take_commands(commands, command, &part))
            length +=
                (size_t)snprintf(out + length, room - length, "%s%.*s", length > 0 ? "; " : "",
                                 (int)(end != NULL ? (size_t)(end - part) : strlen(part)), part);
        part = next;
    }
    return out;
}

bool option_is_common(const struct option *option)
{
    return option->takers == FOR_ALL || option->takers == FOR_ASKING;
}

static void missing_value(const struct command *commands, const struct command *command,
                          enum option_id id, char problem[PROBLEM_MAX])
{
    char argument[128];
    option_text(commands, command, options[id].argument, argument, sizeof argument);
    snprintf(problem, PROBLEM_MAX, "--%s needs a value%s%s", options[id].name,
             *argument != '\0' ? ": " : "", argument);
}

/* Takes an option whose value is not in the option's own word: a flag, which has none, or an option
 * whose value is the word argv[*at]. Moves `*at` past the value. */
static bool take_following(struct arguments *arguments, enum option_id id, int argc, char *argv[],
                           int *at, const struct command *commands, char problem[PROBLEM_MAX])
{
    if (options[id].argument == NULL)
        return set_value(arguments, id, "1", problem);
    if (*at == argc) {
        missing_value(commands, arguments->command, id, problem);
        return false;
    }
    return set_value(arguments, id, argv[(*at)++], problem);
}

/* Takes "--NAME", "--NAME VALUE" or "--NAME=VALUE". Moves `*at` past the option and its value. */
static bool take_name(struct arguments *arguments, int argc, char *argv[], int *at,
                      const struct command *commands, char problem[PROBLEM_MAX])
{
    const char *word = argv[(*at)++];
    const size_t length = strcspn(word + 2, "=");
    const enum option_id id = find_name(word + 2, length);
    if (id == OPTION_COUNT) {
        unknown_option(word, arguments->command, problem);
        return false;
    }
    if (word[2 + length] == '=')
        return set_value(arguments, id, word + 2 + length + 1, problem);
    return take_following(arguments, id, argc, argv, at, commands, problem);
}

/* Takes a word of letters: "-q", "-m64", "-m 64", or several flags and then one option that may
 * have a value, as in "-qo FILE". Moves `*at` past the word and the value. */
static bool take_letters(struct arguments *arguments, int argc, char *argv[], int *at,
                         const struct command *commands, char problem[PROBLEM_MAX])
{
    for (const char *letter = argv[(*at)++] + 1; *letter != '\0'; letter++) {
        const enum option_id id = find_letter(*letter);
        if (id == OPTION_COUNT) {
            const char name[] = {'-', *letter, '\0'};
            unknown_option(name, arguments->command, problem);
            return false;
        }
        if (options[id].argument != NULL && letter[1] != '\0')
            return set_value(arguments, id, letter + 1, problem);
        if (!take_following(arguments, id, argc, argv, at, commands, problem))
            return false;
    }
    return true;
}

/* Makes the command, whose name is one word, the command whose second word is `word`. False: there
 * is no such command. */
static bool take_second_word(struct arguments *arguments, const struct command *commands,
                             const char *word)
{
    const struct command *longer =
        arguments->operand_count == 0 && strchr(arguments->command->name, ' ') == NULL
            ? find_command(commands, arguments->command->name, word)
            : NULL;
    if (longer != NULL)
        arguments->command = longer;
    return longer != NULL;
}

static bool take_word(struct arguments *arguments, char *word, const struct command *commands,
                      char problem[PROBLEM_MAX])
{
    if (arguments->command == NULL) {
        arguments->command = find_command(commands, arguments->group, word);
        bool opens =
            arguments->command == NULL && arguments->group == NULL && is_group(commands, word);
        if (opens)
            arguments->group = word;
        else if (arguments->command == NULL)
            unknown_command(commands, arguments->group, word, problem);
        return opens || arguments->command != NULL;
    }
    if (take_second_word(arguments, commands, word))
        return true;
    if (arguments->operand_count == arguments->command->operands_max) {
        snprintf(problem, PROBLEM_MAX, "the operand '%.64s' is one too many; usage: gemmctl %s%s%s",
                 word, arguments->command->name, *arguments->command->usage != '\0' ? " " : "",
                 arguments->command->usage);
        return false;
    }
    arguments->operands[arguments->operand_count++] = word;
    return true;
}

/* An option may come before its command, so the options are checked after the whole command line
 * has been read. */
static bool check_takers(const struct arguments *arguments, char problem[PROBLEM_MAX])
{
    for (int id = 0; id < OPTION_COUNT; id++) {
        if (arguments->values[id] == NULL || (options[id].takers & arguments->command->taker) != 0)
            continue;
        snprintf(problem, PROBLEM_MAX,
                 "--%s is not an option of %s; 'gemmctl %s --help' lists the options",
                 options[id].name, arguments->command->name, arguments->command->name);
        return false;
    }
    return true;
}

static bool parse_words(struct arguments *arguments, int argc, char *argv[],
                        const struct command *commands, char problem[PROBLEM_MAX])
{
    bool only_words = false;
    /* Operands come from further back in argv than they go to, so that none is overwritten. */
    *arguments = (struct arguments){.operands = &argv[argc > 0]};
    for (int at = 1; at < argc;) {
        char *word = argv[at];
        bool is_option = word[0] == '-' && word[1] != '\0' && !only_words;
        if (is_option && strcmp(word, "--") == 0) {
            only_words = true;
            at++;
        } else if (is_option) {
            bool taken = word[1] == '-'
                             ? take_name(arguments, argc, argv, &at, commands, problem)
                             : take_letters(arguments, argc, argv, &at, commands, problem);
            if (!taken)
                return false;
        } else {
            if (!take_word(arguments, word, commands, problem))
                return false;
            at++;
        }
    }
    arguments->operands[arguments->operand_count] = NULL;
    if (option_flag(arguments, OPTION_HELP) || option_flag(arguments, OPTION_VERSION))
        return true;
    const struct command *command = arguments->command;
    if (command == NULL) {
        bool open = arguments->group != NULL;
        snprintf(problem, PROBLEM_MAX,
                 "a command is missing%s%s; 'gemmctl %s%s--help' lists the commands",
                 open ? " after " : "", open ? arguments->group : "", open ? arguments->group : "",
                 open ? " " : "");
        return false;
    }
    if (arguments->operand_count < command->operands_min) {
        snprintf(problem, PROBLEM_MAX, "an operand is missing; usage: gemmctl %s %s", command->name,
                 command->usage);
        return false;
    }
    return check_takers(arguments, problem);
}

bool arguments_parse(struct arguments *arguments, int argc, char *argv[],
                     const struct command *commands, char problem[PROBLEM_MAX])
{
    if (parse_words(arguments, argc, argv, commands, problem))
        return true;
    /* The parser stopped at the mistake. A --json behind the mistake still asks for the error as
     * JSON. The parser leaves a NULL only in a command line that it has read to the end. */
    for (int at = 1; at < argc && argv[at] != NULL && strcmp(argv[at], "--") != 0; at++)
        if (strcmp(argv[at], "--json") == 0)
            arguments->values[OPTION_JSON] = "1";
    return false;
}

bool option_flag(const struct arguments *arguments, enum option_id id)
{
    return arguments->values[id] != NULL && strcmp(arguments->values[id], "1") == 0;
}

bool option_count(const struct arguments *arguments, enum option_id id, uint32_t otherwise,
                  uint32_t *out, char problem[PROBLEM_MAX])
{
    const char *text = arguments->values[id];
    uint64_t value = otherwise;
    if (text != NULL && (!number_u64(text, &value) || value > INT32_MAX)) {
        snprintf(problem, PROBLEM_MAX, "--%s is '%.64s'; it must be a whole number from 0 to %d",
                 options[id].name, text, INT32_MAX);
        return false;
    }
    *out = (uint32_t)value;
    return true;
}

bool option_time_ms(const struct arguments *arguments, enum option_id id, uint32_t otherwise,
                    uint32_t *out, char problem[PROBLEM_MAX])
{
    static const struct {
        const char *suffix;
        double ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"", 1000}};
    const char *text = arguments->values[id];
    char number[32];
    double value;
    *out = otherwise;
    if (text == NULL)
        return true;
    size_t length = strspn(text, "0123456789.");
    if (length > 0 && length < sizeof number) {
        memcpy(number, text, length);
        number[length] = '\0';
        for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
            if (strcmp(text + length, units[i].suffix) != 0 || !number_f64(number, &value) ||
                value * units[i].ms < 1 || value * units[i].ms > INT32_MAX)
                continue;
            *out = (uint32_t)(value * units[i].ms);
            return true;
        }
    }
    snprintf(problem, PROBLEM_MAX,
             "--%s is '%.64s'; it must be a time of at least 1ms, such as 30 (seconds), 30s, 500ms "
             "or 2m",
             options[id].name, text);
    return false;
}
