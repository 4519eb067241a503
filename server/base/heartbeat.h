/*
 * heartbeat.h - the heartbeat of one thread: a count that the thread increases in each iteration of
 * its loop, and that another thread watches.
 *
 * Only the watched thread calls heartbeat_beat. Only one other thread calls heartbeat_look.
 */
#ifndef SERVER_BASE_HEARTBEAT_H
#define SERVER_BASE_HEARTBEAT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Zeroed: the thread has not beaten yet. */
struct heartbeat {
    atomic_uint_fast64_t beats;
    uint64_t seen; /* the watching thread's own */
};

static inline void heartbeat_beat(struct heartbeat *heartbeat)
{
    const uint64_t beats = atomic_load_explicit(&heartbeat->beats, memory_order_relaxed);
    atomic_store_explicit(&heartbeat->beats, beats + 1, memory_order_relaxed);
}

/* Whether the thread has beaten since the last look. */
static inline bool heartbeat_look(struct heartbeat *heartbeat)
{
    const uint64_t beats = atomic_load_explicit(&heartbeat->beats, memory_order_relaxed);
    const bool alive = beats != heartbeat->seen;
    heartbeat->seen = beats;
    return alive;
}

#endif
