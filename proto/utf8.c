#include "proto/utf8.h"

#include <string.h>

uint32_t utf8_length(const void *text, uint64_t bytes)
{
    static const struct {
        unsigned char first_low, first_high, second_low, second_high, length;
    } forms[] = {
        {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3}, {0xE1, 0xEC, 0x80, 0xBF, 3},
        {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3}, {0xF0, 0xF0, 0x90, 0xBF, 4},
        {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
    };
    const unsigned char *at = text;
    if (bytes == 0)
        return 0;
    if (at[0] < 0x80)
        return 1;
    for (uint32_t form = 0; form < sizeof forms / sizeof forms[0]; form++) {
        if (at[0] < forms[form].first_low || at[0] > forms[form].first_high)
            continue;
        if (bytes < forms[form].length || at[1] < forms[form].second_low ||
            at[1] > forms[form].second_high)
            return 0;
        for (uint32_t i = 2; i < forms[form].length; i++)
            if ((at[i] & 0xC0) != 0x80)
                return 0;
        return forms[form].length;
    }
    return 0;
}

bool utf8_is_text(const char *text)
{
    uint64_t left = strlen(text);
    while (left > 0) {
        const uint32_t length = utf8_length(text, left);
        if (length == 0)
            return false;
        text += length;
        left -= length;
    }
    return true;
}
