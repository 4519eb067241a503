/*
 * number.h - parses numbers strictly.
 *
 * Each function parses the whole terminated string `text` and stores the number in `*out`. A
 * function returns false, and leaves `*out` unchanged, if the string has another form than the one
 * described or if the number is out of range. Leading and trailing spaces and hexadecimal digits
 * are refused. The program's locale has no effect. Any thread.
 */
#ifndef PROTO_NUMBER_H
#define PROTO_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* Parses a number from 0 to UINT64_MAX that is written in decimal digits, without a sign. */
bool number_u64(const char *text, uint64_t *out);
/* Parses a finite decimal number with an optional sign, fraction and exponent ("-1.5e-3"). */
bool number_f64(const char *text, double *out);
/* Parses a flag: "0" is false, "1" is true. */
bool number_flag(const char *text, bool *out);
/* Parses a size in bytes: decimal digits and an optional suffix K, M, G, T, KiB, MiB, GiB or TiB.
 * K and KiB both stand for 1024, M and MiB for 1024^2, G and GiB for 1024^3, T and TiB for 1024^4.
 */
bool number_bytes(const char *text, uint64_t *out);

/* The decimal_* functions write at `out`, without a terminator, and return the end of the written
 * text. The caller owns `out`, which needs room for DECIMAL_MAX bytes. The functions replace
 * printf, which takes most of the time of a log line if printf writes every number of the line. */
enum { DECIMAL_MAX = 21 }; /* the most bytes that one function writes */

/* Writes `value` in decimal digits, without leading zeros. */
char *decimal_u64(char *out, uint64_t value);
/* Writes a duration of `ns` nanoseconds as milliseconds, rounded to three decimals: "12.345". */
char *decimal_milliseconds(char *out, uint64_t ns);

#endif
