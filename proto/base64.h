/* base64.h - RFC 4648's base64, with its padding. Pure functions, any thread. */
#ifndef PROTO_BASE64_H
#define PROTO_BASE64_H

#include <stdbool.h>
#include <stdint.h>

/* Reads `length` characters that stand for exactly `bytes` bytes; false if they do not. Line ends
 * among them are skipped, as RFC 2045 has it: libb64, which Triton's own clients write handles
 * with, ends a line after 72 characters. */
bool base64_read(const char *text, uint64_t length, void *out, uint64_t bytes);

#endif
