/*
 * verify_draw.h - chooses the products that are verified although their clients did not ask for it
 * (--verify-share), and the random vector of each check.
 *
 * The keys are random and never leave the daemon, so that no client can choose operands for which a
 * wrong result would pass. All functions may be called from any thread.
 */
#ifndef SERVER_SCHEDULER_VERIFY_DRAW_H
#define SERVER_SCHEDULER_VERIFY_DRAW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/random.h>

#include "server/base/random_id.h"

struct verify_draw {
    uint64_t sample_key, seed_key;
    atomic_uint_fast64_t samples, seeds; /* drawn so far */
};

/* Draws the keys. Called before other threads use `draw`. False: the system gives no random
 * numbers. */
static inline bool verify_draw_init(struct verify_draw *draw)
{
    uint64_t keys[2];
    if (getrandom(keys, sizeof keys, 0) != (ssize_t)sizeof keys)
        return false;
    draw->sample_key = keys[0];
    draw->seed_key = keys[1];
    return true;
}

/* Number `index` of the sequence that the key chooses. */
static inline uint64_t verify_draw_number(uint64_t key, uint64_t index)
{
    uint64_t state = key ^ random_number(&index);
    return random_number(&state);
}

/* Whether a product belongs to the sample. `share` is in millionths; nothing is drawn for 0. */
static inline bool verify_draw_sample(struct verify_draw *draw, uint32_t share)
{
    if (share == 0)
        return false;
    return verify_draw_number(draw->sample_key, atomic_fetch_add(&draw->samples, 1)) % 1000000 <
           share;
}

/* The seed of the next check (kernels/freivalds.h). */
static inline uint64_t verify_draw_seed(struct verify_draw *draw)
{
    return verify_draw_number(draw->seed_key, atomic_fetch_add(&draw->seeds, 1));
}

#endif
