/* Models of products and of layers. Their options and operands are those of POST /gemm. */
#include <string.h>

#include "server/api/services.h"
#include "server/api/v2/infer_call.h"

static enum gemmd_error infer_gemm_settle(struct request *request)
{
    struct compute_call *compute = &infer_of(request)->compute;
    const struct model *model = &infer_of(request)->model;
    struct fault *fault = &request->fault;
    if (model->weight == NULL) {
        gemm_request_mark_given(&compute->request.gemm, "dtype");
    } else {
        compute->request.gemm.a_title = "X";
        memcpy(compute->request.gemm.b, model->name + sizeof MODEL_LINEAR - 1,
               strlen(model->name) - sizeof MODEL_LINEAR + 2);
        compute->residents.b = model->weight;
        compute->residents.b_is_borrowed = true;
        compute->residents.tenant = request->tenant;
        tensor_store_count_use(services_of(request)->tensors, true);
        const enum gemmd_error code =
            gemm_settle_residents(&compute->residents, &compute->request.gemm, fault);
        if (code != GEMMD_OK)
            return code;
    }
    return gemm_request_check(&compute->request.gemm, FORMAT_SAFETENSORS, fault);
}

static void infer_gemm_set_dtype(union call_request *request, enum gemmd_dtype dtype)
{
    request->gemm.dtype = dtype;
}

static enum gemmd_dtype infer_gemm_result_dtype(const union call_request *request)
{
    return request->gemm.out;
}

static enum gemmd_error infer_gemm_complete(struct request *request, union call_operands *operands)
{
    struct gemm_request *gemm = &infer_of(request)->compute.request.gemm;
    const enum gemmd_error code = gemm_request_bind_tensors(gemm, &operands->gemm, &request->fault);
    gemm->transa = operands->gemm.transa;
    gemm->transb = operands->gemm.transb;
    return code;
}

/* The other parameters of POST /gemm follow from the model and the shapes. */
const struct infer_operation infer_gemm = {
    .operation = &gemm_operation,
    .options = (const char *const[]){"transa", "transb", "alpha", "beta", "act", "out", "kernel",
                                     "verify", "precision", "scales", NULL},
    .settle = infer_gemm_settle,
    .set_dtype = infer_gemm_set_dtype,
    .result_dtype = infer_gemm_result_dtype,
    .complete = infer_gemm_complete,
};
