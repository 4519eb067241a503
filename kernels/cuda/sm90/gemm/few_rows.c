/* The host code of the kernels for few rows: from a problem to tensor maps, arguments and a grid.
 */
#include "kernels/cuda/sm90/gemm/few_rows.h"

#include <string.h>

#include "kernels/cuda/sm90/tensor_map.h"
#include "proto/size.h"

/* AHEAD_BYTES of B are prefetched for each 32 or 64 columns while earlier kernels run. */
enum { ROWS_MAX = 64, COLUMNS_MIN = 32, BOX_K = 128, AHEAD_BYTES = 32768 };

static bool is_aligned(uint64_t elements, enum gemmd_dtype dtype)
{
    return elements * dtype_size(dtype) % 16 == 0;
}

bool few_rows_takes(const struct gemm_problem *problem)
{
    const struct gemm_problem *p = problem;
    const uint64_t max = INT32_MAX;
    return p->dtype == GEMMD_F8_E4M3 && p->scales == GEMM_SCALES_NONE && !p->transa &&
           p->m <= ROWS_MAX && p->n <= max && p->k <= max &&
           p->batch <= max / 2 / size_blocks(p->n, COLUMNS_MIN) && is_aligned(p->lda, p->dtype) &&
           is_aligned(p->ldb, p->dtype) && is_aligned(p->ldc, p->out) &&
           (p->batch == 1 ||
            (is_aligned(p->stride_a, p->dtype) && is_aligned(p->stride_b, p->dtype) &&
             is_aligned(p->stride_c, p->out) && p->stride_a > 0 && p->stride_b > 0));
}

cudaError_t few_rows_open(void)
{
    cudaError_t error = cudaSuccess;
    for (const struct few_rows_kernel *kernel = few_rows_kernels;
         kernel->function && error == cudaSuccess; kernel++) {
        error = cudaFuncSetAttribute(kernel->function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     (int)kernel->shared_bytes);
    }
    return error;
}

static bool is_too_narrow(const struct few_rows_kernel *kernel, const struct gemm_problem *p,
                          uint32_t multiprocessors)
{
    const uint64_t tiles = size_blocks(p->n, kernel->columns) * p->batch;
    return kernel->narrow && (tiles * kernel->row_blocks > multiprocessors || p->k < kernel->k_min);
}

const struct few_rows_kernel *few_rows_choose(const struct gemm_problem *problem,
                                              uint32_t multiprocessors)
{
    const struct gemm_problem *p = problem;
    const struct few_rows_kernel *kernel = few_rows_kernels;
    while (kernel->rows * kernel->row_blocks < p->m || kernel->b_along_k != p->transb ||
           kernel->f32_out != (p->out == GEMMD_F32) || is_too_narrow(kernel, p, multiprocessors)) {
        kernel++;
    }
    return kernel;
}

static CUtensorMapSwizzle few_rows_swizzle(uint32_t bytes)
{
    switch (bytes) {
    case 128:
        return CU_TENSOR_MAP_SWIZZLE_128B;
    case 64:
        return CU_TENSOR_MAP_SWIZZLE_64B;
    case 32:
        return CU_TENSOR_MAP_SWIZZLE_32B;
    default:
        return CU_TENSOR_MAP_SWIZZLE_NONE;
    }
}

/* A matrix in boxes of `width` by `lines` bytes. */
static cudaError_t few_rows_encode(const struct sm90_device *device, const void *data,
                                   const uint64_t dims[3], uint64_t leading, uint64_t stride,
                                   uint32_t width, uint32_t lines, uint32_t swizzle_bytes,
                                   CUtensorMap *map)
{
    const struct tensor_map_view view = {
        .data = data,
        .type = CU_TENSOR_MAP_DATA_TYPE_UINT8,
        .dimensions = 3,
        .dims = {dims[0], dims[1], dims[2]},
        .stride_bytes = {leading, dims[2] > 1 ? stride : leading},
        .box = {width, lines, 1},
        .swizzle = few_rows_swizzle(swizzle_bytes),
    };
    return tensor_map_encode(device, &view, map);
}

cudaError_t few_rows_prepare(const struct sm90_device *device, const struct gemm_problem *problem,
                             struct sm90_launch *launch)
{
    const struct gemm_problem *p = problem;
    const struct few_rows_kernel *kernel = few_rows_choose(p, device->card.multiprocessors);
    const uint32_t columns = kernel->columns;
    const uint64_t a[] = {p->k, p->m, p->batch};
    const uint64_t b[] = {p->transb ? p->k : p->n, p->transb ? p->n : p->k, p->batch};
    struct sm90_arguments *arguments = &launch->arguments;
    memset(launch, 0, sizeof *launch);
    /* Rows of the tile that A does not have are not copied: TMA fills them with zeros more slowly
     * than it copies. */
    const uint32_t lines = p->m < kernel->rows ? (uint32_t)p->m : kernel->rows;
    arguments->x_bytes = lines * BOX_K;
    cudaError_t error =
        few_rows_encode(device, p->a, a, p->lda, p->stride_a, BOX_K, lines, 128, &arguments->x);
    if (error == cudaSuccess) {
        error =
            few_rows_encode(device, p->b, b, p->ldb, p->stride_b, p->transb ? BOX_K : columns,
                            p->transb ? columns : BOX_K, kernel->b_swizzle_bytes, &arguments->y);
    }
    if (error != cudaSuccess) {
        return error;
    }
    sm90_set_epilogue(p, arguments);
    arguments->k = (uint32_t)p->k;
    arguments->k_tiles = (uint32_t)size_blocks(p->k, kernel->stage_k);
    arguments->tile_rows =
        kernel->pair ? kernel->row_blocks : (uint32_t)size_blocks(p->m, kernel->rows);
    arguments->tile_columns = (uint32_t)size_blocks(p->n, columns);
    arguments->tiles = arguments->tile_columns * (uint32_t)p->batch;
    launch->blocks = arguments->tiles * arguments->tile_rows;
    if (launch->blocks <= 2 * device->card.multiprocessors) { /* all blocks run at the same time */
        arguments->y_ahead_bytes = AHEAD_BYTES * arguments->tiles;
    }
    launch->function = kernel->function;
    launch->cluster = launch->blocks % 2 == 0 ? 2 : 1;
    launch->threads = kernel->threads;
    launch->shared_bytes = kernel->shared_bytes;
    return cudaSuccess;
}
