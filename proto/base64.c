#include "proto/base64.h"

#include <string.h>

/* Returns the value of a character; -1 if the character is not in the alphabet. */
static int value_of(char c)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c == '\0' ? NULL : strchr(alphabet, c);
    return at == NULL ? -1 : (int)(at - alphabet);
}

bool base64_read(const char *text, uint64_t length, void *out, uint64_t bytes)
{
    unsigned char *to = out;
    uint32_t bits = 0, count = 0;
    uint64_t written = 0, characters = 0;
    const uint64_t padding = (3 - bytes % 3) % 3, groups = bytes / 3 + (padding > 0);
    for (uint64_t i = 0; i < length; i++) {
        if (text[i] == '\r' || text[i] == '\n')
            continue;
        if (characters == groups * 4)
            return false;
        const bool data = characters++ < groups * 4 - padding;
        const int value = value_of(text[i]);
        if (data ? value < 0 : text[i] != '=')
            return false;
        if (!data)
            continue;
        bits = bits << 6 | (uint32_t)value;
        count += 6;
        if (count >= 8) {
            count -= 8;
            to[written++] = (unsigned char)(bits >> count);
        }
    }
    /* the unused bits of the last character have to be zero */
    return characters == groups * 4 && (bits & ((1u << count) - 1)) == 0;
}
