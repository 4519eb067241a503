/* The kernels of f32 with precision full: operands in parts (move/parts.cu). */
#include "kernels/cuda/sm90/gemm/gemm_fused.cuh"
#include "kernels/cuda/sm90/gemm/gemm_one_row.cuh"
#include "kernels/cuda/sm90/gemm/gemm_streamed.cuh"
#include "kernels/cuda/sm90/gemm/table.cuh"

using namespace sm90;

/* A kernel that makes the parts of f32 operands itself. */
template <int ROWS, int COLUMNS, uint32_t PRODUCERS, uint32_t GROUP>
static sm90_kernel row_fused(const char *name)
{
    using K = fused_config<ROWS, COLUMNS, PRODUCERS, GROUP>;
    sm90_kernel kernel = row<F32, 64, K::TILE_N, 1, COOPERATIVE, 1, 1, NEITHER>(name);
    kernel.tile_m = ROWS;
    kernel.tile_n = COLUMNS;
    kernel.threads = K::FUSED_THREADS;
    kernel.fused = true;
    for (int i = 0; i < 4; i++) {
        kernel.functions[0][i / 2][i % 2] = reinterpret_cast<const void *>(&sm90_gemm_fused<K>);
    }
    return kernel;
}

/* A kernel whose warps stream B, for up to ROWS rows. */
template <int ROWS> static sm90_kernel row_streamed(const char *name)
{
    using K = streamed<ROWS, true>;
    sm90_kernel kernel = row<F32, 64, K::COLUMNS, 1, COOPERATIVE, 1, 1, NEITHER>(name);
    kernel.tile_m = ROWS;
    kernel.threads = K::THREADS;
    kernel.shared_bytes = K::SHARED_BYTES;
    kernel.fused = true;
    kernel.consumers = 0; /* every warp multiplies by itself */
    kernel.functions[0][1][1] = reinterpret_cast<const void *>(&sm90_gemm_streamed<K>);
    kernel.functions[0][1][0] =
        reinterpret_cast<const void *>(&sm90_gemm_streamed<streamed<ROWS, false>>);
    return kernel;
}

/* A kernel for one row, with 16 columns for each of GROUPS groups of warps. */
template <uint32_t GROUPS, uint32_t STAGES> static sm90_kernel row_one_row(const char *name)
{
    using K = one_row<GROUPS, STAGES, true>;
    sm90_kernel kernel = row<F32, 64, 32, 1, COOPERATIVE, 1, 1, NEITHER>(name);
    kernel.tile_m = 1;
    kernel.tile_n = K::COLUMNS;
    kernel.threads = K::THREADS;
    kernel.shared_bytes = K::SHARED_BYTES;
    kernel.fused = true;
    kernel.swapped = true;
    kernel.consumers = 0; /* every warp that multiplies does so by itself */
    kernel.functions[0][1][1] = reinterpret_cast<const void *>(&sm90_gemm_one_row<K>);
    kernel.functions[0][1][0] =
        reinterpret_cast<const void *>(&sm90_gemm_one_row<one_row<GROUPS, STAGES, false>>);
    return kernel;
}

extern "C" const sm90_kernel sm90_kernels_f32[] = {
    row<F32, 128, 128, 2, COOPERATIVE, 1, 1, CHAINS>("f32_128x128"),
    row<F32, 128, 64, 2, COOPERATIVE, 1, 1, CHAINS>("f32_128x64"),
    row<F32, 64, 64, 1, COOPERATIVE, 1, 1, CHAINS>("f32_64x64"),
    row_fused<64, 32, 16, 2>("f32_64x32_fused"),
    row_fused<16, 64, 16, 2>("f32_16x64_fused"),
    row_fused<64, 64, 12, 4>("f32_64x64_fused"),
    row_one_row<1, 4>("f32_1x16"),
    row_one_row<2, 10>("f32_1x32"),
    row_one_row<3, 4>("f32_1x48"),
    row_one_row<4, 4>("f32_1x64"),
    row_one_row<7, 2>("f32_1x112"),
    row_streamed<8>("f32_8x32_streamed"),
    row_streamed<16>("f32_16x32_streamed"),
    sm90_kernel{},
};
