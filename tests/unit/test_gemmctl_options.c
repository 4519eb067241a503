/* gemmctl's command line and its table of options. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/gemmctl/command.h"
#include "client/gemmctl/options.h"
#include "proto/attention_request.h"
#include "proto/conv2d_request.h"
#include "proto/dtype.h"
#include "proto/experts_request.h"
#include "proto/reduce_request.h"
#include "proto/softmax_request.h"
#include "proto/tensor_request.h"

enum { WORDS_MAX = 20 };

/* Parses a line of words that spaces separate. */
static bool parse(struct arguments *arguments, const char *line, char problem[PROBLEM_MAX])
{
    static char copy[512];
    static char *words[WORDS_MAX];
    int count = 1;
    memset(words, 0, sizeof words);
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " ")) {
        ck_assert_int_lt(count, WORDS_MAX);
        words[count++] = word;
    }
    problem[0] = '\0';
    return arguments_parse(arguments, count, words, commands, problem);
}

START_TEST(takes_options_in_every_form)
{
    struct arguments arguments;
    char problem[PROBLEM_MAX];
    ck_assert_msg(parse(&arguments, "--url U gemm A -m64 --n=3 -k 5 - --transa --alpha -1 -- -B",
                        problem) == false,
                  "three operands were taken");
    ck_assert_msg(
        parse(&arguments, "--url U gemm - -m64 --n=3 -k 5 --transa --alpha -1 -- -B", problem),
        "%s", problem);
    ck_assert_str_eq(arguments.command->name, "gemm");
    ck_assert_str_eq(arguments.values[OPTION_URL], "U");
    ck_assert_str_eq(arguments.values[OPTION_M], "64");
    ck_assert_str_eq(arguments.values[OPTION_N], "3");
    ck_assert_str_eq(arguments.values[OPTION_K], "5");
    ck_assert_str_eq(arguments.values[OPTION_ALPHA], "-1");
    ck_assert(option_flag(&arguments, OPTION_TRANSA));
    ck_assert(!option_flag(&arguments, OPTION_TRANSB));
    ck_assert_uint_eq(arguments.operand_count, 2);
    ck_assert_str_eq(arguments.operands[0], "-");
    ck_assert_str_eq(arguments.operands[1], "-B");
}
END_TEST

START_TEST(takes_several_letters_in_one_word)
{
    struct arguments arguments;
    char problem[PROBLEM_MAX];
    ck_assert_msg(parse(&arguments, "gemm A B -qo C -m64", problem), "%s", problem);
    ck_assert(option_flag(&arguments, OPTION_QUIET));
    ck_assert_str_eq(arguments.values[OPTION_OUTPUT], "C");
    ck_assert_str_eq(arguments.values[OPTION_M], "64");
    ck_assert_msg(parse(&arguments, "gemm A B -qoC", problem), "%s", problem);
    ck_assert_str_eq(arguments.values[OPTION_OUTPUT], "C");
    ck_assert_msg(parse(&arguments, "gemm A -qh", problem), "%s", problem);
    ck_assert(option_flag(&arguments, OPTION_HELP));
}
END_TEST

static const struct {
    const char *line;
    bool json;
} json_mistakes[] = {
    {"gem A B --json", true}, {"--json gem A B", true},      {"info --m 3 --json", true},
    {"gem A B", false},       {"gemm A B C D --json", true}, {"gem -- --json", false},
};

START_TEST(finds_json_behind_a_mistake)
{
    struct arguments arguments;
    char problem[PROBLEM_MAX];
    ck_assert(!parse(&arguments, json_mistakes[_i].line, problem));
    ck_assert_int_eq(option_flag(&arguments, OPTION_JSON), json_mistakes[_i].json);
}
END_TEST

