#include "kernels/cuda/sm90/tensor_map.h"

#include <string.h>

CUtensorMapDataType tensor_map_type(enum gemmd_dtype dtype)
{
    switch (dtype) {
    case GEMMD_BF16:
        return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case GEMMD_F16:
        return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case GEMMD_I8:
    case GEMMD_F8_E4M3:
        return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    case GEMMD_I32:
        return CU_TENSOR_MAP_DATA_TYPE_INT32;
    default:
        return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    }
}

typedef CUresult (*encode_function)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                                    const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                                    const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                                    CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

cudaError_t tensor_map_encode(const struct sm90_device *device, const struct tensor_map_view *view,
                              CUtensorMap *map)
{
    cuuint64_t dims[TENSOR_MAP_DIMENSIONS_MAX], strides[TENSOR_MAP_DIMENSIONS_MAX - 1];
    cuuint32_t box[TENSOR_MAP_DIMENSIONS_MAX];
    const cuuint32_t steps[TENSOR_MAP_DIMENSIONS_MAX] = {1, 1, 1, 1};
    for (int i = 0; i < TENSOR_MAP_DIMENSIONS_MAX; i++) {
        dims[i] = view->dims[i];
        box[i] = view->box[i];
        if (i > 0)
            strides[i - 1] = view->stride_bytes[i - 1];
    }
    encode_function function;
    memcpy(&function, &device->encode, sizeof function);
    const CUresult result =
        function(map, view->type, view->dimensions, (void *)(uintptr_t)view->data, dims, strides,
                 box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, view->swizzle,
                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

typedef CUresult (*encode_im2col_function)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                                           const cuuint64_t *, const cuuint64_t *, const int *,
                                           const int *, cuuint32_t, cuuint32_t, const cuuint32_t *,
                                           CUtensorMapInterleave, CUtensorMapSwizzle,
                                           CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

cudaError_t tensor_map_encode_im2col(const void *encode, const struct tensor_map_im2col *view,
                                     CUtensorMap *map)
{
    cuuint64_t dims[4], strides[3];
    for (int i = 0; i < 4; i++)
        dims[i] = view->dims[i];
    for (int i = 0; i < 3; i++)
        strides[i] = view->stride_bytes[i];
    /* The box's corners, h before w: the first relative to the first pixel of an image, the last
     * relative to the last one. Steps are in the order of the dimensions. */
    const int lower[2] = {view->first_w, view->first_h};
    const int upper[2] = {view->last_w - (int)(view->dims[1] - 1),
                          view->last_h - (int)(view->dims[2] - 1)};
    const cuuint32_t steps[4] = {1, view->step_w, view->step_h, 1};
    encode_im2col_function function;
    memcpy(&function, &encode, sizeof function);
    const CUresult result =
        function(map, view->type, 4, (void *)(uintptr_t)view->data, dims, strides, lower, upper,
                 view->channels, view->pixels, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, view->swizzle,
                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}
