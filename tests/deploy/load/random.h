/*
 * random.h - pseudo-random numbers that are the same in every run: SplitMix64 (Steele, Lea, Flood,
 * "Fast splittable pseudorandom number generators").
 */
#ifndef TESTS_DEPLOY_LOAD_RANDOM_H
#define TESTS_DEPLOY_LOAD_RANDOM_H

#include <stdint.h>

static inline uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* A number from 0 inclusive to 1 exclusive. */
static inline double random_fraction(uint64_t *state)
{
    return (double)(random_next(state) >> 11) * 0x1p-53;
}

#endif
