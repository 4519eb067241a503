/*
 * utf8.h - checks text for UTF-8 (RFC 3629). Pure functions, any thread.
 */
#ifndef PROTO_UTF8_H
#define PROTO_UTF8_H

#include <stdbool.h>
#include <stdint.h>

/* Returns the length, in bytes, of the UTF-8 sequence at the start of a text of `bytes` bytes.
 * Returns 0 if the text is empty or does not start with a complete UTF-8 sequence. Overlong forms,
 * surrogates and code points past U+10FFFF are not accepted as sequences. */
uint32_t utf8_length(const void *text, uint64_t bytes);
/* Returns whether the terminated string `text` is UTF-8. */
bool utf8_is_text(const char *text);

#endif
