#include "kernels/cuda/sm90/tensor_map.h"

#include <string.h>

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
