/*
 * decimal.h - numbers as text for log lines and headers. printf is most of a line's time if it
 * writes every number of it.
 *
 * Both write at `out`, without a terminator, and return the end.
 */
#ifndef PROTO_DECIMAL_H
#define PROTO_DECIMAL_H

#include <stdint.h>

enum { DECIMAL_MAX = 21 }; /* bytes that either writes at the most */

char *decimal_u64(char *out, uint64_t value);
/* A duration in milliseconds, rounded to three decimals: "12.345". */
char *decimal_milliseconds(char *out, uint64_t ns);

#endif
