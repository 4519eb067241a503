#include "server/http/negotiation.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { FORMATS = 3 };

/* How exactly a media range names a format: 3 type and subtype, 2 only the type, 1 any type, 0 the
 * range does not include the format. */
static int match_range(const char *range, enum format format)
{
    if (strcmp(range, "*/*") == 0)
        return 1;
    if (strcasecmp(range, "application/*") == 0)
        return 2;
    return strcasecmp(range, format_media_type(format)) == 0 ? 3 : 0;
}

/* Reads a weight, which is a number from 0 to 1. A malformed weight counts as 0, and a greater one
 * as 1. */
static double read_weight(const char *text)
{
    const double q = strtod(text, NULL);
    return q > 1 ? 1 : q > 0 ? q : 0; /* NaN counts as 0 */
}

static bool parse_element(const char *text, size_t length, struct accept_element *element)
{
    char copy[ACCEPT_RANGE_MAX];
    if (length >= sizeof copy)
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    element->q = 1;
    size_t start = strspn(copy, " \t");
    size_t size = strcspn(copy + start, " \t;");
    memcpy(element->range, copy + start, size);
    element->range[size] = '\0';
    for (const char *p = strchr(copy, ';'); p != NULL; p = strchr(p, ';')) {
        p += 1 + strspn(p + 1, " \t");
        if (strncasecmp(p, "q=", 2) == 0)
            element->q = read_weight(p + 2);
    }
    return size > 0;
}

bool accept_next(const char **list, struct accept_element *element)
{
    while (**list != '\0') {
        const char *text = *list;
        const size_t length = strcspn(text, ",");
        *list += length + (text[length] == ',');
        if (parse_element(text, length, element))
            return true;
    }
    return false;
}

static bool is_json(const char *range)
{
    return strcasecmp(range, "application/json") == 0 ||
           strcasecmp(range, "application/problem+json") == 0;
}

bool accept_format(const char *accept, enum format own, enum format *format)
{
    double quality[FORMATS] = {0};
    int precision[FORMATS] = {0};
    bool takes_json = false;
    struct accept_element element;

    *format = own;
    if (accept == NULL || accept[strspn(accept, " \t")] == '\0')
        return true;
    while (accept_next(&accept, &element)) {
        takes_json = takes_json || (is_json(element.range) && element.q > 0);
        for (int f = 0; f < FORMATS; f++) {
            int how = match_range(element.range, (enum format)f);
            if (how > precision[f]) {
                precision[f] = how;
                quality[f] = element.q;
            }
        }
    }
    for (int f = 0; f < FORMATS; f++)
        if (quality[f] > quality[*format] ||
            (quality[f] == quality[*format] && precision[f] > precision[*format]))
            *format = (enum format)f;
    /* Clients that a generator wrote name only JSON, the format of errors and descriptions. */
    return quality[*format] > 0 || (takes_json && precision[*format] == 0);
}

/* ---- content codings ---- */

static const char *const names[CODING_COUNT] = {"identity", "gzip", "deflate"};

const char *coding_name(enum coding coding)
{
    return names[coding];
}

static bool is_word(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && strncasecmp(text, word, length) == 0;
}

static void read_one(struct coding_list *list, const char *text, size_t length)
{
    if (is_word(text, length, "identity"))
        return;
    list->count++;
    if (is_word(text, length, "gzip") || is_word(text, length, "x-gzip"))
        list->coding = CODING_GZIP;
    else if (is_word(text, length, "deflate"))
        list->coding = CODING_DEFLATE;
    else
        list->unknown = true;
}

void coding_read(struct coding_list *list, const char *value)
{
    static const char space[] = " \t";
    while (*value != '\0') {
        size_t length = strcspn(value, ","), start = strspn(value, space);
        const char *next = value + length + (value[length] == ',');
        while (length > start && strchr(space, value[length - 1]) != NULL)
            length--;
        if (length > start)
            read_one(list, value + start, length - start);
        value = next;
    }
}

enum coding coding_accepted(const char *accept)
{
    static const enum coding preferred[] = {CODING_GZIP, CODING_DEFLATE, CODING_IDENTITY};
    /* A coding that the header does not name is not accepted. Only identity is, with a weight below
     * the least weight that a header can give (0.001). */
    double quality[CODING_COUNT] = {[CODING_IDENTITY] = 0.0005};
    double star = -1;
    bool named[CODING_COUNT] = {false};
    struct accept_element element;
    if (accept == NULL)
        return CODING_IDENTITY;
    while (accept_next(&accept, &element)) {
        struct coding_list one = {.count = 0};
        if (strcmp(element.range, "*") == 0) {
            star = element.q;
            continue;
        }
        coding_read(&one, element.range);
        if (!one.unknown) {
            quality[one.coding] = element.q;
            named[one.coding] = true;
        }
    }
    for (int c = 0; c < CODING_COUNT; c++)
        if (!named[c] && star >= 0)
            quality[c] = star;
    enum coding best = CODING_IDENTITY;
    double best_quality = 0;
    for (size_t i = 0; i < sizeof preferred / sizeof *preferred; i++) {
        if (quality[preferred[i]] > best_quality) {
            best = preferred[i];
            best_quality = quality[best];
        }
    }
    return best;
}
