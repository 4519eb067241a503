#include "kernels/cuda/sm90/grid.h"

#include "proto/dtype.h"
#include "proto/size.h"

/* The largest B, in bytes, that stays in the L2 of an H100 between rows of tiles. With a larger
 * one, launches with half tiles were up to 9 % slower (kernels/experiments/wgmma.md). */
static const double B_STAYS = 30e6;

uint32_t sm90_band_rows(const struct sm90_kernel *kernel, uint32_t clusters, uint64_t rows)
{
    const uint64_t height = (uint64_t)kernel->tile_m * kernel->cluster_m;
    const uint64_t width = (uint64_t)kernel->tile_n * kernel->cluster_n;
    uint32_t band = 1;
    while (band < rows && band < clusters && band * height * band < clusters * width) {
        band++;
    }
    return band;
}

uint64_t sm90_leading(uint64_t elements, enum gemmd_dtype dtype)
{
    const uint64_t bytes = elements * dtype_size(dtype), padded = size_blocks(bytes, 128) * 128;
    const uint64_t multiple = (3 * padded <= 4 * bytes ? 128 : 16) / dtype_size(dtype);
    return size_blocks(elements, multiple) * multiple;
}

struct sm90_tile_rows sm90_tile_rows(const struct sm90_kernel *kernel,
                                     const struct gemm_problem *problem,
                                     const struct sm90_card *card)
{
    const uint64_t rows = size_blocks(problem->m, (uint64_t)kernel->tile_m * kernel->cluster_m);
    const uint64_t columns = size_blocks(problem->n, (uint64_t)kernel->tile_n * kernel->cluster_n);
    const struct sm90_tile_rows all_whole = {.whole = rows};
    const double b_bytes = (double)problem->n * (double)problem->k * dtype_size(problem->dtype);
    if (!kernel->halves || problem->batch != 1 || b_bytes > B_STAYS * card->l2_size)
        return all_whole;
    const uint64_t blocks = card->multiprocessors;
    const uint64_t whole = rows * columns / blocks * blocks / columns;
    if (whole == 0 || whole == rows)
        return all_whole;
    const uint64_t half = size_blocks(problem->m - whole * kernel->tile_m, kernel->tile_m / 2);
    const uint64_t fewer = size_blocks(whole * columns, blocks) * blocks - whole * columns;
    if (half * columns > blocks + fewer)
        return all_whole;
    return (struct sm90_tile_rows){.whole = whole, .half = half};
}

uint32_t sm90_out(enum gemmd_dtype out)
{
    switch (out) {
    case GEMMD_BF16:
        return SM90_OUT_BF16;
    case GEMMD_F16:
        return SM90_OUT_F16;
    case GEMMD_I32:
        return SM90_OUT_I32;
    default:
        return SM90_OUT_F32;
    }
}

cudaError_t sm90_grid_enqueue(const struct sm90_grid *grid, const void *arguments,
                              cudaStream_t stream)
{
    cudaLaunchAttribute attributes[2] = {
        {.id = cudaLaunchAttributeProgrammaticStreamSerialization,
         .val = {.programmaticStreamSerializationAllowed = 1}},
        {.id = cudaLaunchAttributeClusterDimension,
         .val = {.clusterDim = {.x = grid->cluster, .y = 1, .z = 1}}},
    };
    const cudaLaunchConfig_t config = {
        .gridDim = {grid->blocks, 1, 1},
        .blockDim = {grid->threads, 1, 1},
        .dynamicSmemBytes = grid->shared_bytes,
        .stream = stream,
        .attrs = attributes,
        .numAttrs = grid->cluster > 1 ? 2 : 1,
    };
    void *parameters[] = {(void *)(uintptr_t)arguments};
    return cudaLaunchKernelExC(&config, grid->function, parameters);
}
