/* The kernels for packed weights as an entry of the backend's list. */
#include "kernels/cuda/packed/packed.h"

#include "kernels/cuda/context.h"
#include "kernels/cuda/sm90/tensor_map.h"

/* Whether the kernel for many rows is faster. On an H200 it takes as long for each of its waves of
 * tiles as the other takes for 64 rows of so many columns (kernels/experiments/packed.md). */
static bool packed_is_many(const struct gemm_problem *p, uint32_t multiprocessors)
{
    enum { COLUMNS_OF_4_BITS = 17000, COLUMNS_OF_8_BITS = 10000, FEW_ROWS = 64 };
    const uint64_t columns = p->packed.bits == 4 ? COLUMNS_OF_4_BITS : COLUMNS_OF_8_BITS;
    const uint64_t tiles =
        size_blocks(p->n, PACKED_TILE_COLUMNS) * size_blocks(p->m, PACKED_MANY_ROWS);
    return p->m > FEW_ROWS && tiles <= INT32_MAX &&
           size_blocks(tiles, multiprocessors) * columns < size_blocks(p->m, FEW_ROWS) * p->n &&
           !p->transa && p->lda % 8 == 0 && (uintptr_t)p->a % 16 == 0;
}

static enum gemmd_error packed_run(struct gemm_context *base, const void *problem, void *workspace)
{
    const struct cuda_context *context = cuda_context_of(base);
    const struct gemm_problem *p = problem;
    (void)workspace;
    if (context->sm90.encode == NULL)
        return packed_launch(context->stream, p);
    if (!packed_is_many(p, context->multiprocessors))
        return packed_sm90_launch(context->stream, p);
    const struct tensor_map_view rows = {
        .data = p->a,
        .type = tensor_map_type(p->dtype),
        .dimensions = 3,
        .dims = {p->k, p->m, 1},
        .stride_bytes = {p->lda * 2, p->lda * 2},
        .box = {64, PACKED_MANY_ROWS, 1},
        .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
    };
    CUtensorMap map;
    const cudaError_t error = tensor_map_encode(&context->sm90, &rows, &map);
    return error != cudaSuccess
               ? cuda_error_code(error)
               : packed_many_launch(context->stream, p, &map, context->multiprocessors);
}

const struct operation_kernel gemm_cuda_packed = {
    .name = "packed",
    .description = "packed weights, unpacked in registers for mma.sync and wgmma",
    .rows_independent = true,
    .any_leading = true,
    .takes = gemm_problem_packed,
    .workspace_bytes = operation_no_workspace,
    .launch_flops = 5e12,
    .run = packed_run,
};
