/*
 * number.h - strict numbers from text: the whole string, nothing else, in range.
 *
 * No leading or trailing space, no sign where none is meant, no hex, no locale.
 * Pure functions, any thread.
 */
#ifndef PROTO_NUMBER_H
#define PROTO_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* Digits only, 0 ... UINT64_MAX. */
bool number_u64(const char *text, uint64_t *out);
/* A decimal with optional sign, fraction and exponent ("-1.5e-3"); finite. */
bool number_f64(const char *text, double *out);
/* "0" or "1". */
bool number_flag(const char *text, bool *out);
/* A size with an optional suffix K, M, G, T or KiB, MiB, GiB, TiB (powers of 1024 both). */
bool number_bytes(const char *text, uint64_t *out);

#endif
