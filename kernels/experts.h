/*
 * experts.h - the problem of the experts' kernels (operation_experts): rows, each of which is
 * multiplied by some matrices of a stack.
 *
 *   C[r] = sum over j of weight[r, j] * act(A[r] * W[e] + bias[e]),   e = experts[r, j]
 *
 * W is a stack of `count` matrices, the experts. A row of A has topk places, each with the number
 * of an expert and a weight; without weights every weight is 1. With `glu` an expert has 2 n
 * columns, the gate in the first n and the factor of the gate in the last n, and the function of a
 * place is act(A[r] * W_gate + bias_gate) * (A[r] * W_up + bias_up).
 *
 * Everything is computed in the accumulator's type (dtype_accumulator) and rounded once to `out`:
 * the sum over k, the bias, the activation, and the sum over the places, in the order of j. That
 * sum begins with 0 and adds each place with a fused multiply-add. A place whose number is not from
 * 0 to count - 1 computes nothing: no kernel reads outside of W, whatever the numbers are. A row
 * whose places all compute nothing is 0.
 *
 * The bits of a row of C depend on the same row of A, of the numbers and of the weights, and on W
 * and the bias, and never on the other rows or their number.
 *
 * Several places of a row may have the same expert. The number of rows of an expert is known only
 * on the device, so a kernel's workspace has room for any distribution.
 *
 * All pointers are in the memory of the context's backend. On CUDA they and the workspace start at
 * multiples of 256 bytes, and a kernel may read all of an aligned block of 16 bytes that contains a
 * byte of an operand; on the CPU they are aligned to their elements, and the workspace to 64 bytes.
 * C overlaps no operand. A kernel allocates nothing.
 */
#ifndef KERNELS_EXPERTS_H
#define KERNELS_EXPERTS_H

#include <gemmd/dtypes.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/gemm.h"

/* The numbers of the parts (operation.parts). */
enum {
    EXPERTS_PART_A,
    EXPERTS_PART_W,
    EXPERTS_PART_EXPERTS,
    EXPERTS_PART_WEIGHTS,
    EXPERTS_PART_BIAS,
    EXPERTS_PART_C
};

struct experts_problem {
    enum gemmd_dtype dtype, out;
    enum gemm_precision precision;
    enum gemm_act act;
    bool transb, glu;
    uint64_t m, n, k;       /* of C and A */
    uint64_t count, topk;   /* experts of W, and places of a row */
    const void *a;          /* [m, k] */
    const void *w;          /* [count, k, columns], or [count, columns, k] if transb */
    const int32_t *experts; /* [m, topk] */
    const float *weights;   /* [m, topk], or NULL */
    const void *bias;       /* [count, columns] of type out, or NULL */
    void *c;                /* [m, n] of type out */
    uint64_t lda, ldw, ldc; /* elements from row to row */
    uint64_t stride_w;      /* elements from expert to expert */
};

/* The columns of an expert: n, or 2 n with glu. */
static inline uint64_t experts_columns(const struct experts_problem *problem)
{
    return problem->glu ? 2 * problem->n : problem->n;
}

/* Sets leading dimensions and the stride for contiguous operands from n, k, transb and glu. */
void experts_problem_contiguous(struct experts_problem *problem);

/* The number of multiplications and additions, where no place is left out. For metrics. `problem`
 * is a struct experts_problem. */
double experts_flops(const void *problem);

/* The part of the problem that computes `rows` rows from `first` on. The results of the part have
 * the same bits as in the whole. */
struct experts_problem experts_subproblem(const struct experts_problem *problem, uint64_t first,
                                          uint64_t rows);

#endif
