#include "documents/document.h"

#include <ctype.h>
#include <string.h>

bool document_fail(const struct document *document, const char *sentence, const char *name)
{
    fprintf(stderr, "%s:%u: %s '%s'\n", document->template, document->line, sentence, name);
    return false;
}

/* Returns the length of the option's name that the text begins with, such as "--max-body"; else 0.
 */
static size_t option_length(const char *text, size_t length)
{
    size_t at = 2;
    if (length < 3 || strncmp(text, "--", 2) != 0 || !islower((unsigned char)text[2]))
        return 0;
    while (at < length && (isalnum((unsigned char)text[at]) || text[at] == '-'))
        at++;
    return at;
}

static void put_roff(FILE *out, char c)
{
    static const struct {
        char c;
        const char *escape;
    } escapes[] = {{'\\', "\\e"}, {'-', "\\-"}, {'~', "\\(ti"}, {'^', "\\(ha"}};
    for (size_t i = 0; i < sizeof escapes / sizeof escapes[0]; i++) {
        if (c == escapes[i].c) {
            fputs(escapes[i].escape, out);
            return;
        }
    }
    fputc(c, out);
}

void roff_text(FILE *out, const char *text, size_t length)
{
    if (length > 0 && strchr("'.", text[0]) != NULL)
        fputs("\\&", out);
    for (size_t at = 0; at < length;) {
        const size_t option = option_length(text + at, length - at);
        if (option > 0) {
            fputs("\\fB", out);
            for (const size_t end = at + option; at < end; at++)
                put_roff(out, text[at]);
            fputs("\\fR", out);
            continue;
        }
        /* The hyphen of a compound is a hyphen. */
        if (text[at] == '-' && at > 0 && isalpha((unsigned char)text[at - 1]) && at + 1 < length &&
            isalpha((unsigned char)text[at + 1]))
            fputc('-', out);
        else
            put_roff(out, text[at]);
        at++;
    }
}

void roff_sentence(FILE *out, const char *text, size_t length)
{
    if (length > 0 && islower((unsigned char)text[0])) {
        fputc(toupper((unsigned char)text[0]), out);
        text++;
        length--;
    }
    roff_text(out, text, length);
    fputs(".\n", out);
}

void shell_quote(FILE *out, const char *text, size_t length, const char *escaped)
{
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\'')
            fputs("'\\''", out);
        else
            fprintf(out, "%s%c", strchr(escaped, text[i]) != NULL ? "\\" : "", text[i]);
    }
}
