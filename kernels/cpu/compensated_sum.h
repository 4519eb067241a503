/*
 * compensated_sum.h - sums of f64 whose error does not grow with the number of terms.
 *
 * The rounding error of each addition is computed exactly and kept in a second number. The error of
 * the sum of n terms is at most 2^-53 |sum| + n^2 2^-106 sum |term| (A. Neumaier,
 * "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen", 1974). Infinity and NaN
 * among the terms have the effect that they have in a plain sum.
 *
 * Pure functions, any thread.
 */
#ifndef KERNELS_CPU_COMPENSATED_SUM_H
#define KERNELS_CPU_COMPENSATED_SUM_H

#include <math.h>

/* A sum without terms is all zero. */
struct compensated_sum {
    double sum, lost; /* `lost` is the sum of the rounding errors */
};

static inline void compensated_sum_add(struct compensated_sum *sum, double term)
{
    const double next = sum->sum + term;
    if (fabs(sum->sum) >= fabs(term))
        sum->lost += sum->sum - next + term;
    else
        sum->lost += term - next + sum->sum;
    sum->sum = next;
}

static inline double compensated_sum_value(const struct compensated_sum *sum)
{
    return isfinite(sum->sum) ? sum->sum + sum->lost : sum->sum; /* `lost` may be NaN */
}

#endif
