/* config_nearest.c - finds the option that a mistyped name means ("did you mean"): the one whose
 * name is the fewest edits away. */
#include <string.h>

#include "server/config/config_option.h"

enum { NAME_MAX_LENGTH = 63 };

/* Levenshtein distance between two names, computed one row of its table at a time. */
static size_t edits(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t row[NAME_MAX_LENGTH + 1];
    for (size_t j = 0; j <= b_length; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
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

const char *config_option_nearest(const char *name, size_t length)
{
    if (length == 0 || length > NAME_MAX_LENGTH)
        return NULL;
    const char *nearest = NULL;
    size_t fewest = length / 3 + 2; /* a name that differs more is not a slip of this one */
    for (uint32_t i = 0; i < config_option_count; i++) {
        const char *candidate = config_options[i].name;
        size_t candidate_length = strlen(candidate);
        size_t distance = candidate_length <= NAME_MAX_LENGTH
                              ? edits(name, length, candidate, candidate_length)
                              : fewest;
        /* The beginning of a name ("queue-req", "h") counts as one edit, however much is missing.
         */
        if (candidate_length > length && memcmp(candidate, name, length) == 0)
            distance = 1;
        bool shorter = nearest && distance == fewest && candidate_length < strlen(nearest);
        if (distance < fewest || shorter) {
            fewest = distance;
            nearest = candidate;
        }
    }
    return nearest;
}
