/*
 * decimal.h - writes numbers in decimal digits, for log lines and headers.
 *
 * Each function writes at `out`, without a terminator, and returns the end of the written text. The
 * caller owns `out`, which needs room for DECIMAL_MAX bytes. The functions replace printf, which
 * takes most of the time of a log line if printf writes every number of the line. Pure functions,
 * any thread.
 */
#ifndef PROTO_DECIMAL_H
#define PROTO_DECIMAL_H

#include <stdint.h>

enum { DECIMAL_MAX = 21 }; /* the most bytes that one function writes */

/* Writes `value` in decimal digits, without leading zeros. */
char *decimal_u64(char *out, uint64_t value);
/* Writes a duration of `ns` nanoseconds as milliseconds, rounded to three decimals: "12.345". */
char *decimal_milliseconds(char *out, uint64_t ns);

#endif
