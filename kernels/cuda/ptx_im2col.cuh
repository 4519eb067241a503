/*
 * ptx_im2col.cuh - TMA's im2col mode: one instruction copies the channels of many pixels of a
 * tensor [n, h, w, c], in the order in which a filter visits them (PTX ISA 5.5.4, 9.7.9.27).
 *
 * The tensor map has a bounding box of pixels (tensor_map_im2col). The first pixel is at (n, h, w).
 * Further pixels follow along w, in steps of the map's stride, to the end of the box, then in the
 * next row of the box, then in the next image. Each pixel is read at an offset of (offset_h,
 * offset_w), the place in the filter, and is zeros outside of the tensor.
 */
#ifndef KERNELS_CUDA_PTX_IM2COL_CUH
#define KERNELS_CUDA_PTX_IM2COL_CUH

#include <cuda.h>
#include <stdint.h>

namespace ptx
{

/* The first pixel of a copy. */
struct pixel {
    int32_t n, h, w;
};

__device__ __forceinline__ void im2col_load(uint32_t destination, const CUtensorMap *map,
                                            uint32_t barrier, int32_t channel, pixel first,
                                            uint16_t offset_h, uint16_t offset_w)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col"
                 ".mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(destination),
                 "l"(map), "r"(barrier), "r"(channel), "r"(first.w), "r"(first.h), "r"(first.n),
                 "h"(offset_w), "h"(offset_h)
                 : "memory");
}

/* The same into every block of the cluster whose bit is set in `blocks`. */
__device__ __forceinline__ void im2col_load_multicast(uint32_t destination, const CUtensorMap *map,
                                                      uint32_t barrier, int32_t channel,
                                                      pixel first, uint16_t offset_h,
                                                      uint16_t offset_w, uint16_t blocks)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col"
                 ".mbarrier::complete_tx::bytes.multicast::cluster"
                 " [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8}, %9;" ::"r"(destination),
                 "l"(map), "r"(barrier), "r"(channel), "r"(first.w), "r"(first.h), "r"(first.n),
                 "h"(offset_w), "h"(offset_h), "h"(blocks)
                 : "memory");
}

} // namespace ptx

#endif