static const struct {
    const char *line, *says;
} mistakes[] = {
    {"gemm A B -qz", "no option '-z'"},
    {"gemm A B -qo", "--output needs a value"},
    {"gemm A B -qq", "--quiet is given twice"},
    {"", "a command is missing"},
    {"gem A B", "did you mean gemm?"},
    {"zzz", "gemmctl --help"},
    {"gemm A B C", "the operand 'C' is one too many"},
    {"gemm A B --ouptut C", "did you mean --output?"},
    {"gemm A B --zzz", "no option '--zzz'"},
    {"gemm A B -z", "no option '-z'"},
    {"gemm A B -o", "--output needs a value"},
    {"gemm A B -o C -o D", "--output is given twice"},
    {"gemm A B --json=yes", "--json takes no value"},
    {"tensor rm", "an operand is missing"},
    {"bench C", "the operand 'C' is one too many"},
    {"bench attention --m 3", "--m is not an option of bench attention"},
    {"bench --heads 3", "--heads is not an option of bench"},
    {"bench ladder ladder", "one too many"},
    {"help --url U", "--url is not an option of help"},
    {"job sl", "did you mean job ls?"},
    {"info --m 3", "--m is not an option of info"},
    {"--transa info", "--transa is not an option of info"},
    {"gemm A B --ur U", "did you mean --url?"},
    {"gemm A B --=3", "no option"},
    {"conv X W Y", "the operand 'Y' is one too many"},
    {"conv X W --causal", "--causal is not an option of conv"},
    {"reduce X --log", "--log is not an option of reduce"},
    {"softmax X --axis 1", "--axis is not an option of softmax"},
    {"conv X W --layout", "--layout needs a value: nchw|nhwc"},
    {"attention Q --layout", "--layout needs a value: bhsd|bshd"},
    {"softmax X --scale", "--scale needs a value: NUMBER"},
    {"tensor put W W.npy --scale", "--scale needs a value: FILE"},
    {"--layout", "--layout needs a value"},
};

START_TEST(says_what_is_wrong)
{
    struct arguments arguments;
    char problem[PROBLEM_MAX];
    ck_assert(!parse(&arguments, mistakes[_i].line, problem));
    ck_assert_msg(strstr(problem, mistakes[_i].says) != NULL, "%s", problem);
}
END_TEST

START_TEST(takes_commands_of_one_word_and_of_two)
{
    struct arguments arguments;
    char problem[PROBLEM_MAX];
    ck_assert_msg(parse(&arguments, "--json bench -m 3", problem), "%s", problem);
    ck_assert_str_eq(arguments.command->name, "bench");
    ck_assert_msg(parse(&arguments, "bench --heads 3 attention --sq 1", problem), "%s", problem);
    ck_assert_str_eq(arguments.command->name, "bench attention");
    ck_assert_uint_eq(arguments.operand_count, 0);
    ck_assert_ptr_null(arguments.operands[0]);
    ck_assert_msg(parse(&arguments, "tensor rm a -q b c d e f g", problem), "%s", problem);
    ck_assert_str_eq(arguments.command->name, "tensor rm");
    ck_assert_uint_eq(arguments.operand_count, 7);
    ck_assert_str_eq(arguments.operands[6], "g");
    ck_assert_ptr_null(arguments.operands[7]);
    ck_assert_msg(parse(&arguments, "gemm bench attention", problem), "%s", problem);
    ck_assert_str_eq(arguments.command->name, "gemm");
    ck_assert_uint_eq(arguments.operand_count, 2);
}
END_TEST

START_TEST(helps_whatever_else_is_missing)
{
    struct arguments arguments;
    char problem[PROBLEM_MAX];
    ck_assert(parse(&arguments, "--help", problem));
    ck_assert(parse(&arguments, "gemm -h", problem));
    ck_assert(parse(&arguments, "--version", problem));
}
END_TEST

