#include "proto/json_string.h"

#include <stdbool.h>
#include <string.h>

#include "proto/utf8.h"

static int32_t hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Returns the UTF-16 code unit that four hexadecimal digits stand for; -1 if the four characters
 * are not hexadecimal digits. */
static int32_t hex_unit(const char *at, const char *end)
{
    int32_t unit = 0;
    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        const int32_t digit = hex_digit(at[i]);
        if (digit < 0)
            return -1;
        unit = unit * 16 + digit;
    }
    return unit;
}

static char *write_utf8(char *out, uint32_t point)
{
    if (point < 0x80) {
        *out++ = (char)point;
        return out;
    }
    if (point < 0x800) {
        *out++ = (char)(0xC0 | point >> 6);
    } else {
        if (point < 0x10000) {
            *out++ = (char)(0xE0 | point >> 12);
        } else {
            *out++ = (char)(0xF0 | point >> 18);
            *out++ = (char)(0x80 | (point >> 12 & 0x3F));
        }
        *out++ = (char)(0x80 | (point >> 6 & 0x3F));
    }
    *out++ = (char)(0x80 | (point & 0x3F));
    return out;
}

/* Decodes the escape of one code point, from its first hexadecimal digit: one code unit, or two
 * code units with a second \u between them. Returns a pointer to the character behind the escape;
 * NULL if the escape is invalid. */
static const char *decode_unicode(const char *at, const char *end, char **out)
{
    const int32_t first = hex_unit(at, end);
    if (first <= 0 || (first >= 0xDC00 && first <= 0xDFFF))
        return NULL;
    at += 4;
    uint32_t point = (uint32_t)first;
    if (first >= 0xD800 && first <= 0xDBFF) {
        if (end - at < 2 || at[0] != '\\' || at[1] != 'u')
            return NULL;
        const int32_t second = hex_unit(at + 2, end);
        if (second < 0xDC00 || second > 0xDFFF)
            return NULL;
        at += 6;
        point = 0x10000 + (((uint32_t)first - 0xD800) << 10) + ((uint32_t)second - 0xDC00);
    }
    *out = write_utf8(*out, point);
    return at;
}

/* Decodes an escape from the character behind its backslash. Returns a pointer to the character
 * behind the escape; NULL if the escape is invalid. */
static const char *decode_escape(const char *at, const char *end, char **out)
{
    static const char escapes[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    if (at == end || *at == '\0')
        return NULL;
    if (*at == 'u')
        return decode_unicode(at + 1, end, out);
    const char *escape = strchr(escapes, *at);
    if (escape == NULL)
        return NULL;
    *(*out)++ = meanings[escape - escapes];
    return at + 1;
}

const char *json_string_decode(const char *at, const char *end, char *out, uint64_t *bytes)
{
    const char *const first = out;
    while (at != NULL && at < end && *at != '"') {
        const uint32_t length = utf8_length(at, (uint64_t)(end - at));
        if (length == 0 || (unsigned char)*at < 0x20)
            return NULL;
        if (*at == '\\') {
            at = decode_escape(at + 1, end, &out);
            continue;
        }
        memcpy(out, at, length);
        out += length;
        at += length;
    }
    if (at == NULL || at == end)
        return NULL;
    *bytes = (uint64_t)(out - first);
    return at + 1;
}
