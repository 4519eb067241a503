/* Models of attentions. Their options and operands are those of POST /attention. */
#include "server/api/services.h"
#include "server/api/v2/infer_call.h"

static enum gemmd_error infer_attention_settle(struct request *request)
{
    struct compute_call *call = &infer_of(request)->compute;
    attention_request_mark_given(&call->attention, "dtype");
    enum gemmd_error code =
        call_residents_acquire_kv(&call->residents, &call->attention, services_of(request)->tensors,
                                  request->tenant, &request->fault);
    return code == GEMMD_OK
               ? attention_request_check(&call->attention, FORMAT_SAFETENSORS, &request->fault)
               : code;
}

static struct tensor *infer_attention_operand(union call_operands *operands, enum model_role role)
{
    switch (role) {
    case MODEL_Q:
        return &operands->attention.q;
    case MODEL_K:
        return &operands->attention.k;
    case MODEL_V:
        return &operands->attention.v;
    case MODEL_LENS_Q:
        return &operands->attention.lens_q;
    default:
        return &operands->attention.lens_kv;
    }
}

static enum gemmd_error infer_attention_complete(struct request *request,
                                                 union call_operands *operands)
{
    return attention_request_bind_tensors(&infer_of(request)->compute.attention,
                                          &operands->attention, &request->fault);
}

/* The other parameters of POST /attention follow from the model and the shapes. */
static const char *const options[] = {"layout", "causal", "window", "scale",  "softcap",
                                      "k",      "v",      "lse",    "kernel", NULL};

const struct infer_operation infer_attention = {
    .operation = &attention_operation,
    .options = options,
    .options_text = "layout, causal, window, scale, softcap, k, v, lse, kernel",
    .settle = infer_attention_settle,
    .operand = infer_attention_operand,
    .complete = infer_attention_complete,
};
