#include "server/http/accept.h"

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

/* Whether a media range accepts the JSON of errors and descriptions. */
static bool is_json(const struct accept_element *element)
{
    return element->q > 0 && (strcasecmp(element->range, "application/json") == 0 ||
                              strcasecmp(element->range, "application/problem+json") == 0);
}

bool accept_format(const char *accept, enum format own, enum format *format)
{
    double quality[FORMATS] = {0};
    int precision[FORMATS] = {0};
    struct accept_element element;
    bool takes_json = false;

    *format = own;
    if (accept == NULL || accept[strspn(accept, " \t")] == '\0')
        return true;
    while (accept_next(&accept, &element)) {
        takes_json |= is_json(&element);
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
    return quality[*format] > 0 || (takes_json && precision[*format] == 0);
}
