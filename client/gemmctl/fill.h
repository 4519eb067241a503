/*
 * fill.h - fills operands with random values for measurements. Products of zeros run faster, and
 * hide errors.
 */
#ifndef GEMMCTL_FILL_H
#define GEMMCTL_FILL_H

#include <gemmd/dtypes.h>
#include <stdint.h>

/* Fills `count` elements with values from [-1, 1), or with any values of i8. `seed` is not 0. */
void fill_random(void *out, enum gemmd_dtype dtype, uint64_t count, uint64_t seed);

#endif
