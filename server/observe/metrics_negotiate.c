/* Which of the two formats an Accept header asks for (RFC 9110, 12.5.1). */
#include <string.h>
#include <strings.h>

#include "proto/number.h"
#include "server/observe/metrics.h"

enum { RANGE_MAX = 256, TYPE_MAX = 64 };

struct media_range {
    char type[TYPE_MAX], version[TYPE_MAX];
    double quality;
};

const char *metrics_content_type(enum metrics_format format)
{
    return format == METRICS_OPENMETRICS
               ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
               : "text/plain; version=0.0.4; charset=utf-8";
}

/* Removes spaces, and the quotes around the value of a parameter. */
static char *trim(char *text)
{
    text += strspn(text, " \t\"");
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t\"", text[length - 1]))
        text[--length] = '\0';
    return text;
}

/* False: the text is longer than every word that is looked for. */
static bool copy_word(char out[TYPE_MAX], const char *word)
{
    size_t length = strlen(word);
    if (length >= TYPE_MAX)
        return false;
    memcpy(out, word, length + 1);
    return true;
}

/* Reads one element of the list, "type/subtype;version=1.0.0;q=0.5". False: it names no format. */
static bool parse_range(const char *text, size_t length, struct media_range *range)
{
    char copy[RANGE_MAX], *rest = copy;
    if (length >= sizeof(copy))
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';

    *range = (struct media_range){.quality = 1};
    if (!copy_word(range->type, trim(strsep(&rest, ";"))))
        return false;
    while (rest) {
        char *value = strsep(&rest, ";"), *name = trim(strsep(&value, "="));
        value = value ? trim(value) : "";
        if (strcasecmp(name, "q") == 0 && !number_f64(value, &range->quality))
            return false;
        if (strcasecmp(name, "version") == 0 && !copy_word(range->version, value))
            return false;
    }
    return true;
}

enum metrics_format metrics_negotiate(const char *accept)
{
    /* A negative quality: the header does not name the format. */
    double open_metrics = -1, plain = -1, anything = -1;
    for (const char *next = accept; next && *next;) {
        size_t length = strcspn(next, ",");
        struct media_range range;
        if (parse_range(next, length, &range)) {
            double *quality = NULL;
            if (strcasecmp(range.type, "application/openmetrics-text") == 0)
                quality =
                    !range.version[0] || strcmp(range.version, "1.0.0") == 0 ? &open_metrics : NULL;
            else if (strcasecmp(range.type, "text/plain") == 0)
                quality = &plain;
            else if (strcmp(range.type, "*/*") == 0 || strcasecmp(range.type, "text/*") == 0)
                quality = &anything;
            if (quality && range.quality > *quality)
                *quality = range.quality;
        }
        next += length;
        next += *next == ',';
    }
    if (plain < 0)
        plain = anything;
    return open_metrics > 0 && open_metrics >= plain ? METRICS_OPENMETRICS : METRICS_TEXT;
}
