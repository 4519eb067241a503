/*
 * backoff.h - how long to wait before a request is sent again.
 *
 * Full jitter: a uniform random time up to an exponentially growing bound, which spreads
 * clients that were refused together. Marc Brooker, "Exponential Backoff And Jitter", AWS
 * Architecture Blog, 2015.
 */
#ifndef CLIENT_BACKOFF_H
#define CLIENT_BACKOFF_H

#include <stdint.h>

enum { BACKOFF_BASE_MS = 50, BACKOFF_CAP_MS = 5000 };

/* Returns a seed from the system for the `random` of backoff_us. Never 0. */
uint64_t backoff_seed(void);
/* Returns the time to wait, in microseconds, after `attempts` (at least 1) unsuccessful attempts:
 * retry_after_ms, which the daemon asked for, plus a random time up to
 * min(BACKOFF_CAP_MS, BACKOFF_BASE_MS * 2^(attempts - 1)). `*random` is the state of the random
 * number generator. */
uint64_t backoff_us(uint32_t attempts, uint32_t retry_after_ms, uint64_t *random);

#endif
