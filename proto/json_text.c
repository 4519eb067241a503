#include "proto/json_text.h"

#include <string.h>

#include "proto/number.h"
#include "proto/utf8.h"

void json_text_start(struct json_text *json, char *out, uint64_t capacity)
{
    *json = (struct json_text){.out = out, .capacity = capacity};
}

static void json_text_append(struct json_text *json, const void *bytes, uint64_t count)
{
    /* One byte of the buffer always stays free for the terminator. */
    if (json->overflow || count >= json->capacity - json->length) {
        json->overflow = true;
        return;
    }
    memcpy(json->out + json->length, bytes, count);
    json->length += count;
}

void json_text_raw(struct json_text *json, const char *text)
{
    json_text_append(json, text, strlen(text));
}

/* Returns the text that replaces a character of one byte in a JSON string; NULL if the character
 * needs no escape. */
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

/* Returns whether `c` is an ASCII character that is written into a JSON string unchanged. */
static bool is_plain(char c)
{
    return c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
}

void json_text_string(struct json_text *json, const char *text)
{
    const char *at = text, *const end = text + strlen(text);
    json_text_append(json, "\"", 1);
    while (at < end) {
        const char *from = at;
        while (is_plain(*at))
            at++;
        json_text_append(json, from, (uint64_t)(at - from));
        if (at == end)
            break;
        const uint32_t length = utf8_length(at, (uint64_t)(end - at));
        const char *escape = length == 0 ? "\xEF\xBF\xBD" : escape_of((unsigned char)*at);
        if (escape != NULL)
            json_text_raw(json, escape);
        else
            json_text_append(json, at, length);
        at += length == 0 ? 1 : length;
    }
    json_text_append(json, "\"", 1);
}

void json_text_u64(struct json_text *json, uint64_t value)
{
    char digits[DECIMAL_MAX] = "";
    const char *end = decimal_u64(digits, value);
    json_text_append(json, digits, (uint64_t)(end - digits));
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
