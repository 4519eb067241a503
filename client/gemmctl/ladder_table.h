/*
 * ladder_table.h - the table of the ladder: the speed of each kernel on square products. gemmctl
 * bench ladder and gemmd-bench ladder print the same table.
 *
 * Bytes of device memory are counted from the tiling: a block that computes a tile of `rows` by
 * `columns` reads its rows of A and its columns of B once, whatever the caches do, and each result
 * is written once. A kernel whose tile is not known (a library's) is counted as reading each
 * operand once. The arithmetic intensity is 2 N^3 divided by these bytes. The roofline at an
 * intensity is the lesser of the device's peak and the intensity times the device's bandwidth, both
 * from the device's data sheet. A kernel can be faster than its roofline, where caches save reads
 * that the tiling does not.
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
    double milliseconds[LADDER_SIZES]; /* time of one product; 0: not measured */
    bool too_slow[LADDER_SIZES];       /* left out, since the product would have taken too long */
};

struct ladder {
    const char *title;  /* for example "f32, C = A·B" */
    const char *device; /* the device's name, from the daemon or the driver */
    enum gemmd_dtype dtype, out;
    const char *library; /* name of the row that the other rows are compared with */
    struct ladder_row rows[LADDER_ROWS];
    uint32_t count;
};

/* The device-memory traffic of one product of side n, in bytes, counted from the kernel's tiling.
 */
double ladder_bytes(const char *kernel, enum gemmd_dtype dtype, enum gemmd_dtype out, uint32_t n);

/* The roofline of a device at an arithmetic intensity, in GFLOP/s, from the device's data sheet; 0
 * for an unknown device. */
double ladder_roofline(const char *device, enum gemmd_dtype dtype, double flop_per_byte);

/* Prints a heading and the table in Markdown. False: out of memory. */
bool ladder_print(const struct ladder *ladder, FILE *to);

#endif
