#include "kernels/cuda/sm90/grid.h"

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
