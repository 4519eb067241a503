/*
 * conv_sample.h - random convolutions for testing kernels with, and whether a kernel's result is
 * right.
 *
 * Each operand lies in a buffer with guard zones of NaN (or 127) before and after it. What a result
 * should be is computed as a product of gathered patches in long double (product.h), with the same
 * bound on the error.
 */
#ifndef TESTS_CONV_SAMPLE_H
#define TESTS_CONV_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/conv.h"
#include "tests/product/product.h"

enum conv_part { CONV_X, CONV_W, CONV_BIAS, CONV_Y, CONV_PARTS };

struct conv_sample {
    struct conv_problem problem; /* pointing into the buffers */
    struct product_buffer buffers[CONV_PARTS];
    struct product *groups; /* one product for each group, with the images as its batch */
};

/* Types, shape, scalars and activation are taken from `like`, whose pointers are ignored; a bias if
 * like->bias is not NULL. The shape need not be settled. False if memory is lacking or the shape is
 * not valid. */
bool conv_sample_create(struct conv_sample *sample, const struct conv_problem *like,
                        enum product_fill fill, uint64_t seed);
void conv_sample_destroy(struct conv_sample *sample);

/* Fills Y and all around it with what no convolution of random numbers is. */
void conv_sample_poison(struct conv_sample *sample);

/* Whether Y is right and nothing around it was written; as product_check. */
bool conv_sample_check(const struct conv_sample *sample, double sum_error, double *worst,
                       char *text, uint64_t size);

/* "bf16 to bf16, nchw, 2 x 3 x 5 x 7, ..." */
void conv_describe(const struct conv_problem *problem, char *text, uint64_t size);

/* The number of problems that conv_case has, and problem `number`, without pointers (but a bias
 * that is not NULL where the problem has one): odd sizes, strides, dilations, groups, paddings,
 * layouts and activations, in the given types. */
unsigned conv_case_count(void);
struct conv_problem conv_case(unsigned number, enum gemmd_dtype dtype, enum gemmd_dtype out,
                              enum gemm_precision precision);

#endif
