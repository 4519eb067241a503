/* Random packed weights of every format for the tests of files and products. */
#ifndef GEMMD_TESTS_PACKED_WEIGHTS_H
#define GEMMD_TESTS_PACKED_WEIGHTS_H

#include "proto/packed.h"

/* A matrix of weights, and the file that holds it. */
struct weights {
    enum packed_format format;
    uint32_t bits;
    uint64_t k, n, group;
    enum gemmd_dtype scale_dtype;
    bool has_zeros;
    uint8_t *q;     /* [k][n] */
    uint8_t *zeros; /* [groups][n]: as numbers, not as stored */
    float *scales;  /* [groups][n] */
    unsigned char *file;
    uint64_t file_bytes;
};

/* The formats with the widths, groups, types of scales and zero points that are tested. */
enum { WEIGHTS_CASES = 20 };
extern const struct weights weights_cases[WEIGHTS_CASES];

/* Draws the weights and writes their file; w says format, bits, sizes and the type of the scales.
 * weights_destroy frees what this allocates. */
void weights_create(struct weights *w, uint64_t seed);
void weights_destroy(struct weights *w);
/* The value of an element of B. */
double weights_element(const struct weights *w, uint64_t p, uint64_t j);
/* The file as packed_find and packed_check see it, which must take it. */
struct packed_file weights_found(const struct weights *w);
/* The arrangement of the file in memory, which the caller frees. */
unsigned char *weights_arranged(const struct packed_file *file);

#endif
