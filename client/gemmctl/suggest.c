#include "client/gemmctl/suggest.h"

#include <string.h>

enum { WORD_MAX = 32 };

static uint32_t min_of_three(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t smaller = a < b ? a : b;
    return smaller < c ? smaller : c;
}

static uint32_t distance(const char *a, const char *b)
{
    uint32_t cost[WORD_MAX + 1][WORD_MAX + 1];
    size_t a_length = strlen(a), b_length = strlen(b);
    if (a_length > WORD_MAX || b_length > WORD_MAX)
        return UINT32_MAX;
    for (uint32_t i = 0; i <= a_length; i++)
        cost[i][0] = i;
    for (uint32_t j = 0; j <= b_length; j++)
        cost[0][j] = j;
    for (uint32_t i = 1; i <= a_length; i++) {
        for (uint32_t j = 1; j <= b_length; j++) {
            cost[i][j] = min_of_three(cost[i - 1][j] + 1, cost[i][j - 1] + 1,
                                      cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                cost[i - 2][j - 2] + 1 < cost[i][j])
                cost[i][j] = cost[i - 2][j - 2] + 1;
        }
    }
    return cost[a_length][b_length];
}

const char *suggest(const char *word, const char *const *names, uint32_t count)
{
    const char *nearest = NULL;
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t away = distance(word, names[i]);
        /* A suggestion differs by at most two edits, and by at most half of the word. */
        if (away < best && away <= 2 && away <= strlen(names[i]) / 2) {
            best = away;
            nearest = names[i];
        }
    }
    return nearest;
}
