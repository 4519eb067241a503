/*
 * conv.cuh - convolutions on sm_90a as products of patches that exist only in shared memory
 * (implicit GEMM).
 *
 * The kernel is that of products (sm90/gemm/gemm.cuh): the ring of stages, the consumers and the
 * epilogue are the same. Only the producer differs. A row of the left operand is a pixel of Y, and
 * a stage holds, for each pixel of the tile, 128 bytes of channels of the element of X that one tap
 * of the filter meets. TMA's im2col mode copies them with one instruction (ptx_im2col.cuh): it
 * steps over rows, images and strides, and fills padding with zeros. The right operand's stage is
 * the same channels of the same tap in TILE_N filters.
 *
 * k runs over taps (the positions of a filter, kernels/conv.h), and in each tap over channels in
 * steps of 128 bytes. Channels that do not exist are zeros in both operands.
 *
 * The idea of an implicit product follows S. Chetlur et al., "cuDNN: efficient primitives for deep
 * learning", 2014.
 */
#ifndef KERNELS_CUDA_SM90_CONV_CONV_CUH
#define KERNELS_CUDA_SM90_CONV_CONV_CUH

#include "kernels/cuda/ptx_im2col.cuh"
#include "kernels/cuda/sm90/conv/sm90_conv.h"
#include "kernels/cuda/sm90/gemm/gemm.cuh"
#include "kernels/cuda/sm90/gemm/table.cuh"

namespace sm90
{

/* The position in X of the filter's first tap for a pixel of Y. Pixels are counted over all images.
 */
__device__ __forceinline__ ptx::pixel filter_at(const sm90_conv_arguments &p, uint32_t pixel)
{
    const uint32_t image = pixel / p.out_pixels, in_image = pixel - image * p.out_pixels;
    const uint32_t row = in_image / p.out_width, column = in_image - row * p.out_width;
    return {(int32_t)image, (int32_t)row * p.stride_h - p.pad_top,
            (int32_t)column * p.stride_w - p.pad_left};
}

/* Called by one thread, which keeps the ring full (produce of gemm.cuh has the parameters). */
template <class C>
__device__ __forceinline__ void produce_patches(const sm90_conv_arguments &p, const shared<C> &s,
                                                uint32_t cluster, uint32_t clusters, uint32_t rank)
{
    const uint32_t rank_m = rank / C::CLUSTER_N, rank_n = rank % C::CLUSTER_N;
    constexpr uint16_t ALL_BLOCKS = (1 << C::CLUSTER) - 1;
    constexpr uint32_t SHARE = C::TILE_M / C::CLUSTER_N; /* pixels that this block loads */
    ring<C::STAGES> at(0);
    for (uint32_t index = cluster; index < p.product.tiles; index += clusters) {
        const tile t = tile_at(p.product, index);
        const uint32_t row = (t.row * C::CLUSTER_M + rank_m) * C::TILE_M;
        const uint32_t column = (t.column * C::CLUSTER_N + rank_n) * C::TILE_N;
        const bool x_end = C::X_ENDS && row + C::TILE_M > p.product.m;
        const bool y_end = C::Y_ENDS && column + C::TILE_N > p.product.n;
        const CUtensorMap *x = x_end ? &p.product.x_end : &p.product.x;
        const CUtensorMap *y = y_end ? &p.product.y_end : &p.product.y;
        const uint32_t bytes = (x_end ? p.product.x_end_bytes : p.product.x_bytes) +
                               (y_end ? p.product.y_end_bytes : p.product.y_bytes);
        const ptx::pixel first = filter_at(p, row + rank_n * SHARE);
        if (index == cluster) {
            ptx::argument_fetch(bytes);
            ptx::argument_fetch(p.tap_tiles);
            ptx::earlier_kernels_wait();
        }
        uint32_t tap = 0;
        for (uint32_t u = 0; u < p.taps_h; u++) {
            const uint32_t further = u + 1 == p.taps_h ? p.last_further : 0;
            const uint16_t offset_h = (uint16_t)(u * p.dilation_h + further);
            for (uint32_t v = 0; v < p.taps_w; v++, tap++) {
                const uint16_t offset_w = (uint16_t)(v * p.dilation_w);
                for (uint32_t i = 0; i < p.tap_tiles; i++) {
                    ptx::mbarrier_wait(s.empty(at.stage), at.parity ^ 1);
                    const uint32_t full = s.full(at.stage);
                    ptx::mbarrier_arrive_expect(full, bytes);
                    const int32_t channel = (int32_t)(i * C::TILE_K);
                    const uint32_t to = s.x(at.stage, 0) + rank_n * SHARE * C::K_BYTES;
                    if constexpr (C::CLUSTER_N > 1) {
                        ptx::im2col_load_multicast(to, x, full, channel, first, offset_h, offset_w,
                                                   ALL_BLOCKS);
                    } else {
                        ptx::im2col_load(to, x, full, channel, first, offset_h, offset_w);
                    }
                    load_operand<true, C::TILE_N, C::CLUSTER_M, C::K_BYTES, C::ACROSS, false>(
                        s.y(at.stage, 0), y, full, (uint32_t)channel, column, tap, rank_m,
                        ALL_BLOCKS, false);
                    at.advance();
                }
            }
        }
    }
}

template <class C>
__global__ void __launch_bounds__(C::THREADS, 1)
    sm90_conv_kernel(const __grid_constant__ sm90_conv_arguments p)
{
    const shared<C> s = begin_block<C>(p.product);
    /* The same for all threads of a warpgroup; the shuffle tells the compiler so. */
    const uint32_t warpgroup = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);
    const uint32_t rank = C::CLUSTER == 1 ? 0 : ptx::cluster_block_rank();
    const uint32_t cluster = blockIdx.x / C::CLUSTER, clusters = gridDim.x / C::CLUSTER;
    if (warpgroup == 0) {
        give_registers<C>();
        if (threadIdx.x == 0) {
            produce_patches<C>(p, s, cluster, clusters, rank);
        }
        __syncwarp();
    } else {
        take_registers<C>();
        ptx::argument_fetch(p.product.k_tiles);
        ptx::argument_fetch(p.product.out);
        ptx::earlier_kernels_wait();
        consume<C, false>(p.product, s, cluster, clusters, rank, warpgroup - 1);
    }
    if constexpr (C::CLUSTER > 1) {
        ptx::cluster_sync(); /* no block leaves while another can still reach its shared memory */
    }
}

