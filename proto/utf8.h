/*
 * utf8.h - recognizes UTF-8 (RFC 3629). Pure functions.
 */
#ifndef PROTO_UTF8_H
#define PROTO_UTF8_H

#include <stdint.h>

/* Returns the length of the UTF-8 sequence at the start of a text of `bytes` bytes; 0 if the text
 * does not start with one. Overlong forms, surrogates and code points past U+10FFFF are no
 * sequences. */
uint32_t utf8_length(const void *text, uint64_t bytes);

#endif
