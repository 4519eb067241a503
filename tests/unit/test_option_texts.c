/* The man page and the completions say what the option table says: every option, its value, its
 * help, its default and choices, and nothing else. */
#include <check.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/config/config_option.h"
#include "tests/unit/command.h"

#define MAN_PAGE GEMMD_SOURCE_DIR "/server/gemmd.8"
#define BASH GEMMD_SOURCE_DIR "/deploy/completion/gemmd.bash"
#define ZSH GEMMD_SOURCE_DIR "/deploy/completion/_gemmd"

static const char *const files[] = {MAN_PAGE, BASH, ZSH};

static char *read_whole(const char *path)
{
    FILE *file = fopen(path, "r");
    ck_assert_msg(file, "%s can't be read", path);
    char *text = calloc(1, 1 << 17);
    ck_assert_uint_lt(fread(text, 1, (1 << 17) - 1, file), (1 << 17) - 1);
    fclose(file);
    return text;
}

/* Roff as a reader sees it: without font escapes and macros, spaces and line ends alike. */
static void strip_roff(char *text)
{
    char *out = text;
    bool line_start = true, space = false;
    for (const char *in = text; *in; in++) {
        if (line_start && *in == '.') {
            in += 1 + strspn(in + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
            if (!*in)
                break;
        }
        line_start = *in == '\n';
        if (isspace((unsigned char)*in)) {
            space = true;
            continue;
        }
        if (space)
            *out++ = ' ';
        space = false;
        if (in[0] == '\\' && in[1] == 'f')
            in += 2;
        else if (in[0] == '\\' && in[1] == '-')
            *out++ = *++in;
        else
            *out++ = *in;
    }
    *out = '\0';
}

START_TEST(man_page_describes_every_option)
{
    const struct config_option *option = &config_options[_i];
    char entry[1024], head[256];
    if (option->kind == CONFIG_KIND_SWITCH)
        snprintf(head, sizeof(head), "--%s, --no-%s", option->name, option->name);
    else
        snprintf(head, sizeof(head), "--%s%s%s", option->name, option->placeholder ? " " : "",
                 option->placeholder ? option->placeholder : "");
    snprintf(entry, sizeof(entry), "%s %s%s%s%s%s", head, option->help,
             option->standard ? " Default: " : "", option->standard ? option->standard : "",
             option->standard ? "." : "", option->reloadable ? " " CONFIG_RELOADABLE_TEXT : "");
    char *text = read_whole(MAN_PAGE);
    strip_roff(text);
    ck_assert_msg(strstr(text, entry), "the man page lacks: %s", entry);
    free(text);
}
END_TEST

START_TEST(completions_offer_every_option_and_choice)
{
    const struct config_option *option = &config_options[_i];
    for (size_t i = 1; i < sizeof(files) / sizeof(files[0]); i++) {
        char *text = read_whole(files[i]), flag[128];
        size_t length = (size_t)snprintf(flag, sizeof(flag), "--%s", option->name);
        bool found = false;
        for (const char *at = text; (at = strstr(at, flag)) && !found; at++)
            found = at[length] != '-' && !isalnum((unsigned char)at[length]);
        ck_assert_msg(found, "%s lacks %s", files[i], flag);

        char choices[128] = "";
        size_t used = 0;
        for (uint32_t c = 0; option->choices && option->choices[c]; c++)
            used += (size_t)snprintf(choices + used, sizeof(choices) - used, "%s%s", c ? " " : "",
                                     option->choices[c]);
        ck_assert_msg(strstr(text, choices), "%s lacks the choices %s", files[i], choices);
        free(text);
    }
}
END_TEST

START_TEST(no_file_names_an_option_that_is_not_there)
{
    char *text = read_whole(files[_i]);
    strip_roff(text);
    uint32_t seen = 0;
    for (const char *at = text; (at = strstr(at, "--")); at += 2) {
        size_t length = strspn(at + 2, "abcdefghijklmnopqrstuvwxyz-");
        const char *name = at + 2;
        if (length == 0 || at[-1] == '-')
            continue;
        bool known = config_option_find(name, length) != NULL;
        if (!known && strncmp(name, "no-", 3) == 0)
            known = config_option_find(name + 3, length - 3) != NULL;
        /* The man page's example is a curl command. */
        known = known || (_i == 0 && length == 11 && strncmp(name, "data-binary", length) == 0);
        ck_assert_msg(known, "%s names --%.*s, which is no option", files[_i], (int)length, name);
        seen++;
    }
    ck_assert_uint_ge(seen, config_option_count);
    free(text);
}
END_TEST

static const struct {
    const char *words, *offered;
} completions[] = {
    {"gemmd --back", "--backend"},        {"gemmd --backend c", "cuda cpu"},
    {"gemmd --backend = c", "cuda cpu"},  {"gemmd --log-format =", "json text auto"},
    {"gemmd --no-ac", "--no-access-log"}, {"gemmd --streams 1", ""},
};

START_TEST(bash_completes)
{
    char script[512], offered[256];
    snprintf(script, sizeof(script),
             "source \"$0\"; COMP_WORDS=(%s); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _gemmd; "
             "echo \"${COMPREPLY[*]}\"",
             completions[_i].words);
    const char *const bash[] = {"bash", "-c", script, files[1], NULL};
    ck_assert_int_eq(command_run(bash, -1, offered, sizeof(offered)), 0);
    offered[strcspn(offered, "\n")] = '\0';
    ck_assert_str_eq(offered, completions[_i].offered);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("option_texts");
    TCase *tests = tcase_create("option_texts");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, man_page_describes_every_option, 0, (int)config_option_count);
    tcase_add_loop_test(tests, completions_offer_every_option_and_choice, 0,
                        (int)config_option_count);
    tcase_add_loop_test(tests, no_file_names_an_option_that_is_not_there, 0, 3);
    tcase_add_loop_test(tests, bash_completes, 0,
                        (int)(sizeof(completions) / sizeof(completions[0])));
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
