/*
 * table.cuh - the table of the kernels of flash_wgmma.cuh for one type. Kernels of the same width
 * have the same TILE_N, so that they give the same bits and the faster one can be chosen.
 */
#ifndef KERNELS_CUDA_SM90_ATTENTION_TABLE_CUH
#define KERNELS_CUDA_SM90_ATTENTION_TABLE_CUH

#include "kernels/cuda/sm90/attention/flash_wgmma.cuh"

namespace sm90
{

template <class C> static attention_wgmma_kernel attention_entry(const char *name)
{
    attention_wgmma_kernel kernel;
    kernel.name = name;
    kernel.function = (const void *)attention_wgmma<C>;
    kernel.group = (const void *)attention_wgmma_several<C>;
    kernel.width = C::WIDTH;
    kernel.tile_m = C::TILE_M;
    kernel.tile_n = C::TILE_N;
    kernel.threads = C::THREADS;
    kernel.shared_bytes = C::SHARED_BYTES;
    return kernel;
}

} // namespace sm90

/* clang-format off */
#define ATTENTION_ENTRY(T, E, WIDTH, TILE_N, CONSUMERS, TILE_M)                                    \
    sm90::attention_entry<sm90::attention_config<sm90::E, WIDTH, TILE_N, CONSUMERS>>(              \
        #T "_d" #WIDTH "_" #TILE_M "x" #TILE_N)

#define ATTENTION_TABLE(T, E)                                                                      \
    const struct attention_wgmma_kernel attention_wgmma_##T[] = {                                  \
        ATTENTION_ENTRY(T, E, 64, 128, 3, 192),                                                    \
        ATTENTION_ENTRY(T, E, 64, 128, 2, 128),                                                    \
        ATTENTION_ENTRY(T, E, 96, 128, 2, 128),                                                    \
        ATTENTION_ENTRY(T, E, 128, 128, 2, 128),                                                   \
        ATTENTION_ENTRY(T, E, 192, 128, 2, 128),                                                   \
        ATTENTION_ENTRY(T, E, 256, 80, 2, 128),                                                    \
        {}};
/* clang-format on */

#endif
