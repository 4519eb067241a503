/*
 * tensor_map.h - tensor maps, the descriptions of tensors that TMA (the copy engine) copies by. The
 * functions may be called by any thread.
 */
#ifndef KERNELS_CUDA_SM90_TENSOR_MAP_H
#define KERNELS_CUDA_SM90_TENSOR_MAP_H

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "kernels/cuda/sm90/sm90.h"

enum { TENSOR_MAP_DIMENSIONS_MAX = 4 };

/* A tensor in device memory and the box of elements that one copy takes. Dimensions, strides and
 * the box are in elements, except for stride_bytes, and have the innermost dimension first.
 * Elements of the innermost dimension are contiguous; stride_bytes[i] is the distance in dimension
 * i + 1. Strides and the address `data` are multiples of 16 bytes. */
struct tensor_map_view {
    const void *data;
    CUtensorMapDataType type;
    uint32_t dimensions;
    uint64_t dims[TENSOR_MAP_DIMENSIONS_MAX];
    uint64_t stride_bytes[TENSOR_MAP_DIMENSIONS_MAX - 1];
    uint32_t box[TENSOR_MAP_DIMENSIONS_MAX];
    CUtensorMapSwizzle swizzle;
};

/* The type of elements as they are in memory; UINT8 for all types of 8 bits. Pure. */
CUtensorMapDataType tensor_map_type(enum gemmd_dtype dtype);

/* Encodes a tensor map. cudaErrorInvalidValue: TMA does not support the view. Does not read the
 * tensor. */
cudaError_t tensor_map_encode(const struct sm90_device *device, const struct tensor_map_view *view,
                              CUtensorMap *map);

/* A tensor [n, h, w, c] as im2col copies read it (ptx_im2col.cuh). Dimensions and distances are in
 * the order c, w, h, n; the channels of a pixel are contiguous. The pixels of a copy are those of
 * the box from (first_h, first_w) to (last_h, last_w), both included, in steps of (step_h, step_w).
 */
struct tensor_map_im2col {
    const void *data;
    CUtensorMapDataType type;
    uint64_t dims[4];
    uint64_t stride_bytes[3];
    int32_t first_h, first_w, last_h, last_w;
    uint32_t step_h, step_w;
    uint32_t channels, pixels; /* of a copy */
    CUtensorMapSwizzle swizzle;
};

/* Encodes a tensor map. `encode` is cuTensorMapEncodeIm2col. Fails if TMA does not support the
 * view. Does not read the tensor. */
cudaError_t tensor_map_encode_im2col(const void *encode, const struct tensor_map_im2col *view,
                                     CUtensorMap *map);

#endif
