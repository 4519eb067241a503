/*
 * widen.h - elements of any type as doubles, exactly.
 */
#ifndef GEMMCTL_WIDEN_H
#define GEMMCTL_WIDEN_H

#include <gemmd/dtypes.h>
#include <stdint.h>

/* Writes `count` elements at `from`, which may have any alignment, to `out`. Element i is read from
 * the place i * stride. */
void widen(enum gemmd_dtype dtype, const void *from, uint64_t stride, uint64_t count, double *out);

#endif
