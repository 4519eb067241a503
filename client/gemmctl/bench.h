/*
 * bench.h - what a run of gemmctl bench measured.
 */
#ifndef GEMMCTL_BENCH_H
#define GEMMCTL_BENCH_H

#include "client/gemmctl/bench_subject.h"
#include "client/gemmctl/command.h"
#include "client/gemmctl/latency.h"

struct bench_run {
    struct bench_subject subject; /* what was asked, again and again */
    uint32_t connections, in_flight;
    double elapsed_s;
    uint64_t errors[GEMMD_ERR_COUNT];
    uint64_t error_count;
    struct gemmd_error_info first_error;
    uint64_t launches_sum; /* of the requests that shared a launch, over all answers */
    char kernel[32];
    struct latency latency; /* of those that were answered */
};

/* On standard output: lines, or an object with --json. */
void bench_report(const struct context *context, const struct bench_run *run);

#endif
