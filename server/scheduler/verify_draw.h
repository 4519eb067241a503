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

struct verify_draw {
    uint64_t sample_key, seed_key;
    atomic_uint_fast64_t samples, seeds; /* drawn so far */
};

/* Draws the keys. Called before other threads use `draw`. False: the system gives no random
 * numbers. */
bool verify_draw_init(struct verify_draw *draw);
/* Whether a product belongs to the sample. `share` is in millionths; nothing is drawn for 0. */
bool verify_draw_sample(struct verify_draw *draw, uint32_t share);
/* The seed of the next check (kernels/freivalds.h). */
uint64_t verify_draw_seed(struct verify_draw *draw);

#endif
