/*
 * matrices.h - the operands of the fleet's load, and the products that they must have.
 *
 * All elements are whole numbers from -4 to 4, so that every product is exact in f32, whatever the
 * order of its sums. The content of a tensor depends only on the number in the tensor's name.
 * Written once by matrices_make(), then read by every thread.
 */
#ifndef TESTS_DEPLOY_LOAD_MATRICES_H
#define TESTS_DEPLOY_LOAD_MATRICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A product C = A B with operands that travel, or, if `name` is set, with B as a resident tensor.
 */
struct matrix_product {
    uint32_t m, n, k;
    const float *a, *b; /* [m, k] and [k, n] */
    const float *c;     /* [m, n]: the right answer */
    char name[32];      /* the name of the tensor that is B, or "" */
};

struct matrices {
    struct matrix_product *resident; /* [tensors * MATRICES_ROWS], those of a tensor in a row */
    struct matrix_product *small;    /* [MATRICES_SMALL]: bodies of some KiB */
    struct matrix_product *large;    /* [MATRICES_LARGE]: bodies that no proxy's buffer holds */
    uint32_t tensors;
    float *memory;
};

/* Products with each tensor; products with operands of their own. */
enum { MATRICES_ROWS = 4, MATRICES_SMALL = 8, MATRICES_LARGE = 2 };

/* Makes the products of `tensors` resident tensors and those without. Returns false if there is no
 * memory. */
bool matrices_make(struct matrices *matrices, uint32_t tensors);
void matrices_free(struct matrices *matrices);

#endif
