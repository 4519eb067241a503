/*
 * ladder_table.h - the table of the ladder: what each kernel reaches on square products, printed by
 * gemmctl bench ladder and by gemmd-bench ladder alike.
 *
 * Bytes of device memory are counted from the tiling: a block that computes a tile of `rows` by
 * `columns` reads its rows of A and its columns of B once, whatever caches do, and each result is
 * written once. A kernel without a known tile (a library's) is counted as reading each operand
 * once. The arithmetic intensity is 2 N^3 over these bytes, and the roofline at it the lesser of
 * the device's peak and intensity times its bandwidth, both from its data sheet. A kernel can be
 * above its roofline: caches then do what its tiling does not.
 */
#ifndef GEMMCTL_LADDER_TABLE_H
#define GEMMCTL_LADDER_TABLE_H

#include <gemmd/dtypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { LADDER_SIZES = 5, LADDER_ROWS = 24 };
extern const uint32_t ladder_sizes[LADDER_SIZES]; /* 256 ... 4096 */

struct ladder_row {
    char name[40];
    double milliseconds[LADDER_SIZES]; /* of one product; 0: not measured */
    bool too_slow[LADDER_SIZES];       /* and so left out */
};

struct ladder {
    const char *title;  /* "f32, C = A·B" */
    const char *device; /* as the daemon or the driver names it */
    enum gemmd_dtype dtype, out;
    const char *library; /* the row that others are compared with */
    struct ladder_row rows[LADDER_ROWS];
    uint32_t count;
};

/* What the device-memory traffic of one product of side n should be, in bytes. */
double ladder_bytes(const char *kernel, enum gemmd_dtype dtype, enum gemmd_dtype out, uint32_t n);

/* GFLOP/s, of data sheets; 0 for a device that is not known. */
double ladder_roofline(const char *device, enum gemmd_dtype dtype, double flop_per_byte);

/* Markdown: a heading, the table, and notes. */
void ladder_print(const struct ladder *ladder, FILE *to);

#endif
