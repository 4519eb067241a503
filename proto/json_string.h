/*
 * json_string.h - decodes a string of JSON. Any thread.
 */
#ifndef PROTO_JSON_STRING_H
#define PROTO_JSON_STRING_H

#include <stdint.h>

/* Decodes the string whose first character, behind its quote, is at `at`, of a text that ends at
 * `end`. Writes the string to `out`, without a terminator, and its length to `bytes`; the decoded
 * string is no longer than the text. Returns what is behind the closing quote; NULL if the string
 * has no end, is not UTF-8, or has a bad escape, half a surrogate pair, a control character or
 * U+0000, which would end it in C. */
const char *json_string_decode(const char *at, const char *end, char *out, uint64_t *bytes);

#endif
