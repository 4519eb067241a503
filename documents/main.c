/*
 * gemmd-documents TEMPLATE TARGET [TEXTS] - the program of the build that writes a manual page or a
 * script of completions. TEXTS is client/man/options.roff, for the pages of gemmctl.
 *
 * Exit status: 0; 1 if a file cannot be read or written; 2 if the template or the texts are wrong.
 */
#include <stdlib.h>
#include <string.h>

#include "documents/document.h"

static const struct {
    const char *name;
    bool (*write)(struct document *document, const char *rest);
} directives[] = {
    {"gemmd-options", gemmd_options},
    {"gemmd-bash-values", gemmd_bash_values},
    {"gemmd-bash-options", gemmd_bash_options},
    {"gemmd-zsh-options", gemmd_zsh_options},
    {"gemmctl-options", gemmctl_options},
    {"gemmctl-bash-commands", gemmctl_bash_commands},
    {"gemmctl-bash-values", gemmctl_bash_values},
    {"gemmctl-bash-options", gemmctl_bash_options},
    {"gemmctl-bash-words", gemmctl_bash_words},
    {"gemmctl-zsh-common", gemmctl_zsh_common},
    {"gemmctl-zsh-commands", gemmctl_zsh_commands},
    {"gemmctl-zsh-options", gemmctl_zsh_options},
    {"gemmctl-zsh-words", gemmctl_zsh_words},
    {"gemmctl-fish-pairs", gemmctl_fish_pairs},
    {"gemmctl-fish-flags", gemmctl_fish_flags},
    {"gemmctl-fish-commands", gemmctl_fish_commands},
    {"gemmctl-fish-options", gemmctl_fish_options},
};

/* Returns the name of the line's directive; NULL: the line is a line of the document. */
static const char *directive_of(const char *line)
{
    static const char *const fronts[] = {".\\\" @", "# @"};
    line += strspn(line, " ");
    for (size_t i = 0; i < sizeof fronts / sizeof fronts[0]; i++)
        if (strncmp(line, fronts[i], strlen(fronts[i])) == 0)
            return line + strlen(fronts[i]);
    return NULL;
}

static bool write_directive(struct document *document, const char *name)
{
    const size_t length = strcspn(name, " ");
    for (size_t i = 0; i < sizeof directives / sizeof directives[0]; i++)
        if (strlen(directives[i].name) == length && memcmp(directives[i].name, name, length) == 0)
            return directives[i].write(document, name + length + strspn(name + length, " "));
    return document_fail(document, "there is no directive", name);
}

/* Writes the document from the template. */
static bool write_document(struct document *document, FILE *template)
{
    char line[1024];
    while (fgets(line, sizeof line, template) != NULL) {
        document->line++;
        const char *directive = directive_of(line);
        if (directive == NULL) {
            fputs(line, document->out);
            continue;
        }
        line[strcspn(line, "\n")] = '\0';
        if (!write_directive(document, directive))
            return false;
    }
    return gemmctl_check_page(document);
}

/* Returns the content of a file, which the caller frees; NULL: it cannot be read. */
static char *read_whole(const char *path)
{
    enum { ROOM = 1 << 16 };
    FILE *file = fopen(path, "r");
    char *text = file != NULL ? calloc(1, ROOM) : NULL;
    if (text != NULL && (fread(text, 1, ROOM - 1, file) == ROOM - 1 || ferror(file))) {
        free(text);
        text = NULL;
    }
    if (file != NULL)
        fclose(file);
    return text;
}

int main(int argc, char *argv[])
{
    int code = EXIT_FAILURE;
    char *texts = NULL;
    FILE *template = NULL;
    if (argc != 3 && argc != 4) {
        fputs("usage: gemmd-documents TEMPLATE TARGET [TEXTS]\n", stderr);
        return EXIT_FAILURE;
    }
    struct document document = {.template = argv[1]};
    if (argc == 4 && (document.texts = texts = read_whole(argv[3])) == NULL) {
        perror(argv[3]);
        goto done;
    }
    template = fopen(argv[1], "r");
    if (template == NULL) {
        perror(argv[1]);
        goto done;
    }
    document.out = fopen(argv[2], "w");
    if (document.out == NULL) {
        perror(argv[2]);
        goto done;
    }
    code = gemmctl_check_texts(&document) && write_document(&document, template) ? EXIT_SUCCESS : 2;
    const bool written = !ferror(document.out);
    if (fclose(document.out) != 0 || !written) {
        perror(argv[2]);
        code = EXIT_FAILURE;
    }
    if (code != EXIT_SUCCESS)
        remove(argv[2]);
done:
    if (template != NULL)
        fclose(template);
    free(texts);
    return code;
}
