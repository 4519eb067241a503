#include "proto/array_shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "proto/dtype.h"
#include "proto/gemm_request.h"
#include "proto/number.h"

enum gemmd_error array_operand_settle(const struct array_request *array, const struct tensor *x,
                                      const char *title, struct fault *fault)
{
    if (parameter_given(array->parameters, array->request, "dtype") && x->dtype != *array->dtype)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "dtype",
                         "%s is of type %s and the parameter says %s", title, dtype_name(x->dtype),
                         dtype_name(*array->dtype));
    *array->dtype = x->dtype;
    parameter_mark_given(array->parameters, array->request, "dtype");
    return array_shape_settle(array->shape, x, title, fault);
}

enum gemmd_error array_operand_check_format(enum format format, struct fault *fault)
{
    if (format == FORMAT_RAW)
        return fault_set(
            fault, GEMMD_ERR_MALFORMED, "shape",
            "shape is missing; raw bodies need it: " ARRAY_SHAPE_ALLOWED PARAMETER_OR_FORMAT);
    return GEMMD_OK;
}

enum gemmd_error array_operand_check_sent(const struct tensor *x, bool is_wanted,
                                          struct fault *fault)
{
    const bool is_sent = operand_is_there(x);
    if (is_sent == is_wanted)
        return GEMMD_OK;
    return fault_set(fault, GEMMD_ERR_MALFORMED, "x",
                     is_sent ? "the request sends X, which is resident" : "the request lacks X");
}

bool array_shape_read(const char *value, void *out)
{
    struct array_shape shape = {.rank = 0};
    char text[16];
    while (shape.rank < TENSOR_MAX_RANK) {
        const size_t length = strcspn(value, ",");
        uint64_t dim;
        if (length >= sizeof text)
            return false;
        memcpy(text, value, length);
        text[length] = '\0';
        if (!number_u64(text, &dim) || dim < 1 || dim > GEMM_DIM_MAX)
            return false;
        shape.dims[shape.rank++] = dim;
        value += length;
        if (*value == '\0') {
            *(struct array_shape *)out = shape;
            return true;
        }
        value++;
    }
    return false;
}

const struct parameter_values array_shape_values = {.read = array_shape_read,
                                                    .allowed = ARRAY_SHAPE_ALLOWED};

void array_shape_text(const struct array_shape *shape, char *out, uint32_t room)
{
    struct tensor tensor = {.rank = shape->rank};
    memcpy(tensor.dims, shape->dims, sizeof tensor.dims);
    tensor_shape_text(&tensor, out, room);
}

enum gemmd_error array_shape_settle(struct array_shape *shape, const struct tensor *tensor,
                                    const char *title, struct fault *fault)
{
    char one[128], other[128];
    for (uint32_t i = 0; i < tensor->rank; i++)
        if (tensor->dims[i] < 1 || tensor->dims[i] > GEMM_DIM_MAX)
            return fault_set(fault, GEMMD_ERR_MALFORMED, "shape",
                             "dimension %" PRIu32 " of %s is %" PRIu64 "; it must be from 1 to %d",
                             i, title, tensor->dims[i], GEMM_DIM_MAX);
    struct array_shape wanted = {.rank = tensor->rank};
    memcpy(wanted.dims, tensor->dims, sizeof wanted.dims);
    if (shape->rank == 0)
        *shape = wanted;
    if (shape->rank == wanted.rank &&
        memcmp(shape->dims, wanted.dims, wanted.rank * sizeof wanted.dims[0]) == 0)
        return GEMMD_OK;
    array_shape_text(&wanted, one, sizeof one);
    array_shape_text(shape, other, sizeof other);
    return fault_set(fault, GEMMD_ERR_MALFORMED, "shape",
                     "the shape of %s is %s and the parameter says %s", title, one, other);
}