static const struct {
    const char *text;
    uint32_t ms; /* 0: refused */
} times[] = {{"30", 30000},  {"30s", 30000}, {"1.5s", 1500}, {"500ms", 500},
             {"2m", 120000}, {"0.001", 1},   {"0", 0},       {"-1", 0},
             {"", 0},        {"1h", 0},      {"1 s", 0},     {"ms", 0},
             {"1..5s", 0},   {"1e3", 0},     {"inf", 0},     {"99999999999", 0}};

START_TEST(reads_times)
{
    struct arguments arguments = {0};
    char problem[PROBLEM_MAX];
    uint32_t ms = 0;
    arguments.values[OPTION_TIMEOUT] = times[_i].text;
    bool right = option_time_ms(&arguments, OPTION_TIMEOUT, 7, &ms, problem);
    ck_assert_msg(right == (times[_i].ms != 0), "%s", times[_i].text);
    if (right)
        ck_assert_uint_eq(ms, times[_i].ms);
}
END_TEST

START_TEST(suggests_what_is_near)
{
    static const char *const names[] = {"gemm", "bench", "info"};
    ck_assert_pstr_eq(suggest("gmem", names, 3), "gemm");
    ck_assert_pstr_eq(suggest("bensch", names, 3), "bench");
    ck_assert_pstr_eq(suggest("inof", names, 3), "info");
    ck_assert_ptr_null(suggest("cat", names, 3));
    ck_assert_ptr_null(suggest("", names, 3));
    ck_assert_ptr_null(suggest("a-word-that-is-longer-than-any-name-of-an-option", names, 3));
}
END_TEST

static const struct {
    const char *command, *text, *parts;
} texts[] = {
    {"gemm", "rows of A", "rows of A"},
    {"gemm", "first; second: third", "first; second: third"},
    {"gemm", "gemm: of A; bench: of B; of both", "of A; of both"},
    {"bench", "gemm, bench: of A; bench conv: of X", "of A"},
    {"bench conv", "gemm, bench: of A; bench conv: of X", "of X"},
    {"bench conv", "bench, bench conv, conv: 64", "64"},
    {"info", "gemm, bench: of A", ""},
    {"info", "gemm, which is a command: yes", "gemm, which is a command: yes"},
    {"", "gemm: of A; of both", "of both"},
    {"gemm", NULL, ""},
};

START_TEST(takes_the_parts_of_a_command)
{
    const struct command *command = commands;
    char out[OPTION_TEXT_MAX];
    while (command->name != NULL && strcmp(command->name, texts[_i].command) != 0)
        command++;
    option_text(commands, command->name != NULL ? command : NULL, texts[_i].text, out, sizeof out);
    ck_assert_str_eq(out, texts[_i].parts);
}
END_TEST

/* A text that does not fit would be cut. */
START_TEST(texts_have_room)
{
    for (const struct command *command = commands; command->name != NULL; command++)
        for (int id = 0; id < OPTION_COUNT; id++) {
            const char *const all[] = {options[id].argument, options[id].help,
                                       options[id].standard};
            for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
                char out[8 * OPTION_TEXT_MAX];
                option_text(commands, command, all[i], out, sizeof out);
                ck_assert_uint_lt(strlen(out), OPTION_TEXT_MAX);
            }
        }
}
END_TEST

static const struct {
    uint64_t takers;
    const struct parameter_table *table;
} tables[] = {
    {FOR_PRODUCTS, &gemm_parameter_table},     {FOR_ATTENDING, &attention_parameter_table},
    {FOR_CONVS, &conv2d_parameter_table},      {FOR_REDUCES, &reduce_parameter_table},
    {FOR_SOFTMAXES, &softmax_parameter_table}, {FOR_TENSOR_PUT, &tensor_parameter_table},
    {FOR_MIXTURES, &experts_parameter_table},
};
enum { TABLES = sizeof tables / sizeof tables[0] };

/* Compares the values that a command's option lists with those of the parameter. The option lists
 * the types of all operations. */
