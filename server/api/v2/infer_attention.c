/* Models of attentions. Their options and operands are those of POST /attention. */
#include "server/api/services.h"
#include "server/api/v2/infer_call.h"

static enum gemmd_error infer_attention_settle(struct request *request)
{
    struct compute_call *call = &infer_of(request)->compute;
    attention_request_mark_given(&call->request.attention, "dtype");
    call->body_format = FORMAT_SAFETENSORS; /* the arrays give the sizes */
    const enum gemmd_error code =
        call->operation->settle(call, services_of(request), request->tenant, &request->fault);
    call->body_format = FORMAT_RAW;
    return code;
}

static void infer_attention_set_dtype(union call_request *request, enum gemmd_dtype dtype)
{
    request->attention.dtype = dtype;
}

static bool infer_attention_is_resident(const struct compute_call *call, uint32_t operand)
{
    return (operand == 3 && call->residents.a != NULL) ||
           (operand == 4 && call->residents.b != NULL);
}

static bool *infer_attention_second_result(union call_request *request)
{
    return &request->attention.lse;
}

static enum gemmd_error infer_attention_complete(struct request *request,
                                                 union call_operands *operands)
{
    return attention_request_bind_tensors(&infer_of(request)->compute.request.attention,
                                          &operands->attention, &request->fault);
}

/* The other parameters of POST /attention follow from the model and the shapes. */
const struct infer_operation infer_attention = {
    .operation = &attention_operation,
    .options = (const char *const[]){"layout", "causal", "window", "scale", "softcap", "k", "v",
                                     "lse", "kernel", NULL},
    .settle = infer_attention_settle,
    .set_dtype = infer_attention_set_dtype,
    .is_resident = infer_attention_is_resident,
    .second_result = infer_attention_second_result,
    .complete = infer_attention_complete,
};
