/* Models of convolutions and of layers of convolutions. Their options and operands are those of
 * POST /conv2d. */
#include <string.h>

#include "server/api/services.h"
#include "server/api/v2/infer_call.h"

/* Makes the layer's tensor W of the request. */
static enum gemmd_error take_weight(struct request *request)
{
    struct compute_call *call = &infer_of(request)->compute;
    const struct model *model = &infer_of(request)->model;
    struct conv2d_request *conv = &call->request.conv2d;
    const char *name = model->name + sizeof MODEL_CONV - 1;
    if (conv->w[0] != '\0')
        return fault_set(&request->fault, GEMMD_ERR_MALFORMED, "w",
                         "the model '%.140s' has its own W", model->name);
    memcpy(conv->w, name, strlen(name) + 1);
    call->residents.b = model->weight;
    call->residents.b_is_borrowed = true;
    call->residents.tenant = request->tenant;
    tensor_store_count_use(services_of(request)->tensors, true);
    return GEMMD_OK;
}

static enum gemmd_error infer_conv2d_settle(struct request *request)
{
    struct compute_call *call = &infer_of(request)->compute;
    enum gemmd_error code = GEMMD_OK;
    if (infer_of(request)->model.weight != NULL)
        code = take_weight(request);
    else
        conv2d_request_mark_given(&call->request.conv2d, "dtype");
    if (code != GEMMD_OK)
        return code;
    call->body_format = FORMAT_SAFETENSORS; /* the arrays give the sizes */
    code = call->operation->settle(call, services_of(request), request->tenant, &request->fault);
    call->body_format = FORMAT_RAW;
    return code;
}

static void infer_conv2d_set_dtype(union call_request *request, enum gemmd_dtype dtype)
{
    request->conv2d.dtype = dtype;
    request->conv2d.out = dtype == GEMMD_I8 ? GEMMD_I32 : dtype;
}

static enum gemmd_dtype infer_conv2d_result_dtype(const union call_request *request)
{
    return request->conv2d.out;
}

static bool infer_conv2d_is_resident(const struct compute_call *call, uint32_t operand)
{
    return (operand == 0 && call->residents.a != NULL) ||
           (operand == 1 && call->residents.b != NULL);
}

static enum gemmd_error infer_conv2d_complete(struct request *request,
                                              union call_operands *operands)
{
    return conv2d_request_bind_tensors(&infer_of(request)->compute.request.conv2d,
                                       &operands->conv2d, &request->fault);
}

/* The other parameters of POST /conv2d follow from the model and the shapes. */
const struct infer_operation infer_conv2d = {
    .operation = &conv2d_operation,
    .options =
        (const char *const[]){"groups", "stride", "dilation", "padding", "layout", "w_layout",
                              "alpha", "act", "x", "w", "out", "kernel", "precision", NULL},
    .settle = infer_conv2d_settle,
    .set_dtype = infer_conv2d_set_dtype,
    .result_dtype = infer_conv2d_result_dtype,
    .is_resident = infer_conv2d_is_resident,
    .complete = infer_conv2d_complete,
};
