/*
 * table.cuh - the table of the kernels of flash_wgmma.cuh for one type. Kernels of the same width
 * and TILE_N that all keep the base of the softmax, or all do not, give the same bits
 * (attention_wgmma_same_bits).
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
    kernel.keeps_base = C::KEEPS_BASE;
    kernel.threads = C::THREADS;
    kernel.shared_bytes = C::SHARED_BYTES;
    return kernel;
}

} // namespace sm90

/* clang-format off */
#define ATTENTION_ENTRY(T, E, WIDTH, TILE_N, CONSUMERS, KEEPS_BASE, NAME)                          \
    sm90::attention_entry<sm90::attention_config<sm90::E, WIDTH, TILE_N, CONSUMERS, KEEPS_BASE>>(  \
        #T "_" NAME)

#define ATTENTION_TABLE(T, E)                                                                      \
    const struct attention_wgmma_kernel attention_wgmma_##T[] = {                                  \
        ATTENTION_ENTRY(T, E, 64, 128, 3, false, "d64_192x128"),                                   \
        ATTENTION_ENTRY(T, E, 64, 128, 2, false, "d64_128x128"),                                   \
        ATTENTION_ENTRY(T, E, 64, 64, 4, false, "d64_256x64"),                                     \
        ATTENTION_ENTRY(T, E, 64, 128, 3, true, "d64_192x128_kept"),                               \
        ATTENTION_ENTRY(T, E, 96, 128, 2, true, "d96_128x128"),                                    \
        ATTENTION_ENTRY(T, E, 128, 128, 2, true, "d128_128x128"),                                  \
        ATTENTION_ENTRY(T, E, 192, 128, 2, true, "d192_128x128"),                                  \
        ATTENTION_ENTRY(T, E, 256, 80, 2, true, "d256_128x80"),                                    \
        {}};
/* clang-format on */

#endif
