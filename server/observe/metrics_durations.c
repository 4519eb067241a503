/* The families of histograms: durations of requests, stages and waits, and sizes of launches. */
#include <stddef.h>
#include <string.h>

#include "server/observe/metrics_families.h"

enum { LABELS_MAX = 160 };

static const char *const stage_names[METRICS_STAGE_COUNT] = {"receive", "queue", "h2d",
                                                             "kernel",  "d2h",   "send"};

const char *metrics_stage_name(enum metrics_stage stage)
{
    return stage_names[stage];
}

/* Writes a histogram. A histogram in which nothing was counted is left out, unless `always`. */
static void write_histogram(struct metrics_writer *writer, const struct metrics *metrics,
                            const char *labels, size_t offset, const uint64_t *bounds,
                            uint32_t count, bool always, const struct metrics_exemplar *exemplars)
{
    uint64_t buckets[METRICS_BUCKETS_MAX + 1], observed = 0;
    for (uint32_t i = 0; i <= count; i++) {
        buckets[i] = metrics_shards_sum(
            metrics, offset + offsetof(struct metrics_histogram, buckets) + i * sizeof(uint64_t));
        observed += buckets[i];
    }
    const uint64_t sum =
        metrics_shards_sum(metrics, offset + offsetof(struct metrics_histogram, sum));
    if (observed == 0 && !always)
        return;
    if (bounds != metrics_launch_bounds)
        metrics_sample_times(writer, labels, buckets, bounds, count, sum, exemplars);
    else
        metrics_sample_histogram(writer, labels, buckets, bounds, count, sum, 1);
}

/* Whether a histogram of a family has buckets of its own. The first `most` histograms that a scrape
 * finds used get buckets, and keep them. */
static bool has_buckets(struct metrics *metrics, struct metrics_shown *shown, uint32_t most,
                        uint32_t number)
{
    bool has = false;
    pthread_mutex_lock(&metrics->shown_lock);
    for (uint32_t i = 0; i < shown->count; i++)
        has |= shown->list[i] == number;
    if (!has && shown->count < most) {
        shown->list[shown->count++] = number;
        has = true;
    }
    pthread_mutex_unlock(&metrics->shown_lock);
    return has;
}

/* The totals of a histogram: its sum, and its number of observations. */
struct observed {
    uint64_t count, sum;
};

static struct observed observed_in(const struct metrics *metrics, size_t offset)
{
    struct observed observed = {
        .sum = metrics_shards_sum(metrics, offset + offsetof(struct metrics_histogram, sum))};
    for (uint32_t i = 0; i <= METRICS_BUCKETS_MAX; i++)
        observed.count += metrics_shards_sum(
            metrics, offset + offsetof(struct metrics_histogram, buckets) + i * sizeof(uint64_t));
    return observed;
}

/* Writes all histograms without buckets of their own as one histogram, whose only bucket is +Inf.
 */
static void write_other_times(struct metrics_writer *writer, struct observed observed)
{
    if (observed.count > 0)
        metrics_sample_times(writer, "op=\"\"", &observed.count, NULL, 0, observed.sum, NULL);
}

static void copy_exemplars(struct metrics *metrics, const struct metrics_exemplar *from,
                           struct metrics_exemplar *to, uint32_t count)
{
    pthread_mutex_lock(&metrics->exemplars_lock);
    memcpy(to, from, count * sizeof *to);
    pthread_mutex_unlock(&metrics->exemplars_lock);
}

