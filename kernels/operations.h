/*
 * operations.h - the operations, and a problem of any of them.
 */
#ifndef KERNELS_OPERATIONS_H
#define KERNELS_OPERATIONS_H

#include "kernels/attention.h"
#include "kernels/conv.h"
#include "kernels/experts.h"
#include "kernels/gemm.h"
#include "kernels/operation.h"
#include "kernels/reduce.h"
#include "kernels/softmax.h"

extern const struct operation operation_gemm;      /* gemm_operation.c */
extern const struct operation operation_attention; /* attention_operation.c */
extern const struct operation operation_conv2d;    /* conv2d_operation.c */
extern const struct operation operation_reduce;    /* reduce_operation.c */
extern const struct operation operation_softmax;   /* softmax_operation.c */
extern const struct operation operation_experts;   /* experts_operation.c */

/* By number (operation_number.h). */
extern const struct operation *const operation_table[OPERATION_COUNT];

union operation_problem {
    struct gemm_problem gemm;
    struct attention_problem attention;
    struct conv_problem conv2d;
    struct reduce_problem reduce;
    struct softmax_problem softmax;
    struct experts_problem experts;
};

/* The check of one small problem (operation->check_small), for which `seed` chooses the random
 * vector. The launch sets `residual`, which passes up to 1. */
struct operation_small_check {
    union operation_problem problem;
    uint64_t seed;
    double residual;
};

/* A problem of an operation, with the kernel that computes it. */
struct task {
    const struct operation *operation; /* NULL: there is nothing to compute */
    const struct operation_kernel *kernel;
    union operation_problem problem;
};

#endif
