/* The models of operations: what POST /v2/models/{model}/infer needs of each operation besides its
 * struct call_operation. The options and operands of a model are those of the operation's endpoint;
 * the parameters that are missing in `options` follow from the model and the shapes. */
#include "server/api/v2/infer_call.h"

/* ---- products, and linear layers ---- */

static void infer_gemm_set_dtype(union call_request *request, enum gemmd_dtype dtype)
{
    request->gemm.dtype = dtype;
}

static void infer_gemm_begin_layer(union call_request *request)
{
    request->gemm.a_title = "X";
}

static enum gemmd_dtype infer_gemm_result_dtype(const union call_request *request)
{
    return request->gemm.out;
}

static enum gemmd_error infer_gemm_complete(union call_request *request,
                                            union call_operands *operands, struct fault *fault)
{
    const enum gemmd_error code = gemm_request_bind_tensors(&request->gemm, &operands->gemm, fault);
    request->gemm.transa = operands->gemm.transa;
    request->gemm.transb = operands->gemm.transb;
    return code;
}

const struct infer_operation infer_gemm = {
    .operation = &call_gemm,
    .options = (const char *const[]){"transa", "transb", "alpha", "beta", "act", "out", "kernel",
                                     "verify", "precision", "scales", NULL},
    .set_dtype = infer_gemm_set_dtype,
    .begin_layer = infer_gemm_begin_layer,
    .result_dtype = infer_gemm_result_dtype,
    .complete = infer_gemm_complete,
};

/* ---- attentions ---- */

static void infer_attention_set_dtype(union call_request *request, enum gemmd_dtype dtype)
{
    request->attention.dtype = dtype;
}

static bool *infer_attention_second_result(union call_request *request)
{
    return &request->attention.lse;
}

static enum gemmd_error infer_attention_complete(union call_request *request,
                                                 union call_operands *operands, struct fault *fault)
{
    return attention_request_bind_tensors(&request->attention, &operands->attention, fault);
}

const struct infer_operation infer_attention = {
    .operation = &call_attention,
    .options = (const char *const[]){"layout", "causal", "window", "window_right", "offset",
                                     "scale", "softcap", "lens", "k", "v", "sequence", "append",
                                     "position", "layer", "lse", "kernel", NULL},
    .set_dtype = infer_attention_set_dtype,
    .second_result = infer_attention_second_result,
    .complete = infer_attention_complete,
};

/* ---- convolutions, and convolutional layers ---- */

static void infer_conv2d_set_dtype(union call_request *request, enum gemmd_dtype dtype)
{
    request->conv2d.dtype = dtype;
    request->conv2d.out = dtype == GEMMD_I8 ? GEMMD_I32 : dtype;
}

static enum gemmd_dtype infer_conv2d_result_dtype(const union call_request *request)
{
    return request->conv2d.out;
}

static enum gemmd_error infer_conv2d_complete(union call_request *request,
                                              union call_operands *operands, struct fault *fault)
{
    return conv2d_request_bind_tensors(&request->conv2d, &operands->conv2d, fault);
}

const struct infer_operation infer_conv2d = {
    .operation = &call_conv2d,
    .options =
        (const char *const[]){"groups", "stride", "dilation", "padding", "layout", "w_layout",
                              "alpha", "act", "x", "w", "out", "kernel", "precision", NULL},
    .set_dtype = infer_conv2d_set_dtype,
    .result_dtype = infer_conv2d_result_dtype,
    .complete = infer_conv2d_complete,
};

/* ---- reductions ---- */

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

static enum gemmd_error infer_reduce_complete(union call_request *request,
                                              union call_operands *operands, struct fault *fault)
{
    return reduce_request_bind_tensors(&request->reduce, &operands->reduce, fault);
}

const struct infer_operation infer_reduce = {
    .operation = &call_reduce,
    .options = (const char *const[]){"op", "axis", "keepdims", "out", "x", "kernel", NULL},
    .set_dtype = infer_reduce_set_dtype,
    .result_dtype = infer_reduce_result_dtype,
    .complete = infer_reduce_complete,
};

/* ---- softmax ---- */

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

static enum gemmd_error infer_softmax_complete(union call_request *request,
                                               union call_operands *operands, struct fault *fault)
{
    return softmax_request_bind_tensors(&request->softmax, &operands->softmax, fault);
}

const struct infer_operation infer_softmax = {
    .operation = &call_softmax,
    .options = (const char *const[]){"scale", "log", "out", "x", "kernel", NULL},
    .set_dtype = infer_softmax_set_dtype,
    .result_dtype = infer_softmax_result_dtype,
    .complete = infer_softmax_complete,
};

/* ---- experts ---- */

static void infer_experts_set_dtype(union call_request *request, enum gemmd_dtype dtype)
{
    request->experts.dtype = dtype;
}

static enum gemmd_dtype infer_experts_result_dtype(const union call_request *request)
{
    const struct experts_request *experts = &request->experts;
    return parameter_given(&experts_parameter_table, experts, "out") ? experts->out
                                                                     : experts->dtype;
}

static enum gemmd_error infer_experts_complete(union call_request *request,
                                               union call_operands *operands, struct fault *fault)
{
    return experts_request_bind_tensors(&request->experts, &operands->experts, fault);
}

const struct infer_operation infer_experts = {
    .operation = &call_experts,
    .options =
        (const char *const[]){"transb", "glu", "act", "a", "w", "out", "kernel", "precision", NULL},
    .set_dtype = infer_experts_set_dtype,
    .result_dtype = infer_experts_result_dtype,
    .complete = infer_experts_complete,
};
