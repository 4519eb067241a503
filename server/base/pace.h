/*
 * pace.h - whether a body or an answer moves fast enough. Pure functions; times are of the
 * monotonic clock in nanoseconds, rates are averages since `since_ns`.
 */
#ifndef SERVER_BASE_PACE_H
#define SERVER_BASE_PACE_H

#include <stdbool.h>
#include <stdint.h>

/* Whether `moved` bytes until `now_ns` are fewer than `least_rate` a second. */
bool pace_is_below(uint64_t moved, uint64_t since_ns, uint64_t now_ns, uint64_t least_rate);
/* Whether `bytes` bytes, of which `moved` were moved until `now_ns`, cannot be complete by
 * `until_ns` even at twice the average rate so far. */
bool pace_misses(uint64_t bytes, uint64_t moved, uint64_t since_ns, uint64_t now_ns,
                 uint64_t until_ns);

#endif
