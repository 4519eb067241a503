/*
 * sums.c - where cuBLAS writes its sums, and in how many steps of k.
 *
 * The largest error of f32 results may be twice that of a chain of FMAs. Tensor cores truncate
 * when they add, and their error grows with the length of a sum. On an H100, for operands in [-1,
 * 1], the largest error of bf16 sums is 1.3 times that of a chain at k = 256, 1.8 times at 512, 2.4
 * at 1000 and 2.8 at 2048 (for f16, half of that). Sums that stay in f32 are therefore computed in
 * steps of 256, which are added in f32. Results of 16 bits are rounded a thousand times coarser and
 * need no steps.
 */
#include "kernels/cuda/cublas/cublas.h"

#include <stdint.h>

#include "proto/dtype.h"
#include "proto/size.h"

enum { K_STEP = 256 };

cudaDataType_t cublas_type(enum gemmd_dtype dtype)
{
    switch (dtype) {
    case GEMMD_F64:
        return CUDA_R_64F;
    case GEMMD_F16:
        return CUDA_R_16F;
    case GEMMD_BF16:
        return CUDA_R_16BF;
    case GEMMD_I8:
        return CUDA_R_8I;
    case GEMMD_I32:
        return CUDA_R_32I;
    default:
        return CUDA_R_32F;
    }
}

/* Whether cuBLAS can write `out` itself, with alpha applied in the accumulator's type. */
static bool writes(const struct gemm_problem *p)
{
    if (p->dtype == GEMMD_I8) /* scalars of i32, 0 or 1 */
        return p->out == GEMMD_I32 && p->alpha == 1;
    return p->out == p->dtype || p->out == dtype_accumulator(p->dtype);
}

/* Steps are for tensor cores' sums that stay in f32. */
static uint64_t k_step(const struct gemm_problem *p)
{
    const bool halves = p->dtype == GEMMD_F16 || p->dtype == GEMMD_BF16;
    return halves && p->out == GEMMD_F32 && p->k > K_STEP ? K_STEP : p->k;
}

bool cublas_sums_plan(const struct gemm_problem *p, uint64_t rows, uint64_t columns,
                      uint64_t alignment, struct cublas_sums *sums)
{
    const enum gemmd_dtype accumulator = dtype_accumulator(p->dtype);
    const uint64_t out_size = dtype_size(p->out), size = dtype_size(accumulator);
    const bool fits = rows == p->m && columns == p->n && p->ldc * out_size % alignment == 0 &&
                      (p->batch == 1 || p->stride_c * out_size % alignment == 0);
    const bool plain = p->beta == 0 && p->bias == NULL && p->act == GEMM_ACT_NONE &&
                       (float)p->alpha != 0 && writes(p);

    *sums = (struct cublas_sums){
        .type = accumulator, .alpha = 1, .ld = p->ldc, .stride = p->stride_c, .k_step = k_step(p)};
    if (fits && plain && (sums->k_step == p->k || p->alpha == 1)) {
        sums->type = p->out;
        sums->alpha = p->alpha;
        sums->finished = sums->in_c = true;
        return true;
    }
    if (fits && p->out == accumulator) {
        sums->in_c = true;
        return true;
    }
    return size_align(columns, 16 / size, &sums->ld) && size_mul(rows, sums->ld, &sums->stride) &&
           size_mul(sums->stride, p->batch, &sums->bytes) &&
           size_mul(sums->bytes, size, &sums->bytes) && sums->bytes <= INT64_MAX;
}
