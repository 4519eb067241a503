/* random_id.h - random numbers, and ids that are unique but need not be hard to guess: of requests,
 * traces and spans. Pure functions of the generator's state, which may start with any value. */
#ifndef SERVER_BASE_RANDOM_ID_H
#define SERVER_BASE_RANDOM_ID_H

#include <stdint.h>

enum { RANDOM_ID_TEXT = 16 };

uint64_t random_number(uint64_t *state);
/* Writes 16 hexadecimal digits that are not all 0. */
void random_id(char id[RANDOM_ID_TEXT + 1], uint64_t *state);

#endif
