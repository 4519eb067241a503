/*
 * key.h - a hash of words, for finding requests that can share a launch.
 */
#ifndef KERNELS_KEY_H
#define KERNELS_KEY_H

#include <stdint.h>

/* The hash of `count` words, never 0. The high bits are mixed better than the low ones. Pure, any
 * thread. */
uint64_t key_of_words(const uint64_t *words, uint32_t count);

#endif
