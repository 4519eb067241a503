/*
 * product.h - random products for testing kernels with, and whether a kernel's result is right.
 *
 * Every operand lies in a buffer with guard zones before and after it and, if asked for,
 * gaps between its rows. Zones and gaps of the operands hold NaN (or 127), so that reading one
 * shows in the result; those of C must come back as they were.
 *
 * Right is: within what rounding explains of the product computed in long double. For the sum
 * that is (k + 4) units of the accumulator's last place on the sum of the magnitudes, a bound that
 * any order of additions keeps (N. Higham, "Accuracy and Stability of Numerical Algorithms", 2002,
 * section 3.1), and that proto/PROTOCOL.md promises with what follows the sum. Integers are exact
 * modulo 2^32.
 */
#ifndef TESTS_PRODUCT_H
#define TESTS_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/gemm.h"

enum product_part {
    PRODUCT_A,
    PRODUCT_B,
    PRODUCT_BIAS,
    PRODUCT_C0,
    PRODUCT_A_SCALE,
    PRODUCT_B_SCALE,
    PRODUCT_C,
    PRODUCT_PARTS
};

enum product_fill {
    PRODUCT_UNIFORM, /* [-1, 1], and all of i8 */
    PRODUCT_SPECIAL, /* the same with NaN and infinities strewn in */
    PRODUCT_EXTREME, /* the largest of f16, and i8 sums beyond 32 bits */
};

struct product_buffer {
    unsigned char *data; /* NULL if the problem has no such part */
    uint64_t bytes;      /* guard zones included */
    uint64_t offset;     /* of the first element; a multiple of 256 */
};

struct product {
    struct gemm_problem problem; /* pointing into the buffers */
    struct product_buffer buffers[PRODUCT_PARTS];
    long double *expected;   /* [batch][m][n] */
    long double *magnitude;  /* of the sum: |A| * |B| */
    long double *summands;   /* |alpha * sum| + |beta * c0| + |bias| */
    long double *before_act; /* alpha * sum + beta * c0 + bias */
};

/* What is wanted of a product: its types, shape, scalars and activation are taken from `like`,
 * whose pointers, leading dimensions and strides are ignored; a bias if like->bias is not
 * NULL, and scales of like->scales. `gap` elements are left between rows and `gap` rows between
 * problems. False if memory is lacking. */
bool product_create(struct product *product, const struct gemm_problem *like, uint64_t gap,
                    enum product_fill fill, uint64_t seed);
void product_destroy(struct product *product);

/* Points the problem at a part of it. */
void product_point(struct gemm_problem *problem, enum product_part part, void *start);

/* Computes the expected results again, for operands that the caller has changed. False if memory is
 * lacking. */
bool product_expect(struct product *product);

/* Fills C and all around it with what no product of random numbers is. */
void product_poison(struct product *product);

/* Relative error of a sum on the magnitudes that any order of k multiply-adds in the accumulator of
 * `dtype` keeps, if each is rounded to nearest. */
double product_sum_error(enum gemmd_dtype dtype, uint64_t k);

/* Whether C is right and nothing around it was written. `sum_error` is the error allowed to
 * the sum, relative to the magnitudes. On a fault, says it in `text`. `*worst`, if not NULL, is
 * raised to the largest |error| / allowed error. */
bool product_check(const struct product *product, double sum_error, double *worst, char *text,
                   uint64_t size);

/* The largest residual of the check in a context of the CPU (kernels/freivalds.h). `rows`, if not
 * NULL, gets the residual of each row [batch][m]. Negative if memory is lacking or the check fails.
 */
double product_residual(struct gemm_context *context, const struct gemm_problem *problem,
                        uint64_t seed, double *rows);

/* "f16 to f32, 3 x 5 x 7, transa, ..." */
void product_describe(const struct gemm_problem *problem, char *text, uint64_t size);

#endif
