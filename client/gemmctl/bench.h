/*
 * bench.h - the measurements of a run of gemmctl bench.
 */
#ifndef GEMMCTL_BENCH_H
#define GEMMCTL_BENCH_H

#include "client/gemmctl/bench_subject.h"
#include "client/gemmctl/command.h"
#include "client/gemmctl/latency.h"

struct bench_run {
    struct bench_subject subject; /* the request that was repeated */
    uint32_t connections, in_flight;
    double elapsed_s;
    uint64_t errors[GEMMD_ERR_COUNT];
    uint64_t error_count;
    struct gemmd_error_info first_error;
    uint64_t
        launches_sum; /* sum over all answers of the number of requests that shared the launch */
    char kernel[32];
    struct latency latency; /* latencies of the requests that were answered */
};

/* Prints the measurements on standard output: lines, or with --json a JSON object. */
void bench_report(const struct context *context, const struct bench_run *run);

#endif
