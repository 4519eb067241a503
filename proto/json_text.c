#include "proto/json_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void json_text_start(struct json_text *json, char *out, uint64_t capacity)
{
    *json = (struct json_text){.out = out, .capacity = capacity};
}

static void append(struct json_text *json, const void *bytes, uint64_t count)
{
    /* One byte always stays free for the terminator. */
    if (json->overflow || count >= json->capacity - json->length) {
        json->overflow = true;
        return;
    }
    memcpy(json->out + json->length, bytes, count);
    json->length += count;
}

void json_text_raw(struct json_text *json, const char *text)
{
    append(json, text, strlen(text));
}

/* Bytes of the UTF-8 sequence at `text`, 0 if there is none. Overlong forms, surrogates and what
 * lies past U+10FFFF are no sequences; the terminator ends one early. */
static uint32_t utf8_length(const unsigned char *text)
{
    static const struct {
        unsigned char first_low, first_high, second_low, second_high, length;
    } forms[] = {
        {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3}, {0xE1, 0xEC, 0x80, 0xBF, 3},
        {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3}, {0xF0, 0xF0, 0x90, 0xBF, 4},
        {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
    };
    if (text[0] < 0x80)
        return 1;
    for (uint32_t form = 0; form < sizeof forms / sizeof forms[0]; form++) {
        if (text[0] < forms[form].first_low || text[0] > forms[form].first_high)
            continue;
        if (text[1] < forms[form].second_low || text[1] > forms[form].second_high)
            return 0;
        for (uint32_t at = 2; at < forms[form].length; at++)
            if ((text[at] & 0xC0) != 0x80)
                return 0;
        return forms[form].length;
    }
    return 0;
}

static const char *escape_of(unsigned char byte)
{
    switch (byte) {
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    case '\t':
        return "\\t";
    case '\n':
        return "\\n";
    case '\r':
        return "\\r";
    default:
        return byte < 0x20 || byte == 0x7F ? "\xEF\xBF\xBD" : NULL;
    }
}

void json_text_string(struct json_text *json, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    append(json, "\"", 1);
    while (*at != '\0') {
        uint32_t length = utf8_length(at);
        const char *escape = length == 0 ? "\xEF\xBF\xBD" : escape_of(*at);
        if (escape != NULL)
            json_text_raw(json, escape);
        else
            append(json, at, length);
        at += length == 0 ? 1 : length;
    }
    append(json, "\"", 1);
}

void json_text_u64(struct json_text *json, uint64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, value);
    json_text_raw(json, digits);
}

uint64_t json_text_end(struct json_text *json)
{
    if (json->capacity == 0)
        return 0;
    if (json->overflow)
        json->length = 0;
    json->out[json->length] = '\0';
    return json->length;
}
