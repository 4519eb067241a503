/*
 * units.h - durations, bytes and rates as short texts for people.
 */
#ifndef GEMMCTL_UNITS_H
#define GEMMCTL_UNITS_H

enum { UNITS_ROOM = 32 };

/* Each writes to `out` and returns `out`. Values are not negative. */

/* "812us", "3.2ms", "4.5s", "42s", "3m12s", "2h05m", "3d04h" */
const char *units_duration(double seconds, char out[UNITS_ROOM]);
/* "17 B", "1.5 KiB", "20.0 GiB" */
const char *units_bytes(double bytes, char out[UNITS_ROOM]);
/* "950 FLOP/s", "12.3 GFLOP/s", "1.02 TFLOP/s" */
const char *units_flops(double flop_per_second, char out[UNITS_ROOM]);
/* "950 B/s", "12.3 GB/s", "1.02 TB/s" */
const char *units_bytes_rate(double bytes_per_second, char out[UNITS_ROOM]);

#endif
