#include "client/gemmctl/parameters.h"

enum gemmd_error parameters_read(struct gemm_request *request, const struct arguments *arguments,
                                 struct fault *fault)
{
    gemm_request_init(request);
    for (int id = 0; id < OPTION_COUNT; id++) {
        const char *value = arguments->values[id];
        if (!options[id].parameter || value == NULL)
            continue;
        enum gemmd_error code = gemm_request_set(request, options[id].name, value, fault);
        if (code != GEMMD_OK)
            return code;
    }
    return GEMMD_OK;
}

void parameters_to_gemm(const struct gemm_request *request, const struct gemm_operands *operands,
                        struct gemmd_gemm *gemm)
{
    gemmd_gemm_init(gemm, sizeof *gemm);
    gemm->m = request->m;
    gemm->n = request->n;
    gemm->k = request->k;
    gemm->batch = request->batch;
    gemm->dtype = request->dtype;
    gemm->out = (int32_t)request->out;
    gemm->precision = (enum gemmd_precision)request->precision;
    gemm->act = (enum gemmd_act)request->act;
    gemm->verify = (enum gemmd_verify)request->verify;
    gemm->transa = operands->transa;
    gemm->transb = operands->transb;
    gemm->priority = request->priority;
    gemm->alpha = request->alpha;
    gemm->beta = request->beta;
    gemm->kernel = gemm_request_given(request, "kernel") ? request->kernel : NULL;
    gemm->a = operands->a.data;
    gemm->b = operands->b.data;
    gemm->bias = operands->bias.data;
    gemm->c0 = operands->c0.data;
    gemm->a_tensor = gemm_request_given(request, "a") ? request->a : NULL;
    gemm->b_tensor = gemm_request_given(request, "b") ? request->b : NULL;
    gemm->store = gemm_request_given(request, "store") ? request->store : NULL;
}
