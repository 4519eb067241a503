/*
 * epilogue.h - what follows the sum, for every CPU kernel: c = act(alpha*sum + beta*c0 + bias),
 * computed in the type of the sum (in f32 where sums of i32 become f32) and rounded once to `out`.
 */
#ifndef KERNELS_CPU_EPILOGUE_H
#define KERNELS_CPU_EPILOGUE_H

#include "kernels/gemm.h"

/* Finishes `count` elements of one row of C from `column` on, of problem number `index` of the
 * batch. `sums` are of type dtype_accumulator(problem->dtype); they may lie where the results go if
 * the types are the same, and not overlap them otherwise. Any thread. */
void epilogue_row(const struct gemm_problem *problem, uint64_t index, uint64_t row, uint64_t column,
                  uint64_t count, const void *sums);

/* Whether C is the sums as they are, so that a kernel that left them in C is done. */
bool epilogue_is_identity(const struct gemm_problem *problem);

#endif
