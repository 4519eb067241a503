/*
 * check_sum.h - compensated sums in f64, for the references of check_rows.h.
 */
#ifndef GEMMCTL_CHECK_SUM_H
#define GEMMCTL_CHECK_SUM_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* A sum after Neumaier (1974); all zero at first. */
struct check_sum {
    double sum, lost;
};

static inline void check_sum_add(struct check_sum *sum, double value)
{
    const double next = sum->sum + value;
    sum->lost += fabs(sum->sum) >= fabs(value) ? sum->sum - next + value : value - next + sum->sum;
    sum->sum = next;
}

static inline double check_sum_of(const struct check_sum *sum)
{
    return sum->sum + sum->lost;
}

/* The number of levels of a pairwise tree over `count` elements: ceil(log2 count). */
static inline double check_sum_levels(uint64_t count)
{
    return count > 1 ? ceil(log2((double)count)) : 0;
}

/* Whether all numbers are finite. */
static inline bool check_sum_finite(const double *values, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (!isfinite(values[i]))
            return false;
    return true;
}

#endif
