/* gemmctl's manual pages say what the tables of commands and options say: gemmctl.1 every command
 * and the common options, and gemmctl-WORD.1 the commands whose first word is WORD with their own
 * options, each with the option's value. */
#include <check.h>
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/gemmctl/command.h"
#include "client/gemmctl/options.h"

enum { ENTRIES_MAX = 160, WORD_MAX = 16, TEXT_MAX = 65536 };

/* The head of a list's entry: "-o, --output FILE", in the section "Results and transport". */
struct entry {
    char section[64], head[128];
};

struct page {
    char *text; /* as the file has it */
    struct entry entries[ENTRIES_MAX];
    uint32_t count;
};

/* Returns a line of roff as a reader sees it: without the macro, font escapes and quotes. */
static void read_line(const char *line, size_t length, char *out, size_t room)
{
    size_t at = 0;
    const char *in = line, *end = line + length;
    if (in < end && *in == '.')
        in += strcspn(in, " \n");
    for (; in < end && at + 1 < room; in++) {
        const bool space = isspace((unsigned char)*in);
        if (in[0] == '\\' && in[1] == 'f')
            in += 2;
        else if (*in != '\\' && *in != '"' && !(space && (at == 0 || out[at - 1] == ' ')))
            out[at++] = *in;
    }
    while (at > 0 && out[at - 1] == ' ')
        at--;
    out[at] = '\0';
}

static void page_path(const char *word, char *out, size_t room)
{
    snprintf(out, room, "%s/client/man/gemmctl%s%s.1", GEMMD_SOURCE_DIR, *word != '\0' ? "-" : "",
             word);
}

/* Reads the page of the commands whose first word is `word`, or, if it is "", gemmctl.1. */
static struct page *page_read(const char *word)
{
    char path[512], section[64] = "";
    struct page *page = calloc(1, sizeof *page);
    page_path(word, path, sizeof path);
    FILE *file = fopen(path, "r");
    ck_assert_msg(file != NULL && page != NULL, "%s cannot be read", path);
    page->text = calloc(1, TEXT_MAX);
    ck_assert_ptr_nonnull(page->text);
    ck_assert_uint_lt(fread(page->text, 1, TEXT_MAX - 1, file), TEXT_MAX - 1);
    fclose(file);
    bool heads = false;
    for (const char *line = page->text; *line != '\0';) {
        const size_t length = strcspn(line, "\n");
        if (heads) {
            ck_assert_uint_lt(page->count, ENTRIES_MAX);
            struct entry *entry = &page->entries[page->count++];
            memcpy(entry->section, section, sizeof section);
            read_line(line, length, entry->head, sizeof entry->head);
        } else if (strncmp(line, ".SH", 3) == 0 || strncmp(line, ".SS", 3) == 0) {
            read_line(line, length, section, sizeof section);
        }
        heads = strncmp(line, ".TP\n", 4) == 0;
        line += length + (line[length] == '\n');
    }
    return page;
}

static void page_free(struct page *page)
{
    free(page->text);
    free(page);
}

/* The word of the command's page; "" for help, which gemmctl.1 describes. */
static const char *page_word(const struct command *command, char out[WORD_MAX])
{
    snprintf(out, WORD_MAX, "%.*s", (int)strcspn(command->name, " "), command->name);
    return strcmp(out, "help") == 0 ? "" : out;
}

/* Options that gemmctl.1 describes for all commands. */
static bool is_common(const struct option *option)
{
    return option->takers == FOR_ALL || option->takers == FOR_ASKING ||
           strcmp(option->name, "json") == 0;
}

/* Whether the section is about the command's options. */
static bool is_about(const char *section, const struct command *command)
{
    static const char front[] = "Options of ", all_but[] = "Options of all but ";
    if (strncmp(section, all_but, sizeof all_but - 1) == 0)
        return strcmp(section + sizeof all_but - 1, command->name) != 0;
    if (strncmp(section, front, sizeof front - 1) == 0)
        return strcmp(section + sizeof front - 1, command->name) == 0;
    return true;
}

