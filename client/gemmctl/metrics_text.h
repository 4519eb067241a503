/*
 * metrics_text.h - reads numbers from metrics in Prometheus' text format.
 */
#ifndef GEMMCTL_METRICS_TEXT_H
#define GEMMCTL_METRICS_TEXT_H

#include <stdbool.h>

/* Returns the sum of the series of a metric whose labels contain the text `label`, such as
 * "op=\"gemm\""; NULL: of all series. 0 if there is none. */
double metrics_sum(const char *text, const char *name, const char *label);
/* Whether the metric has a series. */
bool metrics_has(const char *text, const char *name);

/* The buckets of a histogram, cumulative: of `upper` and `count`, entry i is the number of
 * observations that are at most upper[i] seconds. The last bound is infinity. */
enum { METRICS_BUCKETS_MAX = 64 };
struct metrics_buckets {
    unsigned length;
    double upper[METRICS_BUCKETS_MAX], count[METRICS_BUCKETS_MAX];
};
/* Adds the buckets of the series whose labels contain `label` to `buckets`, which has the same
 * bounds or is empty. `name` is the histogram's name without "_bucket". */
void metrics_add_buckets(const char *text, const char *name, const char *label,
                         struct metrics_buckets *buckets);
/* The duration in seconds that `share` (0 to 1) of the observations between two states of a
 * histogram did not exceed, interpolated in the bucket that it lies in; negative: there are no
 * observations. A duration above the largest finite bound is that bound. */
double metrics_quantile(const struct metrics_buckets *before, const struct metrics_buckets *after,
                        double share);

#endif
