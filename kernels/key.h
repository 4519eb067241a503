/*
 * key.h - a number that is the same for what is equal, and hardly ever for what is not.
 */
#ifndef KERNELS_KEY_H
#define KERNELS_KEY_H

#include <stdint.h>

/* Of these words; never 0. Its high bits are the better ones. Pure, any thread. */
uint64_t key_of_words(const uint64_t *words, uint32_t count);

#endif
