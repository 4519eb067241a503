/*
 * json_text.h - writes JSON into a buffer of fixed size, so that it works when memory is short.
 *
 * Writing past the end is remembered, not done: only json_text_end tells. Any thread, one
 * writer a buffer.
 */
#ifndef PROTO_JSON_TEXT_H
#define PROTO_JSON_TEXT_H

#include <stdbool.h>
#include <stdint.h>

struct json_text {
    char *out; /* borrowed */
    uint64_t capacity, length;
    bool overflow;
};

void json_text_start(struct json_text *json, char *out, uint64_t capacity);
/* Punctuation, and text that is known to be JSON. */
void json_text_raw(struct json_text *json, const char *text);
/* A quoted string. What is not UTF-8 (RFC 3629), and control characters other than tab and
 * the line ends, become U+FFFD, so that a string grows at most threefold plus its quotes. */
void json_text_string(struct json_text *json, const char *text);
void json_text_u64(struct json_text *json, uint64_t value);
/* Terminates the text. Returns its length without the terminator, or 0 (and an empty text)
 * if it did not fit. */
uint64_t json_text_end(struct json_text *json);

#endif
