#include "proto/gemm_scales.h"

#include <float.h>
#include <inttypes.h>
#include <string.h>

#include "proto/dtype.h"

const char *const gemm_scales_names[] = {"none", "rowcol", "block", NULL};

const char *gemm_scales_name(enum gemm_scales scales)
{
    return gemm_scales_names[scales];
}

bool gemm_scales_offer(enum gemm_scales scales, enum gemmd_dtype dtype, enum gemmd_dtype out)
{
    if (scales == GEMM_SCALES_NONE)
        return dtype_offers_out(dtype, out);
    const bool scaled =
        dtype == GEMMD_F8_E4M3 || (dtype == GEMMD_I8 && scales == GEMM_SCALES_ROWCOL);
    return scaled && (out == GEMMD_F32 || out == GEMMD_F16 || out == GEMMD_BF16);
}

enum gemmd_dtype gemm_scales_default_out(enum gemm_scales scales, enum gemmd_dtype dtype)
{
    return scales == GEMM_SCALES_NONE ? dtype_default_out(dtype) : GEMMD_BF16;
}

uint64_t gemm_scale_blocks(uint64_t extent)
{
    return extent / GEMM_SCALE_BLOCK + (extent % GEMM_SCALE_BLOCK != 0);
}

bool gemm_scales_same_shape(const struct tensor *one, const struct tensor *other)
{
    uint32_t i = 0, j = 0;
    for (;; i++, j++) {
        while (i < one->rank && one->dims[i] == 1)
            i++;
        while (j < other->rank && other->dims[j] == 1)
            j++;
        if (i >= one->rank || j >= other->rank)
            return i >= one->rank && j >= other->rank;
        if (one->dims[i] != other->dims[j])
            return false;
    }
}

enum gemmd_error gemm_scales_fit(const struct tensor *tensor, const struct tensor *scale,
                                 struct fault *fault)
{
    char got[TENSOR_MAX_RANK * 21];
    if (!gemm_scales_offer(GEMM_SCALES_ROWCOL, tensor->dtype, GEMMD_F32))
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "scale",
                         "a tensor of %s has no scale; tensors of f8_e4m3 and i8 may have one",
                         dtype_name(tensor->dtype));
    if (scale->dtype != GEMMD_F32)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "scale",
                         "the scale is of type %s; scales must be f32", dtype_name(scale->dtype));
    if (tensor->rank < 2 || tensor->rank > 3)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "scale",
                         "a tensor with a scale must have 2 dimensions, or 3 with the batch first");
    const uint64_t batch = tensor->rank == 3 ? tensor->dims[0] : 1;
    const uint64_t rows = tensor->dims[tensor->rank - 2], columns = tensor->dims[tensor->rank - 1];
    const uint64_t row_blocks = gemm_scale_blocks(rows), column_blocks = gemm_scale_blocks(columns);
    const uint64_t shapes[][3] = {{batch, rows, 1},
                                  {batch, columns, 1},
                                  {batch, rows, column_blocks},
                                  {batch, row_blocks, columns},
                                  {batch, row_blocks, column_blocks}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct tensor one;
        if (tensor_init(&one, GEMMD_F32, shapes[i], 3, NULL) && gemm_scales_same_shape(scale, &one))
            return GEMMD_OK;
    }
    tensor_shape_text(scale, got, sizeof got);
    return fault_set(fault, GEMMD_ERR_MALFORMED, "scale",
                     "the scale has the shape %s; it must be %" PRIu64 " or %" PRIu64
                     " (rowcol), or %" PRIu64 ",%" PRIu64 " or %" PRIu64 ",%" PRIu64 " or %" PRIu64
                     ",%" PRIu64 " (block), after the batch if there is one",
                     got, rows, columns, row_blocks, column_blocks, rows, column_blocks, row_blocks,
                     columns);
}

enum gemmd_error gemm_scales_check(const char *name, const struct tensor *scales,
                                   struct fault *fault)
{
    const unsigned char *bytes = scales->data;
    for (uint64_t i = 0; i < scales->bytes / sizeof(float); i++) {
        float value; /* a body has no alignment */
        memcpy(&value, bytes + i * sizeof value, sizeof value);
        if (!(value > 0 && value <= FLT_MAX))
            return fault_set(fault, GEMMD_ERR_MALFORMED, name,
                             "element %" PRIu64 " of %s is %g; scales must be positive and finite",
                             i, name, (double)value);
    }
    return GEMMD_OK;
}
