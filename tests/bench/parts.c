#include "tests/bench/parts.h"

#include "kernels/cuda/move/move.h"

enum { PARTS = 3 };

bool bench_is_in_parts(const struct gemm_problem *p)
{
    return p->dtype == GEMMD_F32 && p->precision == GEMM_PRECISION_FULL;
}

/* How an operand of `lines` by `width` is decomposed; `to` is filled in later. */
static struct realign_job job_of(const void *from, uint64_t lines, uint64_t width, uint64_t batch,
                                 uint64_t ld, uint64_t stride)
{
    const uint64_t leading = sm90_leading(width, GEMMD_BF16);
    return (struct realign_job){.from = from,
                                .rows = lines,
                                .width = width,
                                .batch = batch,
                                .ld_from = ld,
                                .stride_from = stride,
                                .ld_to = leading,
                                .stride_to = lines * leading};
}

bool bench_make_parts(const struct gemm_problem *p, void **memory, struct sm90_parts *parts)
{
    *memory = NULL;
    if (!bench_is_in_parts(p)) {
        return true;
    }
    struct realign_job a = job_of(p->a, p->transa ? p->k : p->m, p->transa ? p->m : p->k, p->batch,
                                  p->lda, p->stride_a);
    struct realign_job b = job_of(p->b, p->transb ? p->n : p->k, p->transb ? p->k : p->n, p->batch,
                                  p->ldb, p->stride_b);
    const uint64_t a_bytes = (a.stride_to * PARTS * p->batch * 2 + 255) / 256 * 256;
    const uint64_t b_bytes = b.stride_to * PARTS * p->batch * 2;
    if (cudaMalloc(memory, a_bytes + b_bytes) != cudaSuccess) {
        *memory = NULL;
        return false;
    }
    a.to = *memory;
    b.to = (char *)*memory + a_bytes;
    *parts = (struct sm90_parts){{a.to, a.ld_to, a.stride_to}, {b.to, b.ld_to, b.stride_to}};
    if (parts_launch(0, &a) != GEMMD_OK || parts_launch(0, &b) != GEMMD_OK) {
        cudaFree(*memory);
        *memory = NULL;
        return false;
    }
    return true;
}

bool bench_turn(const struct gemm_problem *p, void **memory, struct gemm_problem *turned)
{
    *memory = NULL;
    *turned = *p;
    if (p->dtype != GEMMD_F32 || p->precision != GEMM_PRECISION_TF32 || p->transb) {
        return true;
    }
    turned->transb = true;
    turned->ldb = sm90_leading(p->k, p->dtype);
    turned->stride_b = p->n * turned->ldb;
    if (cudaMalloc(memory, turned->stride_b * p->batch * sizeof(float)) != cudaSuccess) {
        *memory = NULL;
        return false;
    }
    turned->b = *memory;
    const struct pack_job job = {.from = p->b,
                                 .to = *memory,
                                 .rows = p->n,
                                 .k = p->k,
                                 .ld = p->ldb,
                                 .stride = p->stride_b,
                                 .batch = p->batch,
                                 .padded_rows = p->n,
                                 .padded_k = turned->ldb,
                                 .element_bytes = sizeof(float)};
    if (pack_launch(0, &job) != GEMMD_OK) {
        cudaFree(*memory);
        *memory = NULL;
        return false;
    }
    return true;
}
