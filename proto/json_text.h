/*
 * json_text.h - writes JSON into a buffer of fixed size.
 *
 * The functions allocate no memory, so that they also work when no memory is left. A text that does
 * not fit in the buffer is not written. The writer remembers this overflow, and json_text_end
 * reports it. Any thread; one thread at a time may use a struct json_text.
 */
#ifndef PROTO_JSON_TEXT_H
#define PROTO_JSON_TEXT_H

#include <stdbool.h>
#include <stdint.h>

struct json_text {
    char *out;                 /* borrowed; the buffer */
    uint64_t capacity, length; /* of the buffer, and of the JSON so far; in bytes */
    bool overflow;             /* a text did not fit */
};

/* Starts an empty JSON text in the buffer `out`, which is `capacity` bytes long. */
void json_text_start(struct json_text *json, char *out, uint64_t capacity);
/* Appends `text` unchanged: punctuation, or text that is known to be JSON. */
void json_text_raw(struct json_text *json, const char *text);
/* Appends `text` as a JSON string with quotes and escapes. A byte that is not part of valid UTF-8
 * (RFC 3629), and a control character other than tab, line feed and carriage return, is replaced by
 * U+FFFD. A string of n bytes therefore takes at most 3 n + 2 bytes. */
void json_text_string(struct json_text *json, const char *text);
/* Appends `value` in decimal digits. */
void json_text_u64(struct json_text *json, uint64_t value);
/* Terminates the JSON text. Returns the length of the text in bytes, without the terminator.
 * Returns 0, and makes the text empty, if the text and its terminator did not fit in the buffer. */
uint64_t json_text_end(struct json_text *json);

#endif
