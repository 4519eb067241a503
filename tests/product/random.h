/*
 * random.h - random numbers for tests, the same for the same seed (S. Vigna's splitmix64).
 */
#ifndef TESTS_PRODUCT_RANDOM_H
#define TESTS_PRODUCT_RANDOM_H

#include <stdint.h>

static inline uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline double random_unit(uint64_t *state) /* [-1, 1) */
{
    return (double)(random_next(state) >> 11) * 0x1p-52 - 1;
}

#endif
