/* clock.h - the monotonic clock, in nanoseconds. Deadlines and durations use no other clock. */
#ifndef SERVER_BASE_CLOCK_H
#define SERVER_BASE_CLOCK_H

#include <limits.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t clock_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The milliseconds from `now_ns` until `due_ns`, rounded up, for poll(2); -1 if `due_ns` is
 * UINT64_MAX: there is no end. */
static inline int clock_ms_until(uint64_t due_ns, uint64_t now_ns)
{
    if (due_ns == UINT64_MAX)
        return -1;
    const uint64_t left_ns = due_ns > now_ns ? due_ns - now_ns : 0;
    const uint64_t left_ms = left_ns / 1000000 + (left_ns % 1000000 != 0);
    return left_ms > INT_MAX ? INT_MAX : (int)left_ms;
}

#endif
