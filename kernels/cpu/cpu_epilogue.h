/*
 * cpu_epilogue.h - the epilogue of every CPU kernel: c = act(alpha*sum + beta*c0 + bias), computed
 * in the type of the sum (in f32 where sums of i32 become f32) and rounded once to `out`. With
 * scales of rows and columns, sums are multiplied by them first.
 */
#ifndef KERNELS_CPU_CPU_EPILOGUE_H
#define KERNELS_CPU_CPU_EPILOGUE_H

#include "kernels/gemm.h"
#include "proto/dtype.h"

/* Computes `count` elements of one row of C, from `column` on, of problem `index` of the batch.
 * `sums` has the type dtype_accumulator(problem->dtype). The sums may be at the place of the
 * results if the types are the same, and must not overlap the results otherwise. Any thread. */
void epilogue_row(const struct gemm_problem *problem, uint64_t index, uint64_t row, uint64_t column,
                  uint64_t count, const void *sums);

/* Whether the epilogue changes nothing, so that sums that a kernel wrote to C are the result. */
static inline bool epilogue_is_identity(const struct gemm_problem *problem)
{
    return problem->out == dtype_accumulator(problem->dtype) && problem->alpha == 1 &&
           problem->beta == 0 && problem->bias == NULL && problem->act == GEMM_ACT_NONE &&
           problem->scales != GEMM_SCALES_ROWCOL;
}

#endif
