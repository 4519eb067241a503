/*
 * share.h - a check in several processes, each of which takes every N-th case.
 */
#ifndef TESTS_GPU_SHARE_H
#define TESTS_GPU_SHARE_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

/* "I/N", I less than N. */
static inline bool share_parse(const char *text, uint32_t *share, uint32_t *shares)
{
    char end;
    return sscanf(text, "%" SCNu32 "/%" SCNu32 "%c", share, shares, &end) == 2 && *share < *shares;
}

#endif