/* Whether a list of values, "f64|f32", has a name. */
static bool lists_value(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = list; at != NULL; at = strchr(at, '|')) {
        at += *at == '|';
        if (strncmp(at, name, length) == 0 && (at[length] == '|' || at[length] == '\0'))
            return true;
    }
    return false;
}

static void compare_values(const struct command *command, const struct option *option,
                           const struct parameter *parameter)
{
    const struct parameter_values *values = parameter->values;
    char listed[256], taken[256] = "";
    option_text(commands, command, option->argument, listed, sizeof listed);
    for (uint32_t i = 0; values->choices != NULL && values->choices[i] != NULL; i++) {
        strcat(taken, i > 0 ? "|" : "");
        strcat(taken, values->choices[i]);
    }
    if (values->choices != NULL)
        ck_assert_msg(strcmp(listed, taken) == 0, "--%s of %s lists %s; the daemon takes %s",
                      option->name, command->name, listed, taken);
    for (uint32_t i = 0; i < GEMMD_DTYPE_COUNT; i++)
        if (parameter_takes_dtype(values, (enum gemmd_dtype)i))
            ck_assert_msg(lists_value(listed, dtype_name((enum gemmd_dtype)i)),
                          "--%s of %s lacks %s, which the daemon takes", option->name,
                          command->name, dtype_name((enum gemmd_dtype)i));
}

static void compare_with_table(const struct command *command, const struct parameter_table *table)
{
    for (uint32_t entry = 0; entry < table->count; entry++) {
        for (int id = 0; id < OPTION_COUNT; id++) {
            char name[64];
            snprintf(name, sizeof name, "%s", options[id].name);
            for (char *dash = strchr(name, '-'); dash != NULL; dash = strchr(dash, '-'))
                *dash = '_';
            if (options[id].parameter && (options[id].takers & command->taker) != 0 &&
                strcmp(name, table->entries[entry].name) == 0)
                compare_values(command, &options[id], &table->entries[entry]);
        }
    }
}

/* What an option can be follows from proto/ for the parser, and is listed here for the help. */
START_TEST(options_list_the_values_of_their_parameters)
{
    uint64_t seen = 0;
    for (const struct command *command = commands; command->name != NULL; command++)
        for (int i = 0; i < TABLES; i++)
            if ((tables[i].takers & command->taker) != 0) {
                compare_with_table(command, tables[i].table);
                seen |= command->taker;
            }
    ck_assert_uint_eq(seen, FOR_COMPUTED | FOR_TENSOR_PUT);
}
END_TEST

START_TEST(has_no_letter_twice)
{
    for (int i = 0; i < OPTION_COUNT; i++)
        for (int j = 0; j < i; j++) {
            ck_assert_str_ne(options[i].name, options[j].name);
            ck_assert(options[i].letter == 0 || options[i].letter != options[j].letter);
        }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gemmctl_options");
    TCase *tcase = tcase_create("gemmctl_options");
    tcase_add_test(tcase, takes_options_in_every_form);
    tcase_add_test(tcase, takes_several_letters_in_one_word);
    tcase_add_loop_test(tcase, finds_json_behind_a_mistake, 0,
                        sizeof json_mistakes / sizeof json_mistakes[0]);
    tcase_add_loop_test(tcase, says_what_is_wrong, 0, sizeof mistakes / sizeof mistakes[0]);
    tcase_add_test(tcase, takes_commands_of_one_word_and_of_two);
    tcase_add_test(tcase, helps_whatever_else_is_missing);
    tcase_add_loop_test(tcase, reads_times, 0, sizeof times / sizeof times[0]);
    tcase_add_test(tcase, suggests_what_is_near);
    tcase_add_loop_test(tcase, takes_the_parts_of_a_command, 0, sizeof texts / sizeof texts[0]);
    tcase_add_test(tcase, texts_have_room);
    tcase_add_test(tcase, options_list_the_values_of_their_parameters);
    tcase_add_test(tcase, has_no_letter_twice);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
