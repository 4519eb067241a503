/*
 * freivalds_parts.h - functions that freivalds.c and freivalds_i32.c share.
 */
#ifndef KERNELS_FREIVALDS_PARTS_H
#define KERNELS_FREIVALDS_PARTS_H

#include "kernels/gemm.h"

/* The next number of a pseudo-random sequence (S. Vigna's splitmix64; public domain). */
static inline uint64_t freivalds_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* The check of i8 products to i32: exact modulo 2^32, residual 0 or larger than 1. */
enum gemmd_error freivalds_check_i32(const struct gemm_problem *problem, uint64_t seed,
                                     double *residual);

#endif