/* Whether the head is the option's with the option's value, as `command` knows them. */
static bool is_head(const char *head, const struct option *option, const struct command *command)
{
    char want[128], text[96] = "";
    if (option->argument != NULL)
        option_text(commands, command, option->argument, text, sizeof text);
    snprintf(want, sizeof want, "--%s%s%s", option->name, *text != '\0' ? " " : "", text);
    const char *found = strstr(head, "--");
    if (found == NULL || strcmp(found, want) != 0)
        return false;
    if (option->letter == 0)
        return found == head;
    snprintf(want, sizeof want, "-%c , --", option->letter);
    return strncmp(head, want, strlen(want)) == 0;
}

static uint32_t count_heads(const struct page *page, const struct option *option,
                            const struct command *command)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < page->count; i++)
        count += (command == NULL || is_about(page->entries[i].section, command)) &&
                 is_head(page->entries[i].head, option, command);
    return count;
}

START_TEST(page_has_each_option_of_the_command_once)
{
    const struct command *command = &commands[_i];
    char word[WORD_MAX], usage[64];
    const bool is_help = strcmp(command->name, "help") == 0;
    struct page *page = page_read(page_word(command, word));
    for (int id = 0; id < OPTION_COUNT; id++)
        if ((options[id].takers & command->taker) != 0 && !is_common(&options[id]))
            ck_assert_msg(count_heads(page, &options[id], command) == 1,
                          "the page of %s describes --%s %u times", command->name, options[id].name,
                          count_heads(page, &options[id], command));
    snprintf(usage, sizeof usage, "\n.B gemmctl %s\n", command->name);
    ck_assert_msg(is_help || strstr(page->text, usage) != NULL,
                  "the page of %s lacks the command's synopsis", command->name);
    page_free(page);
}
END_TEST

START_TEST(page_describes_no_option_more)
{
    char word[WORD_MAX], other[WORD_MAX];
    struct page *page = page_read(page_word(&commands[_i], word));
    if (strcmp(page_word(&commands[_i], word), "") == 0) {
        page_free(page);
        return;
    }
    for (uint32_t i = 0; i < page->count; i++) {
        const struct entry *entry = &page->entries[i];
        bool known = strstr(entry->head, "--") == NULL;
        for (const struct command *command = commands; command->name != NULL; command++)
            for (int id = 0; id < OPTION_COUNT; id++)
                known = known || (strcmp(page_word(command, other), word) == 0 &&
                                  (options[id].takers & command->taker) != 0 &&
                                  !is_common(&options[id]) && is_about(entry->section, command) &&
                                  is_head(entry->head, &options[id], command));
        ck_assert_msg(known, "the page of %s describes '%s' in '%s'", word, entry->head,
                      entry->section);
    }
    page_free(page);
}
END_TEST

START_TEST(overview_has_the_common_options)
{
    struct page *page = page_read("");
    uint32_t common = 0, described = 0;
    for (int id = 0; id < OPTION_COUNT; id++) {
        if (!is_common(&options[id]))
            continue;
        common++;
        ck_assert_msg(count_heads(page, &options[id], NULL) == 1,
                      "gemmctl.1 describes --%s %u times", options[id].name,
                      count_heads(page, &options[id], NULL));
    }
    for (uint32_t i = 0; i < page->count; i++)
        described += strstr(page->entries[i].head, "--") != NULL;
    ck_assert_uint_eq(described, common);
    page_free(page);
}
END_TEST

/* Writes the reference to a page, as roff has it: ".BR gemmctl\-gemm (1)". */
static void page_reference(const char *word, char *out, size_t room)
{
    snprintf(out, room, ".BR gemmctl\\-%s (1)", word);
}

START_TEST(overview_lists_each_command_and_its_page)
{
    struct page *page = page_read("");
    for (const struct command *command = commands; command->name != NULL; command++) {
        char name[WORD_MAX], reference[64];
        const char *word = page_word(command, name);
        uint32_t listed = 0;
        for (uint32_t i = 0; i < page->count; i++) {
            const struct entry *entry = &page->entries[i];
            const char *at = strstr(entry->head, command->name);
            const size_t length = strlen(command->name);
            for (; at != NULL; at = strstr(at + 1, command->name))
                listed += (at == entry->head || at[-1] == ' ') &&
                          (at[length] == '\0' || strchr(" ,", at[length]) != NULL);
        }
        ck_assert_msg(listed > 0, "gemmctl.1 does not list %s", command->name);
        page_reference(word, reference, sizeof reference);
        if (*word != '\0')
            ck_assert_msg(strstr(page->text, reference) != NULL, "gemmctl.1 lacks %s", reference);
    }
    page_free(page);
}
END_TEST

