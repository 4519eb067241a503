/*
 * served.h - `gemmd-bench served`: what a product costs on the device as the daemon computes it.
 *
 * Where `gemmd-bench kernels` times kernels on operands as they like them, this times the whole of
 * a kernel: operands as a request brings them, with all that has to be copied, turned, widened
 * or decomposed into parts first. Against the kernel `cublas` and, where it takes the operands as
 * they are, the best of cuBLASLt's candidates. And for f32 with precision full: the error of each
 * against f64.
 */
#ifndef TESTS_BENCH_SERVED_H
#define TESTS_BENCH_SERVED_H

#include <stdio.h>

/* Names of groups of rows ("f32,tf32"), or NULL for all; the kernel next to cuBLAS, or NULL for
 * wgmma; `out`: a file for the tables, or NULL. Returns an exit status. */
int bench_served(const char *groups, const char *own, double seconds, const char *out);

/* `gemmd-bench error`: f32 with precision full, k = 1 ... 8192 on easy and on hard operands, then
 * the table of bench_error_f8. */
int bench_error(const char *out);

/* `gemmd-bench scaled`: products of operands with scales, every tile, next to cuBLASLt's own
 * scaling. Returns an exit status. */
int bench_scaled(double seconds, const char *out);

/* `gemmd-bench few`: f8_e4m3 with precision full and few rows, widened in memory and by the kernels
 * for few rows. Returns an exit status. */
int bench_few_rows(const char *out);

/* Writes a table: f8_e4m3 with precision f8, k = 128 ... 16384, next to cuBLASLt with and without
 * fast accumulation. Returns an exit status. */
int bench_error_f8(FILE *to);

#endif
