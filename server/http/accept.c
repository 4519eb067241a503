#include "server/http/accept.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { FORMATS = 3, RANGE_MAX = 128 };

/* How well a media range names a format: 3 exactly, 2 its type, 1 anything, 0 not. */
static int match(const char *range, enum format format)
{
    if (strcmp(range, "*/*") == 0)
        return 1;
    if (strcasecmp(range, "application/*") == 0)
        return 2;
    return strcasecmp(range, format_media_type(format)) == 0 ? 3 : 0;
}

/* One element of the list: the media range without space or parameters, and its q. */
static bool parse_element(const char *element, size_t length, char range[RANGE_MAX], double *q)
{
    char text[RANGE_MAX];
    if (length >= sizeof text)
        return false;
    memcpy(text, element, length);
    text[length] = '\0';
    *q = 1;
    size_t start = strspn(text, " \t");
    size_t size = strcspn(text + start, " \t;");
    memcpy(range, text + start, size);
    range[size] = '\0';
    for (const char *p = strchr(text, ';'); p != NULL; p = strchr(p, ';')) {
        p += 1 + strspn(p + 1, " \t");
        if (strncasecmp(p, "q=", 2) == 0)
            *q = strtod(p + 2, NULL);
    }
    return size > 0;
}

bool accept_format(const char *accept, enum format own, enum format *format)
{
    double quality[FORMATS] = {0};
    int precision[FORMATS] = {0};
    char range[RANGE_MAX];
    double q;

    *format = own;
    if (accept == NULL || accept[strspn(accept, " \t")] == '\0')
        return true;
    for (const char *p = accept; *p != '\0';) {
        size_t length = strcspn(p, ",");
        if (parse_element(p, length, range, &q)) {
            for (int f = 0; f < FORMATS; f++) {
                int how = match(range, (enum format)f);
                if (how > precision[f]) {
                    precision[f] = how;
                    quality[f] = q;
                }
            }
        }
        p += length;
        p += *p == ',';
    }
    for (int f = 0; f < FORMATS; f++)
        if (quality[f] > quality[*format] ||
            (quality[f] == quality[*format] && precision[f] > precision[*format]))
            *format = (enum format)f;
    return quality[*format] > 0;
}