/* Every page belongs to a command, refers to gemmctl(1), and refers to pages that there are. */
START_TEST(pages_refer_to_pages)
{
    static const char front[] = "gemmctl\\-";
    DIR *folder = opendir(GEMMD_SOURCE_DIR "/client/man");
    uint32_t pages = 0;
    ck_assert_ptr_nonnull(folder);
    for (struct dirent *file = readdir(folder); file != NULL; file = readdir(folder)) {
        char word[WORD_MAX] = "", name[WORD_MAX], path[512];
        if (strncmp(file->d_name, "gemmctl", 7) != 0)
            continue;
        sscanf(file->d_name, "gemmctl-%15[a-z].1", word);
        bool known = *word == '\0';
        for (const struct command *command = commands; command->name != NULL; command++)
            known = known || strcmp(page_word(command, name), word) == 0;
        ck_assert_msg(known, "%s is the page of no command", file->d_name);
        struct page *page = page_read(word);
        const char *see = strstr(page->text, ".SH SEE ALSO");
        ck_assert_ptr_nonnull(see);
        ck_assert_msg(*word == '\0' || strstr(see, ".BR gemmctl (1)") != NULL,
                      "%s does not refer to gemmctl(1)", file->d_name);
        for (const char *at = strstr(page->text, front); at != NULL; at = strstr(at + 1, front)) {
            char to[WORD_MAX];
            snprintf(to, sizeof to, "%.*s",
                     (int)strspn(at + sizeof front - 1, "abcdefghijklmnopqrstuvwxyz"),
                     at + sizeof front - 1);
            page_path(to, path, sizeof path);
            FILE *other = fopen(path, "r");
            ck_assert_msg(other != NULL, "%s refers to gemmctl-%s(1), which is not there",
                          file->d_name, to);
            fclose(other);
        }
        page_free(page);
        pages++;
    }
    closedir(folder);
    ck_assert_uint_gt(pages, 1);
}
END_TEST

/* An option that a page names in passing is an option of gemmctl too. */
START_TEST(pages_name_no_option_that_is_not_there)
{
    char word[WORD_MAX];
    struct page *page = page_read(page_word(&commands[_i], word));
    static const char front[] = "\\-\\-";
    for (const char *at = strstr(page->text, front); at != NULL; at = strstr(at + 1, front)) {
        char name[64];
        size_t length = 0;
        const char *from = at + sizeof front - 1;
        for (; length < sizeof name - 1 &&
               (isalnum((unsigned char)*from) || *from == '_' || strncmp(from, "\\-", 2) == 0);
             from++) {
            from += *from == '\\';
            name[length++] = *from;
        }
        name[length] = '\0';
        int id = 0;
        while (id < OPTION_COUNT && strcmp(options[id].name, name) != 0)
            id++;
        ck_assert_msg(id < OPTION_COUNT, "the page of %s names --%s, which gemmctl has not",
                      commands[_i].name, name);
    }
    page_free(page);
}
END_TEST

int main(void)
{
    int count = 0;
    while (commands[count].name != NULL)
        count++;
    Suite *suite = suite_create("gemmctl_pages");
    TCase *tcase = tcase_create("gemmctl_pages");
    tcase_add_loop_test(tcase, page_has_each_option_of_the_command_once, 0, count);
    tcase_add_loop_test(tcase, page_describes_no_option_more, 0, count);
    tcase_add_test(tcase, overview_has_the_common_options);
    tcase_add_test(tcase, overview_lists_each_command_and_its_page);
    tcase_add_test(tcase, pages_refer_to_pages);
    tcase_add_loop_test(tcase, pages_name_no_option_that_is_not_there, 0, count);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
