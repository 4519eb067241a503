/*
 * attention_wgmma_table.cuh - the kernels of attention_wgmma.cuh for one type.
 *
 * Of each width one is chosen for problems without masks and one for those with (full, masked); the
 * others are there to be measured next to them.
 */
#ifndef KERNELS_CUDA_SM90_ATTENTION_WGMMA_TABLE_CUH
#define KERNELS_CUDA_SM90_ATTENTION_WGMMA_TABLE_CUH

#include "kernels/cuda/sm90/attention_wgmma.cuh"

namespace sm90
{

template <class C, bool GROUP>
static attention_wgmma_kernel attention_entry(const char *name, bool full, bool masked)
{
    attention_wgmma_kernel kernel;
    kernel.name = name;
    kernel.function = (const void *)attention_wgmma<C>;
    kernel.group = nullptr;
    if constexpr (GROUP)
        kernel.group = (const void *)attention_wgmma_several<C>;
    kernel.width = C::WIDTH;
    kernel.tile_m = C::TILE_M;
    kernel.tile_n = C::TILE_N;
    kernel.threads = C::THREADS;
    kernel.shared_bytes = C::SHARED_BYTES;
    kernel.full = full;
    kernel.masked = masked;
    return kernel;
}

} // namespace sm90

/* clang-format off */
#define ATTENTION_ENTRY(T, E, WIDTH, TILE_N, CONSUMERS, TILE_M, TURNS, SUFFIX, FULL, MASKED, GROUP) \
    sm90::attention_entry<sm90::attention_config<sm90::E, WIDTH, TILE_N, CONSUMERS, TURNS>, GROUP>( \
        #T "_d" #WIDTH "_" #TILE_M "x" #TILE_N SUFFIX, FULL, MASKED)

/* What follows the type is more entries, each with a comma behind it. Some that are chosen have
 * no kernel for groups: the few registers more that it takes would be more than there are. */
#define ATTENTION_TABLE(T, E, ...)                                                                 \
    const struct attention_wgmma_kernel attention_wgmma_##T[] = {                                  \
        ATTENTION_ENTRY(T, E, 64, 192, 2, 128, true, "", true, false, true),                       \
        ATTENTION_ENTRY(T, E, 64, 128, 2, 128, true, "", false, true, true),                       \
        ATTENTION_ENTRY(T, E, 96, 176, 2, 128, true, "", true, false, true),                       \
        ATTENTION_ENTRY(T, E, 96, 128, 2, 128, true, "", false, true, true),                       \
        ATTENTION_ENTRY(T, E, 128, 176, 2, 128, true, "", true, false, false),                     \
        ATTENTION_ENTRY(T, E, 128, 128, 2, 128, true, "", false, true, true),                      \
        ATTENTION_ENTRY(T, E, 128, 128, 2, 128, false, "_free", false, false, false),              \
        ATTENTION_ENTRY(T, E, 192, 128, 2, 128, true, "", true, false, false),                     \
        ATTENTION_ENTRY(T, E, 192, 96, 2, 128, true, "", false, true, false),                      \
        ATTENTION_ENTRY(T, E, 256, 80, 2, 128, true, "", true, true, false),                       \
        __VA_ARGS__{}};
/* clang-format on */

#endif
