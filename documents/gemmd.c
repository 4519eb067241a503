/* The manual page and the completions of gemmd, from the table of the daemon's options. */
#include <string.h>

#include "documents/document.h"
#include "server/config/config_option.h"

static bool takes_file(const struct config_option *option)
{
    return option->placeholder != NULL && strcmp(option->placeholder, "FILE") == 0;
}

static void page_option(FILE *out, const struct config_option *option)
{
    char name[CONFIG_TEXT_MAX];
    const size_t length = (size_t)snprintf(name, sizeof name, "--%s", option->name);
    fputs(".TP\n", out);
    roff_text(out, name, length);
    if (option->kind == CONFIG_KIND_SWITCH) {
        fputs(", ", out);
        roff_text(out, name, (size_t)snprintf(name, sizeof name, "--no-%s", option->name));
    } else if (option->placeholder != NULL) {
        fputs(" \\fI", out);
        roff_text(out, option->placeholder, strlen(option->placeholder));
        fputs("\\fR", out);
    }
    fputc('\n', out);
    for (const char *sentence = option->help, *end; sentence != NULL;
         sentence = end != NULL ? end + 2 : NULL) {
        end = strstr(sentence, ". ");
        roff_text(out, sentence, end != NULL ? (size_t)(end - sentence) + 1 : strlen(sentence));
        fputc('\n', out);
    }
    if (option->standard != NULL) {
        fputs("Default: ", out);
        roff_text(out, option->standard, strlen(option->standard));
        fputs(".\n", out);
    }
    if (option->reloadable)
        fputs(CONFIG_RELOADABLE_TEXT "\n", out);
}

bool gemmd_options(struct document *document, const char *rest)
{
    (void)rest;
    for (int group = 0; group < CONFIG_GROUP_COUNT; group++) {
        fprintf(document->out, ".SS %s\n", config_group_title((enum config_group)group));
        for (uint32_t i = 0; i < config_option_count; i++)
            if (config_options[i].group == (enum config_group)group)
                page_option(document->out, &config_options[i]);
    }
    return true;
}

/* Prints a clause of `case` for each option with choices, one for all that take a file, and one for
 * all others that take a value. */
bool gemmd_bash_values(struct document *document, const char *rest)
{
    FILE *out = document->out;
    const char *bar = "    ";
    (void)rest;
    for (uint32_t i = 0; i < config_option_count; i++) {
        const struct config_option *option = &config_options[i];
        if (option->choices == NULL)
            continue;
        fprintf(out, "    --%s) words='", option->name);
        for (const char *const *choice = option->choices; *choice != NULL; choice++)
            fprintf(out, "%s%s", choice == option->choices ? "" : " ", *choice);
        fputs("' ;;\n", out);
    }
    for (int files = 1; files >= 0; files--, bar = "    ") {
        for (uint32_t i = 0; i < config_option_count; i++) {
            const struct config_option *option = &config_options[i];
            if (option->placeholder == NULL || option->choices != NULL ||
                takes_file(option) != (files == 1))
                continue;
            fprintf(out, "%s--%s", bar, option->name);
            bar = " | ";
        }
        fprintf(out, ") %s;;\n", files == 1 ? "files=yes " : "");
    }
    return true;
}

bool gemmd_bash_options(struct document *document, const char *rest)
{
    (void)rest;
    fputs("    local options='", document->out);
    for (uint32_t i = 0; i < config_option_count; i++) {
        const struct config_option *option = &config_options[i];
        fprintf(document->out, "%s--%s", i > 0 ? " " : "", option->name);
        if (option->kind == CONFIG_KIND_SWITCH)
            fprintf(document->out, " --no-%s", option->name);
    }
    fputs("'\n", document->out);
    return true;
}

/* What comes first in the help: up to a colon, a semicolon or the end of the sentence. */
static size_t summary_length(const char *help)
{
    size_t length = strcspn(help, ":;.");
    while (help[length] != '\0' && strchr(" ", help[length + 1]) == NULL)
        length += 1 + strcspn(help + length + 1, ":;.");
    return length;
}

static void zsh_option(FILE *out, const struct config_option *option)
{
    if (option->kind == CONFIG_KIND_SWITCH)
        fprintf(out, "    '(--no-%s)--%s[", option->name, option->name);
    else
        fprintf(out, "    '%s--%s%s[", option->kind == CONFIG_KIND_ADDRESSES ? "*" : "",
                option->name, option->placeholder != NULL ? "=" : "");
    shell_quote(out, option->help, summary_length(option->help), "\\]");
    fputc(']', out);
    if (option->placeholder != NULL)
        fprintf(out, ":%s:%s", option->placeholder, takes_file(option) ? "_files" : "");
    for (const char *const *choice = option->choices; choice != NULL && *choice != NULL; choice++)
        fprintf(out, "%c%s", choice == option->choices ? '(' : ' ', *choice);
    fputs(option->choices != NULL ? ")'" : "'", out);
    if (option->kind == CONFIG_KIND_SWITCH)
        fprintf(out, " \\\n    '(--%s)--no-%s[turn --%s off]'", option->name, option->name,
                option->name);
}

bool gemmd_zsh_options(struct document *document, const char *rest)
{
    (void)rest;
    for (uint32_t i = 0; i < config_option_count; i++) {
        zsh_option(document->out, &config_options[i]);
        fputs(i + 1 < config_option_count ? " \\\n" : "\n", document->out);
    }
    return true;
}
