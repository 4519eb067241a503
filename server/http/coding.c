#include "server/http/coding.h"

#include <string.h>
#include <strings.h>

#include "server/http/accept.h"

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
