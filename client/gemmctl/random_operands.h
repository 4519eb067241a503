/*
 * random_operands.h - random operands of the option --random and of measurements. Products of zeros
 * would run faster, and hide errors.
 *
 * Values of --random depend on --seed, on the types and on the sizes alone.
 */
#ifndef GEMMCTL_RANDOM_OPERANDS_H
#define GEMMCTL_RANDOM_OPERANDS_H

#include "client/gemmctl/command.h"
#include "proto/gemm_request.h"

/* Fills `count` elements with values from [-1, 1), or with any values of i8. `seed` is not 0. */
void fill_random(void *out, enum gemmd_dtype dtype, uint64_t count, uint64_t seed);

/* Reads the sizes "MxNxK", 1 to TENSOR_MAX_RANK whole numbers from 1 to 2^31 - 1. Returns their
 * number; 0: the text is something else. */
uint32_t random_sizes(const char *text, uint64_t sizes[TENSOR_MAX_RANK]);
/* Reads --seed, 1 if the option is not given. GEMMD_ERR_MALFORMED with a sentence in `fault` if the
 * option is malformed, or --random is not given. */
enum gemmd_error random_seed(const struct arguments *arguments, uint64_t *seed,
                             struct fault *fault);
/* Allocates the data of a tensor, of which type and shape are set, and fills the data with random
 * values. The caller frees tensor->data. GEMMD_ERR_OUT_OF_MEMORY with a sentence in `fault`. */
enum gemmd_error random_fill(struct tensor *tensor, uint64_t seed, struct fault *fault);

struct random_operands {
    struct tensor a, b; /* of a product: views onto memory that random_operands_close frees */
};

/* gemmctl gemm: if --random is given, sets m, n and k of the request, and makes random A and B.
 * GEMMD_ERR_MALFORMED or GEMMD_ERR_OUT_OF_MEMORY with a sentence in `fault`.
 * The caller calls random_operands_close in any case. */
enum gemmd_error random_operands_open(struct random_operands *operands,
                                      const struct arguments *arguments,
                                      struct gemm_request *request, struct fault *fault);
void random_operands_close(struct random_operands *operands);

#endif
