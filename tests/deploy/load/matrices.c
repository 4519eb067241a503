#include "tests/deploy/load/matrices.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/deploy/load/random.h"

struct shape {
    uint32_t m, n, k;
};

static const struct shape small_shapes[MATRICES_SMALL] = {
    {1, 16, 32},  {3, 8, 40},   {16, 16, 16}, {24, 24, 24},
    {32, 16, 48}, {32, 32, 32}, {1, 64, 64},  {48, 32, 40},
};
/* The second body has more than 1 MiB: libgemmd asks the daemon (100 Continue) before sending it.
 */
static const struct shape large_shapes[MATRICES_LARGE] = {{256, 64, 256}, {512, 32, 512}};
/* Rows of a token or of a few tokens on a weight. */
static const struct shape resident_shapes[MATRICES_ROWS] = {
    {1, 64, 128}, {2, 64, 128}, {4, 64, 128}, {8, 64, 128}};

static size_t floats_of(struct shape shape)
{
    return (size_t)shape.m * shape.k + (size_t)shape.k * shape.n + (size_t)shape.m * shape.n;
}

static size_t floats_of_all(uint32_t tensors)
{
    size_t floats = 0, rows = 0;
    for (int i = 0; i < MATRICES_SMALL; i++)
        floats += floats_of(small_shapes[i]);
    for (int i = 0; i < MATRICES_LARGE; i++)
        floats += floats_of(large_shapes[i]);
    for (int i = 0; i < MATRICES_ROWS; i++)
        rows += floats_of(resident_shapes[i]);
    return floats + rows * tensors;
}

static void multiply(const struct matrix_product *product, float *c)
{
    for (uint32_t i = 0; i < product->m; i++)
        for (uint32_t j = 0; j < product->n; j++) {
            float sum = 0;
            for (uint32_t l = 0; l < product->k; l++)
                sum +=
                    product->a[(size_t)i * product->k + l] * product->b[(size_t)l * product->n + j];
            c[(size_t)i * product->n + j] = sum;
        }
}

static float *fill(float *at, size_t count, uint64_t *random)
{
    for (size_t i = 0; i < count; i++)
        at[i] = (float)((int)(random_next(random) % 9) - 4);
    return at + count;
}

/* Makes one product at `at`. With `b` set, that is the product's B. Returns the end of the memory
 * that the product takes. */
static float *make(struct matrix_product *product, struct shape shape, const float *b, float *at,
                   uint64_t *random)
{
    product->m = shape.m;
    product->n = shape.n;
    product->k = shape.k;
    product->a = at;
    at = fill(at, (size_t)shape.m * shape.k, random);
    product->b = b != NULL ? b : at;
    if (b == NULL)
        at = fill(at, (size_t)shape.k * shape.n, random);
    product->c = at;
    multiply(product, at);
    return at + (size_t)shape.m * shape.n;
}

/* With the names w.0, w.1, ... the hash of HAProxy alone would give one of three daemons 1.35 times
 * the mean of the requests of fleet_load.c: the load is even only if HAProxy bounds it. */
bool matrices_make(struct matrices *matrices, uint32_t tensors)
{
    uint64_t random = 1;
    float *at = calloc(floats_of_all(tensors), sizeof *at);
    *matrices = (struct matrices){
        .tensors = tensors,
        .memory = at,
        .resident = calloc((size_t)tensors * MATRICES_ROWS, sizeof *matrices->resident),
        .small = calloc(MATRICES_SMALL, sizeof *matrices->small),
        .large = calloc(MATRICES_LARGE, sizeof *matrices->large)};
    if (at == NULL || matrices->resident == NULL || matrices->small == NULL ||
        matrices->large == NULL) {
        matrices_free(matrices);
        return false;
    }
    for (int i = 0; i < MATRICES_SMALL; i++)
        at = make(&matrices->small[i], small_shapes[i], NULL, at, &random);
    for (int i = 0; i < MATRICES_LARGE; i++)
        at = make(&matrices->large[i], large_shapes[i], NULL, at, &random);
    for (uint32_t t = 0; t < tensors; t++) {
        struct matrix_product *products = &matrices->resident[(size_t)t * MATRICES_ROWS];
        random = t + 1;
        for (int i = 0; i < MATRICES_ROWS; i++) {
            at = make(&products[i], resident_shapes[i], i > 0 ? products[0].b : NULL, at, &random);
            snprintf(products[i].name, sizeof products[i].name, "w.%u", t);
        }
    }
    return true;
}

void matrices_free(struct matrices *matrices)
{
    free(matrices->resident);
    free(matrices->small);
    free(matrices->large);
    free(matrices->memory);
}