template <element E, int M, int N, int CONSUMERS, schedule S, int CM, int CN>
sm90_kernel conv_row(const char *name)
{
    using K = config<E, M, N, CONSUMERS, S, CM, CN, ONE_CHAIN, true, true>;
    sm90_kernel kernel = row_of<K>(name);
    kernel.functions[0][1][1] = reinterpret_cast<const void *>(&sm90_conv_kernel<K>);
    return kernel;
}

} // namespace sm90

/* clang-format off */
#define SM90_CONV_ROWS_16BIT(E, PREFIX)                                                            \
    sm90::conv_row<E, 256, 128, 2, sm90::COOPERATIVE, 1, 1>(PREFIX "_256x128"),                    \
    sm90::conv_row<E, 128, 192, 2, sm90::COOPERATIVE, 1, 1>(PREFIX "_128x192"),                    \
    sm90::conv_row<E, 128, 128, 2, sm90::PINGPONG, 1, 1>(PREFIX "_128x128_pp"),                    \
    sm90::conv_row<E, 128, 128, 2, sm90::COOPERATIVE, 1, 2>(PREFIX "_128x128_1x2"),                \
    sm90::conv_row<E, 256, 64, 2, sm90::COOPERATIVE, 1, 1>(PREFIX "_256x64"),                      \
    sm90::conv_row<E, 256, 64, 2, sm90::COOPERATIVE, 2, 1>(PREFIX "_256x64_2x1"),                  \
    sm90::conv_row<E, 128, 64, 2, sm90::COOPERATIVE, 1, 1>(PREFIX "_128x64"),                      \
    sm90::conv_row<E, 128, 64, 2, sm90::COOPERATIVE, 1, 2>(PREFIX "_128x64_1x2"),                  \
    sm90::conv_row<E, 64, 64, 1, sm90::COOPERATIVE, 1, 1>(PREFIX "_64x64")
/* clang-format on */

#endif
