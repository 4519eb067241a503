#include "proto/nearest.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

/* PREFIX_MIN: a shorter candidate begins too many names to be what one of them means. */
enum { NAME_MAX_LENGTH = 63, PREFIX_MIN = 3, SHORT_MAX = 4 };

static char nearest_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Levenshtein distance between two names, computed one row of its table at a time. */
static size_t nearest_edits(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t row[NAME_MAX_LENGTH + 1];
    for (size_t j = 0; j <= b_length; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t best = diagonal + (nearest_lower(a[i - 1]) != nearest_lower(b[j - 1]));
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[b_length];
}

void nearest_start(struct nearest *search, const char *name, size_t length)
{
    /* A name that differs in as much is not a slip of this one. A short name says little, so that
     * only one of its characters may be wrong. */
    const size_t edits = length <= SHORT_MAX ? 2 : length / 3 + 2;
    *search = (struct nearest){.name = name, .length = length, .fewest = 2 * edits};
}

void nearest_offer(struct nearest *search, const char *candidate)
{
    const size_t length = strlen(candidate), own = search->length;
    if (own == 0 || own > NAME_MAX_LENGTH || length > NAME_MAX_LENGTH)
        return;
    const bool begins = length > own && strncasecmp(candidate, search->name, own) == 0;
    const bool goes_on =
        length >= PREFIX_MIN && length < own && strncasecmp(candidate, search->name, length) == 0;
    const size_t edits = nearest_edits(search->name, own, candidate, length);
    if (edits >= own && !begins)
        return; /* the names have no character in common */
    /* Distances are counted in halves of an edit. */
    size_t distance = 2 * edits;
    if (begins && distance > 2)
        distance = 2;
    else if (goes_on && distance > 3)
        distance = 3;
    const bool shorter =
        search->best != NULL && distance == search->fewest && length < strlen(search->best);
    if (distance < search->fewest || shorter) {
        search->fewest = distance;
        search->best = candidate;
    }
}
