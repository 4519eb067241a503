/*
 * random_operands.h - the random A and B of gemmctl gemm --random MxNxK.
 */
#ifndef GEMMCTL_RANDOM_OPERANDS_H
#define GEMMCTL_RANDOM_OPERANDS_H

#include "client/gemmctl/command.h"
#include "proto/gemm_request.h"

struct random_operands {
    struct tensor a, b; /* views onto memory that random_operands_close frees */
};

/* If --random is given, sets m, n and k of the request, and fills A and B with values that depend
 * on --seed, the types and the sizes alone. GEMMD_ERR_MALFORMED or GEMMD_ERR_OUT_OF_MEMORY with a
 * sentence in `fault`. The caller calls random_operands_close in any case. */
enum gemmd_error random_operands_open(struct random_operands *operands,
                                      const struct arguments *arguments,
                                      struct gemm_request *request, struct fault *fault);
void random_operands_close(struct random_operands *operands);

#endif
