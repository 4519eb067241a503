/*
 * model_stats.h - the statistics of one model, as the statistics extension of the Open Inference
 * Protocol defines them: numbers of requests, and the times of their stages.
 *
 * A struct model_stats is zeroed at first. Any thread may count and read. Each number is exact;
 * numbers that are read together may be of slightly different times.
 */
#ifndef SERVER_OBSERVE_MODEL_STATS_H
#define SERVER_OBSERVE_MODEL_STATS_H

#include <stdatomic.h>
#include <stdint.h>

struct model_stats {
    _Atomic uint64_t success_count, success_ns; /* from the request line to the answer */
    _Atomic uint64_t fail_count, fail_ns;
    _Atomic uint64_t queue_ns, input_ns, infer_ns, output_ns; /* of requests that succeeded */
    _Atomic uint64_t launches; /* shares of launches, in units of 2^-32 of a launch */
    _Atomic uint64_t last_ms;  /* time of the last request, since the epoch; 0: there was none */
};

/* The durations of the stages of one request, and the number of requests in its launch (0 counts as
 * 1). */
struct model_stages {
    uint64_t queue_ns, input_ns, infer_ns, output_ns;
    uint64_t total_ns; /* from the request line to the answer */
    uint32_t launch_requests;
};

/* Counts a request that was answered with a result. */
void model_stats_success(struct model_stats *stats, const struct model_stages *stages);
/* Counts a request that was answered with an error, or not at all. */
void model_stats_fail(struct model_stats *stats, uint64_t total_ns);
/* Number of launches of the model's requests. A launch that is shared with other models counts in
 * part. */
uint64_t model_stats_executions(const struct model_stats *stats);

#endif
