/*
 * drain_rate.h - how fast places come free: what Retry-After is computed from.
 *
 * Requests and bytes that ended per second, smoothed over some seconds by a first-order low pass.
 * Only time in which something was held counts: that nothing ends while nothing is there says
 * nothing about how fast it would. Pure: the caller brings the clock. Not thread-safe.
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
    double weight;                   /* of what was seen, 0 ... 1 */
    double weighted, weighted_bytes; /* a second, times the weight */
    double quiet_s;                  /* busy, and nothing ended, for so long by now */
};

/* `ended` and `ended_bytes` count from the start; `busy`: something is held now. */
void drain_rate_sample(struct drain_rate *rate, uint64_t now_ns, uint64_t ended,
                       uint64_t ended_bytes, bool busy);

/* Seconds until so many have ended, as Retry-After wants them: rounded up, DRAIN_SECONDS_MIN ...
 * DRAIN_SECONDS_MAX. Where none was ever seen to end: as long again as nothing has ended by now. */
uint32_t drain_rate_seconds(const struct drain_rate *rate, uint64_t requests);
uint32_t drain_rate_seconds_bytes(const struct drain_rate *rate, uint64_t bytes);

#endif
