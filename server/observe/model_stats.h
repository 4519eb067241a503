/*
 * model_stats.h - what became of the requests to one model, phase by phase, as the Open Inference
 * Protocol's statistics extension counts it.
 *
 * Zeroed at first. Any thread; each number is exact, and all of them together are as of about the
 * same time.
 */
#ifndef SERVER_OBSERVE_MODEL_STATS_H
#define SERVER_OBSERVE_MODEL_STATS_H

#include <stdatomic.h>
#include <stdint.h>

struct model_stats {
    _Atomic uint64_t success_count, success_ns; /* from the first line to the answer */
    _Atomic uint64_t fail_count, fail_ns;
    _Atomic uint64_t queue_ns, input_ns, infer_ns, output_ns; /* of those that succeeded */
    _Atomic uint64_t launches; /* shares of them, in 2^-32 of a launch */
    _Atomic uint64_t last_ms;  /* since the epoch; 0: there was none */
};

/* How long the stages of one request took, and how many requests shared its launch (0 counts as
 * 1). */
struct model_stages {
    uint64_t queue_ns, input_ns, infer_ns, output_ns;
    uint64_t total_ns; /* from the request line to the answer */
    uint32_t launch_requests;
};

/* A request was answered with a result. */
void model_stats_success(struct model_stats *stats, const struct model_stages *stages);
/* It was answered with an error, or not at all. */
void model_stats_fail(struct model_stats *stats, uint64_t total_ns);
/* Launches that the model's requests took; one shared with other models counts in part. */
uint64_t model_stats_executions(const struct model_stats *stats);

#endif
