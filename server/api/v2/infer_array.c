/* Models of reductions and softmaxes. Their options and operands are those of POST /reduce and
 * POST /softmax. */
#include "server/api/services.h"
#include "server/api/v2/infer_call.h"

/* Does what the endpoint does when the parameters are set. */
static enum gemmd_error infer_array_settle(struct request *request)
{
    struct compute_call *call = &infer_of(request)->compute;
    parameter_mark_given(call->operation->parameters, &call->request, "dtype");
    call->body_format = FORMAT_SAFETENSORS; /* the array gives the shape */
    const enum gemmd_error code =
        call->operation->settle(call, services_of(request), request->tenant, &request->fault);
    call->body_format = FORMAT_RAW;
    return code;
}

static void infer_reduce_set_dtype(union call_request *request, enum gemmd_dtype dtype)
{
    request->reduce.dtype = dtype;
}

static enum gemmd_dtype infer_reduce_result_dtype(const union call_request *request)
{
    const struct reduce_request *reduce = &request->reduce;
    return parameter_given(&reduce_parameter_table, reduce, "out")
               ? reduce->out
               : reduce_default_out(reduce->op, reduce->dtype);
}

static bool infer_reduce_is_resident(const struct compute_call *call, uint32_t operand)
{
    (void)operand;
    return call->residents.a != NULL;
}

static enum gemmd_error infer_reduce_complete(struct request *request,
                                              union call_operands *operands)
{
    return reduce_request_bind_tensors(&infer_of(request)->compute.request.reduce,
                                       &operands->reduce, &request->fault);
}

const struct infer_operation infer_reduce = {
    .operation = &reduce_operation,
    .options = (const char *const[]){"op", "axis", "keepdims", "out", "x", "kernel", NULL},
    .set_dtype = infer_reduce_set_dtype,
    .settle = infer_array_settle,
    .result_dtype = infer_reduce_result_dtype,
    .is_resident = infer_reduce_is_resident,
    .complete = infer_reduce_complete,
};

static void infer_softmax_set_dtype(union call_request *request, enum gemmd_dtype dtype)
{
    request->softmax.dtype = dtype;
}

static enum gemmd_dtype infer_softmax_result_dtype(const union call_request *request)
{
    const struct softmax_request *softmax = &request->softmax;
    return parameter_given(&softmax_parameter_table, softmax, "out") ? softmax->out
                                                                     : softmax->dtype;
}

static bool infer_softmax_is_resident(const struct compute_call *call, uint32_t operand)
{
    return operand == 1 && call->residents.a != NULL;
}

static enum gemmd_error infer_softmax_complete(struct request *request,
                                               union call_operands *operands)
{
    return softmax_request_bind_tensors(&infer_of(request)->compute.request.softmax,
                                        &operands->softmax, &request->fault);
}

const struct infer_operation infer_softmax = {
    .operation = &softmax_operation,
    .options = (const char *const[]){"scale", "log", "out", "x", "kernel", NULL},
    .set_dtype = infer_softmax_set_dtype,
    .settle = infer_array_settle,
    .result_dtype = infer_softmax_result_dtype,
    .is_resident = infer_softmax_is_resident,
    .complete = infer_softmax_complete,
};
