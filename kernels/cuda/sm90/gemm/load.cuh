/*
 * load.cuh - the copies of operands into a stage: which boxes a thread asks TMA for.
 */
#ifndef KERNELS_CUDA_SM90_GEMM_LOAD_CUH
#define KERNELS_CUDA_SM90_GEMM_LOAD_CUH

#include <stdint.h>

#include "kernels/cuda/ptx.cuh"

namespace sm90
{

/* Copies one box to this block only. `once`: no other tile reads the box. */
template <bool SAYS_ONCE>
__device__ __forceinline__ void load_box(uint32_t destination, const CUtensorMap *map,
                                         uint32_t barrier, int32_t x, int32_t y, int32_t batch,
                                         bool once)
{
    if (SAYS_ONCE && once) {
        ptx::tensor_load_once(destination, map, barrier, x, y, batch);
    } else {
        ptx::tensor_load(destination, map, barrier, x, y, batch);
    }
}

/* Loads this block's share of one operand of a stage. The stage needs LINES rows of X or columns of
 * Y from `first` on, at steps of k from `k` on. Of SHARES equal shares this block loads share
 * `share`, for all blocks in the bit mask `blocks`. If the lines of the operand run across k, only
 * the boxes that begin before `extent` are loaded. TMA signals `barrier` for the bytes that arrive.
 */
template <bool K_MAJOR, int LINES, int SHARES, uint32_t K_BYTES, int ACROSS, bool SAYS_ONCE>
__device__ __forceinline__ void load_operand(uint32_t destination, const CUtensorMap *map,
                                             uint32_t barrier, uint32_t k, uint32_t first,
                                             uint32_t batch, uint32_t share, uint16_t blocks,
                                             bool once, uint32_t extent = UINT32_MAX)
{
    constexpr int SHARE_LINES = LINES / SHARES;
    const int32_t from = (int32_t)(first + share * SHARE_LINES);
    const uint32_t to = destination + share * SHARE_LINES * K_BYTES;
    if constexpr (K_MAJOR) {
        if constexpr (SHARES > 1) {
            ptx::tensor_load_multicast(to, map, barrier, (int32_t)k, from, (int32_t)batch, blocks);
        } else {
            load_box<SAYS_ONCE>(to, map, barrier, (int32_t)k, from, (int32_t)batch, once);
        }
    } else {
#pragma unroll
        for (int i = 0; i < SHARE_LINES / ACROSS; i++) {
            if constexpr (SHARES > 1) {
                ptx::tensor_load_multicast(to + i * ACROSS * K_BYTES, map, barrier,
                                           from + ACROSS * i, (int32_t)k, (int32_t)batch, blocks);
            } else if (i == 0 || (uint32_t)(from + ACROSS * i) < extent) {
                load_box<SAYS_ONCE>(to + i * ACROSS * K_BYTES, map, barrier, from + ACROSS * i,
                                    (int32_t)k, (int32_t)batch, once);
            }
        }
    }
}

/* In the functions below, C is a configuration (gemm.cuh).
 *
 * If half of a box of Y is left over at the end of a tile (LEFT_OVER), every second tile begins in
 * the middle of 128 bytes. Boxes that begin there take nearly twice as long to copy. The columns of
 * such a tile therefore lie in shared memory, and in the sums, from the next multiple of 128 bytes
 * on, and the columns before that multiple lie behind them. Returns the number of the columns that
 * lie behind; 0 if the columns lie in order. */
template <class C> __device__ __forceinline__ uint32_t y_shift(uint32_t column)
{
    return C::LEFT_OVER ? column % C::ACROSS : 0;
}

/* Loads the columns of a tile that begins at `column`, at steps of k from `k` on, in the order that
 * y_shift describes: full boxes, and the columns that are left over, by `half` if they have boxes
 * of their own size. Boxes that begin at `extent` or later are left out. */
template <class C>
__device__ __forceinline__ void load_columns(uint32_t destination, const CUtensorMap *map,
                                             const CUtensorMap *half, uint32_t barrier, uint32_t k,
                                             uint32_t column, uint32_t batch, bool once,
                                             uint32_t extent)
{
    const uint32_t shift = y_shift<C>(column);
#pragma unroll
    for (int i = 0; i <= C::FULL_BOXES; i++) {
        const bool full = i < C::FULL_BOXES;
        const uint32_t from = column + (full || shift == 0 ? i * C::ACROSS + shift : 0);
        if (from < extent) {
            load_box<C::SAYS_ONCE>(destination + i * C::ACROSS * C::K_BYTES,
                                   full || !C::HALF_BOX ? map : half, barrier, (int32_t)from,
                                   (int32_t)k, (int32_t)batch, once);
        }
    }
}

} // namespace sm90

#endif
