/*
 * utf8.h - which bytes are UTF-8 (RFC 3629). Pure functions.
 */
#ifndef PROTO_UTF8_H
#define PROTO_UTF8_H

#include <stdint.h>

/* Bytes of the UTF-8 sequence that begins at `text`, of which `bytes` are there; 0 if there is
 * none. Overlong forms, surrogates and code points past U+10FFFF are no sequences. */
uint32_t utf8_length(const void *text, uint64_t bytes);

#endif
