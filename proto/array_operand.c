#include "proto/array_operand.h"

#include "proto/dtype.h"

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
