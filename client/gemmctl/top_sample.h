/*
 * top_sample.h - what gemmctl top shows: two looks at the daemon, and what happened between them.
 */
#ifndef GEMMCTL_TOP_SAMPLE_H
#define GEMMCTL_TOP_SAMPLE_H

#include <gemmd/gemmd.h>
#include <jansson.h>
#include <stdbool.h>

/* ---- metrics in Prometheus' text format ---- */

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

/* ---- looks ---- */

enum { TOP_OPS_MAX = 32, TOP_TENSORS_MAX = 256 };

/* The requests that the daemon counts together: those of an operation, such as "gemm", those of the
 * inference protocol ("infer"), those for tensors ("tensor"), or all others ("other"). */
struct top_op {
    char name[32];
    struct metrics_buckets buckets; /* of the durations of requests, in seconds */
};

/* What the daemon counts for a look itself, between the metrics of the look and those of the next
 * one. */
struct top_own {
    double other;     /* requests of the kind "other": for metrics and for the description */
    double tensor;    /* requests for pages of the list of tensors */
    double forbidden; /* requests for the list that were answered with 403 */
    double bytes;     /* of metrics and description */
};

/* One look. */
struct top_look {
    double time_s;                /* of the clock CLOCK_MONOTONIC */
    char *metrics;                /* the daemon's metrics; NULL: there was no look yet */
    json_t *info;                 /* the daemon's description of itself */
    struct gemmd_tensor *tensors; /* the largest ones, in the order of their size */
    uint32_t tensor_count;
    uint64_t tensors_listed; /* the daemon's tensors, of which `tensors` are some */
    struct top_own own;
    struct top_op *ops; /* first the operations that the daemon has kernels for */
    uint32_t op_count;
};

/* Asks the daemon for metrics, description and tensors. A token without the scope for the list of
 * tensors sees none of them. The caller calls top_look_free in any case. */
enum gemmd_error top_look(struct gemmd_client *client, struct top_look *look,
                          struct gemmd_error_info *error);
void top_look_free(struct top_look *look);

/* How much a counter has grown from one look to the next per second, without what the look itself
 * has added. A daemon that has started anew counts from 0. */
double top_rate(const struct top_look *before, const struct top_look *after, const char *name,
                const char *label);
/* The duration in seconds that `share` of the requests of kind `op` between the looks did not
 * exceed; negative: there were none. `op` is the name of a struct top_op; NULL: all requests that
 * compute. */
double top_quantile(const struct top_look *before, const struct top_look *after, const char *op,
                    double share);

#endif