/* Writes the durations of requests by operation, with the exemplars if the viewer may see them. */
void metrics_write_durations(struct metrics_writer *writer, struct metrics *metrics,
                             bool shows_exemplars)
{
    char labels[LABELS_MAX];
    struct metrics_exemplar exemplars[METRICS_TIME_BUCKETS + 1];
    metrics_family(
        writer, "gemmd_request_duration_seconds", METRICS_HISTOGRAM,
        "Time from the first byte of a request to the last byte of its answer. Operations "
        "after the first 4 that were used are counted together, without buckets.");
    /* Probes and scrapes, METRICS_OP_OTHER, are counted only. */
    struct observed others = {0, 0};
    for (size_t op = 0; op < METRICS_OP_OTHER; op++) {
        const struct observed here =
            observed_in(metrics, offsetof(struct metrics_shard, duration) +
                                     op * sizeof(struct metrics_histogram));
        if (here.count > 0 &&
            !has_buckets(metrics, &metrics->shown_durations, METRICS_DURATIONS_MAX, (uint32_t)op)) {
            others.count += here.count;
            others.sum += here.sum;
            continue;
        }
        snprintf(labels, sizeof(labels), "op=\"%s\"", metrics_op_name((enum metrics_op)op));
        copy_exemplars(metrics, metrics->exemplars[op], exemplars, METRICS_TIME_BUCKETS + 1);
        write_histogram(writer, metrics, labels,
                        offsetof(struct metrics_shard, duration) +
                            op * sizeof(struct metrics_histogram),
                        metrics_time_bounds_ns, METRICS_TIME_BUCKETS, false,
                        shows_exemplars ? exemplars : NULL);
    }
    write_other_times(writer, others);
}

void metrics_write_histograms(struct metrics_writer *writer, struct metrics *metrics,
                              bool shows_exemplars)
{
    char labels[LABELS_MAX];
    struct metrics_exemplar exemplars[METRICS_STAGE_BUCKETS + 1];
    metrics_family(
        writer, "gemmd_stage_duration_seconds", METRICS_HISTOGRAM,
        "Time that a request to compute spends in each stage. Requests without copies are "
        "not counted in h2d and d2h.");
    for (size_t stage = 0; stage < METRICS_STAGE_COUNT; stage++) {
        snprintf(labels, sizeof(labels), "stage=\"%s\"", stage_names[stage]);
        copy_exemplars(metrics, metrics->stage_exemplars[stage], exemplars,
                       METRICS_STAGE_BUCKETS + 1);
        const bool copies = stage == METRICS_STAGE_H2D || stage == METRICS_STAGE_D2H;
        write_histogram(writer, metrics, labels,
                        offsetof(struct metrics_shard, stages) +
                            stage * sizeof(struct metrics_histogram),
                        metrics_stage_bounds_ns, METRICS_STAGE_BUCKETS, !copies,
                        shows_exemplars ? exemplars : NULL);
    }
    metrics_family(writer, "gemmd_queue_wait_seconds", METRICS_HISTOGRAM,
                   "Time that works waited in the queue, by what the device then did: an operation "
                   "such as gemm (for requests to infer too), or copy (of a resident tensor).");
    struct observed others = {0, 0};
    for (size_t task = 0; task < METRICS_KIND_COUNT; task++) {
        const struct observed here =
            observed_in(metrics, offsetof(struct metrics_shard, queue_wait) +
                                     task * sizeof(struct metrics_histogram));
        if (here.count > 0 &&
            !has_buckets(metrics, &metrics->shown_waits, METRICS_WAITS_MAX, (uint32_t)task)) {
            others.count += here.count;
            others.sum += here.sum;
            continue;
        }
        snprintf(labels, sizeof(labels), "op=\"%s\"", metrics_task_name((enum metrics_kind)task));
        write_histogram(writer, metrics, labels,
                        offsetof(struct metrics_shard, queue_wait) +
                            task * sizeof(struct metrics_histogram),
                        metrics_stage_bounds_ns, METRICS_STAGE_BUCKETS, false, NULL);
    }
    write_other_times(writer, others);
    metrics_family(writer, "gemmd_batch_size", METRICS_HISTOGRAM,
                   "Requests computed by one launch on the device.");
    write_histogram(writer, metrics, "", offsetof(struct metrics_shard, launch_requests),
                    metrics_launch_bounds, METRICS_LAUNCH_BUCKETS, true, NULL);
}
