/*
 * document.h - a manual page or a script of completions that is made from a template.
 *
 * A template is the document with directives, each in a line of its own that is a comment of the
 * template's language: '.\" @NAME ...' or '# @NAME ...'. A directive stands for what the tables of
 * options say. One thread.
 */
#ifndef DOCUMENTS_DOCUMENT_H
#define DOCUMENTS_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "client/gemmctl/options.h"

struct document {
    const char *template; /* path */
    const char *texts;    /* content of client/man/options.roff; NULL: the template needs none */
    FILE *out;
    unsigned line; /* of the template */
    /* The commands whose option the document has described, for each option of gemmctl. */
    uint64_t described[OPTION_COUNT];
};

/* Each writes what a directive stands for. `rest` is the text after the directive's name. False:
 * the directive is wrong, which document_fail has reported. */
bool gemmd_options(struct document *document, const char *rest);
bool gemmd_bash_values(struct document *document, const char *rest);
bool gemmd_bash_options(struct document *document, const char *rest);
bool gemmd_zsh_options(struct document *document, const char *rest);
bool gemmctl_options(struct document *document, const char *rest);
bool gemmctl_bash_commands(struct document *document, const char *rest);
bool gemmctl_bash_values(struct document *document, const char *rest);
bool gemmctl_bash_options(struct document *document, const char *rest);
bool gemmctl_bash_words(struct document *document, const char *rest);
bool gemmctl_zsh_common(struct document *document, const char *rest);
bool gemmctl_zsh_commands(struct document *document, const char *rest);
bool gemmctl_zsh_options(struct document *document, const char *rest);
bool gemmctl_zsh_words(struct document *document, const char *rest);
bool gemmctl_fish_pairs(struct document *document, const char *rest);
bool gemmctl_fish_flags(struct document *document, const char *rest);
bool gemmctl_fish_commands(struct document *document, const char *rest);
bool gemmctl_fish_options(struct document *document, const char *rest);

/* False, and reports it, if the texts of options.roff do not belong to options and commands, or if
 * the template is a page of gemmctl that lacks an option of its commands. */
bool gemmctl_check_texts(struct document *document);
bool gemmctl_check_page(struct document *document);

/* Reports what is wrong with the current line of the template. Returns false. */
bool document_fail(const struct document *document, const char *sentence, const char *name);

/* Writes a text as roff, with the names of options in bold. A letter at its begin is capitalised if
 * `sentence`, and a full stop is added. */
void roff_text(FILE *out, const char *text, size_t length);
void roff_sentence(FILE *out, const char *text, size_t length);

/* Writes a text between single quotes, in which a shell takes it as it is. `escaped` are characters
 * that get a backslash. */
void shell_quote(FILE *out, const char *text, size_t length, const char *escaped);

#endif
