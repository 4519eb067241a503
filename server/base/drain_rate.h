/*
 * drain_rate.h - how fast requests and bytes end, from which Retry-After is computed.
 *
 * The numbers of requests and bytes that end per second are smoothed over some seconds by a
 * first-order low-pass filter. Only time in which requests are held counts, because an idle daemon
 * does not show how fast requests would end. Pure functions; the caller provides the time. Not
 * thread-safe.
 */
#ifndef SERVER_BASE_DRAIN_RATE_H
#define SERVER_BASE_DRAIN_RATE_H

#include <stdbool.h>
#include <stdint.h>

enum { DRAIN_SECONDS_MIN = 1, DRAIN_SECONDS_MAX = 60 };

/* Zeroed: nothing is known. */
struct drain_rate {
    uint64_t sampled_ns, ended, ended_bytes; /* of the last sample */
    bool was_busy;
    double weight;                   /* of all samples together, 0 ... 1 */
    double weighted, weighted_bytes; /* requests and bytes per second, times `weight` */
    double quiet_s;                  /* how long nothing has ended while something was held */
};

/* Adds a sample. `ended` and `ended_bytes` are totals since the start. `busy`: something is held
 * now. */
void drain_rate_sample(struct drain_rate *rate, uint64_t now_ns, uint64_t ended,
                       uint64_t ended_bytes, bool busy);

/* Seconds until so many requests, or so many bytes, have ended, for Retry-After: rounded up, and
 * limited to DRAIN_SECONDS_MIN ... DRAIN_SECONDS_MAX. If nothing has ever ended, the time for which
 * nothing has ended so far. */
uint32_t drain_rate_seconds(const struct drain_rate *rate, uint64_t requests);
uint32_t drain_rate_seconds_bytes(const struct drain_rate *rate, uint64_t bytes);

#endif
