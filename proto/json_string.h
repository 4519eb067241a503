/*
 * json_string.h - decodes a JSON string. Pure function, any thread.
 */
#ifndef PROTO_JSON_STRING_H
#define PROTO_JSON_STRING_H

#include <stdint.h>

/* Decodes a JSON string. `at` points to the string's first character, behind the opening quote, and
 * `end` to the end of the JSON text. Writes the decoded string to `out`, without a terminator, and
 * the decoded string's length in bytes to `*bytes`. The caller owns `out`. A decoded string is
 * never longer than its JSON.
 *
 * Returns a pointer to the character behind the closing quote. Returns NULL, and leaves `*bytes`
 * unchanged, if the string has no closing quote, is not UTF-8, or contains an invalid escape, half
 * a surrogate pair, a control character, or U+0000, which would terminate the string in C. */
const char *json_string_decode(const char *at, const char *end, char *out, uint64_t *bytes);

#endif
