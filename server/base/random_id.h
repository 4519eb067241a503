/* random_id.h - random numbers, and ids that are unique but need not be hard to guess: of requests,
 * traces and spans. Pure functions of the generator's state, which may start with any value. */
#ifndef SERVER_BASE_RANDOM_ID_H
#define SERVER_BASE_RANDOM_ID_H

#include <stdint.h>

enum { RANDOM_ID_TEXT = 16 };

static inline uint64_t random_number(uint64_t *state)
{
    /* splitmix64 (S. Vigna). */
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Writes 16 hexadecimal digits that are not all 0. */
static inline void random_id(char id[RANDOM_ID_TEXT + 1], uint64_t *state)
{
    uint64_t z;
    do
        z = random_number(state);
    while (z == 0);
    for (int i = 0; i < RANDOM_ID_TEXT; i++, z <<= 4)
        id[i] = "0123456789abcdef"[z >> 60];
    id[RANDOM_ID_TEXT] = '\0';
}

#endif
