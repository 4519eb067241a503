/* The outputs of an inference: which outputs are requested, and the memory of the answer's JSON. */
#include <string.h>

#include "proto/dtype.h"
#include "proto/oip_answer.h"
#include "proto/oip_data.h"
#include "proto/oip_datatype.h"
#include "proto/size.h"
#include "proto/size_text.h"
#include "server/api/services.h"
#include "server/api/v2/infer_call.h"

enum { ALIGNMENT = 64 }; /* of results */

enum gemmd_dtype infer_dtype(const struct request *request, const struct model_tensor *tensor)
{
    const struct infer_call *call = infer_of(request);
    return tensor->has_result_type ? call->model.operation->result_dtype(&call->compute.request)
                                   : tensor->dtype;
}

const struct tensor *infer_result(const struct request *request, const struct infer_output *output)
{
    return output->tensor->number == 1 ? &infer_of(request)->compute.lse
                                       : &infer_of(request)->compute.c;
}

/* The parameter that says whether the second result is wanted; NULL for a model with one result. */
static bool *second_result(struct request *request)
{
    struct infer_call *call = infer_of(request);
    const struct infer_operation *operation = call->model.operation;
    return operation->second_result != NULL ? operation->second_result(&call->compute.request)
                                            : NULL;
}

static enum gemmd_error add_output(struct request *request, const struct model_tensor *tensor,
                                   bool binary, bool in_region)
{
    struct infer_call *call = infer_of(request);
    const enum gemmd_dtype dtype = infer_dtype(request, tensor);
    bool *second = tensor->number == 1 ? second_result(request) : NULL;
    if (!binary && !in_region && !oip_datatype_has_json(dtype))
        return fault_set(&request->fault, GEMMD_ERR_MALFORMED, NULL,
                         "output '%s': data of type %s can't be JSON; ask for binary data",
                         tensor->name, oip_datatype(dtype));
    if (second != NULL)
        *second = true;
    call->outputs[call->output_count++] = (struct infer_output){tensor, binary, in_region};
    return GEMMD_OK;
}

/* Adds all outputs of the model: the ones that are not optional, and the second result if its
 * parameter is set. */
static enum gemmd_error take_all_outputs(struct request *request)
{
    const struct infer_call *call = infer_of(request);
    const bool *second = second_result(request);
    enum gemmd_error code = GEMMD_OK;
    for (uint32_t i = 0; i < call->model.output_count && code == GEMMD_OK; i++)
        if (!call->model.outputs[i].optional || (second != NULL && *second))
            code = add_output(request, &call->model.outputs[i], call->asked.binary_output, false);
    return code;
}

enum gemmd_error infer_take_outputs(struct request *request)
{
    const struct infer_call *call = infer_of(request);
    const struct model *model = &call->model;
    char names[64];
    if (call->asked.output_count == 0)
        return take_all_outputs(request);
    bool *second = second_result(request);
    if (second != NULL)
        *second = false; /* computed only if it is requested */
    for (uint32_t i = 0; i < call->asked.output_count; i++) {
        const struct oip_output *asked = &call->asked.outputs[i];
        uint32_t index = 0;
        while (index < model->output_count && strcmp(model->outputs[index].name, asked->name) != 0)
            index++;
        if (index == model->output_count) {
            model_tensor_names(model->outputs, model->output_count, names);
            return fault_set(&request->fault, GEMMD_ERR_MALFORMED, NULL,
                             "unexpected output '%s' for model '%.140s'; its outputs are %s",
                             asked->name, model->name, names);
        }
        const bool in_region = asked->region.name[0] != '\0';
        enum gemmd_error code =
            add_output(request, &model->outputs[index], asked->binary, in_region);
        if (code == GEMMD_OK && in_region)
            code = infer_place_output(request, asked, &model->outputs[index],
                                      infer_dtype(request, &model->outputs[index]));
        if (code != GEMMD_OK)
            return code;
    }
    return GEMMD_OK;
}

void infer_take_front(struct request *request)
{
    const struct infer_call *call = infer_of(request);
    bool binary = false, numbers = false;
    _Static_assert((int)OIP_ANSWER_TEXT_MAX % ALIGNMENT == 0, "what follows is aligned");
    for (uint32_t i = 0; i < call->output_count; i++) {
        binary |= call->outputs[i].binary;
        numbers |= !call->outputs[i].binary && !call->outputs[i].in_region;
    }
    infer_of(request)->compute.front_bytes = binary && !numbers ? OIP_ANSWER_TEXT_MAX : 0;
}

enum gemmd_error infer_take_text(struct request *request)
{
    struct infer_call *call = infer_of(request);
    const uint64_t limit = request->config->max_json_bytes;
    uint64_t total = 0;
    for (uint32_t i = 0; i < call->output_count; i++) {
        const struct tensor *result = infer_result(request, &call->outputs[i]);
        uint64_t bytes;
        if (call->outputs[i].binary || call->outputs[i].in_region)
            continue;
        if (!size_mul(result->bytes / dtype_size(result->dtype), oip_data_text_max(result->dtype),
                      &bytes) ||
            !size_add(total, bytes, &total) || total > limit)
            return fault_set(&request->fault, GEMMD_ERR_TOO_LARGE, NULL,
                             "the result as JSON would be longer than --max-json, which is %s; ask "
                             "for binary data",
                             size_text(limit).text);
    }
    if (infer_of(request)->compute.front_bytes > 0)
        return GEMMD_OK;
    call->text_bytes = total + OIP_ANSWER_TEXT_MAX;
    call->text = pool_alloc(infer_of(request)->compute.memory, call->text_bytes, &request->fault);
    return call->text != NULL ? GEMMD_OK : GEMMD_ERR_OUT_OF_MEMORY;
}
