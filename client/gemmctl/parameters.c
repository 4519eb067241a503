#include "client/gemmctl/parameters.h"

#include <stdio.h>
#include <string.h>

enum { NAME_ROOM = 32 };

/* Writes the name of an option's parameter, which has underscores for dashes: kv_heads for
 * --kv-heads. */
static const char *parameter_name(const struct option *option, char out[NAME_ROOM])
{
    snprintf(out, NAME_ROOM, "%s", option->name);
    for (char *dash = strchr(out, '-'); dash != NULL; dash = strchr(dash, '-'))
        *dash = '_';
    return out;
}

enum gemmd_error parameters_read(void *request, const struct parameter_table *table,
                                 const struct arguments *arguments, struct fault *fault)
{
    char name[NAME_ROOM];
    for (int id = 0; id < OPTION_COUNT; id++) {
        const char *value = arguments->values[id];
        if (!options[id].parameter || value == NULL)
            continue;
        enum gemmd_error code =
            parameter_set(table, request, parameter_name(&options[id], name), value, fault);
        if (code != GEMMD_OK)
            return code;
    }
    return GEMMD_OK;
}

enum gemmd_error parameters_read_gemm(struct gemm_request *request,
                                      const struct arguments *arguments, struct fault *fault)
{
    gemm_request_init(request);
    return parameters_read(request, &gemm_parameter_table, arguments, fault);
}

enum gemmd_error parameters_read_attention(struct attention_request *request,
                                           const struct arguments *arguments, struct fault *fault)
{
    const struct parameter_table *table = &attention_parameter_table;
    attention_request_init(request);
    const enum gemmd_error code = parameters_read(request, table, arguments, fault);
    return code == GEMMD_OK && arguments->values[OPTION_RAGGED] != NULL
               ? parameter_set(table, request, "lens", "ragged", fault)
               : code;
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
    gemm->scales = (enum gemmd_scales)request->scales;
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
    gemm->a_scale = operands->a_scale.data;
    gemm->b_scale = operands->b_scale.data;
    gemm->a_tensor = gemm_request_given(request, "a") ? request->a : NULL;
    gemm->b_tensor = gemm_request_given(request, "b") ? request->b : NULL;
    gemm->store = gemm_request_given(request, "store") ? request->store : NULL;
}

void parameters_to_attention(const struct attention_request *request,
                             const struct attention_operands *operands,
                             struct gemmd_attention *attention)
{
    const struct attention_request *r = request;
    gemmd_attention_init(attention, sizeof *attention);
    attention->batch = r->batch;
    attention->heads = r->heads;
    attention->kv_heads = r->kv_heads;
    attention->sq = r->sq;
    attention->skv = r->append ? 0 : r->skv;
    attention->d = r->d;
    attention->dv = r->dv;
    /* An operand without a dimension of heads has the same order in both layouts. */
    attention->layout = r->rank == 2 ? GEMMD_LAYOUT_BHSD : (enum gemmd_layout)r->layout;
    attention->dtype = r->dtype;
    attention->causal = r->causal;
    if (attention_request_given(r, "window"))
        attention->window = (int64_t)r->window;
    if (attention_request_given(r, "window_right"))
        attention->window_right = (int64_t)r->window_right;
    if (attention_request_given(r, "scale"))
        attention->scale = r->scale;
    attention->softcap = r->softcap;
    attention->has_offset = attention_request_given(r, "offset");
    attention->offset = r->offset;
    attention->mask_kind = (enum gemmd_mask)r->mask;
    if (r->mask != ATTENTION_MASK_NONE) {
        attention->mask = operands->mask.data;
        attention->mask_batch = r->mask_batch;
        attention->mask_heads = r->mask_heads;
        attention->mask_sq = r->mask_sq;
    }
    attention->lens_q = operands->lens_q.data;
    attention->lens_kv = operands->lens_kv.data;
    attention->ragged = r->lens == ATTENTION_LENS_RAGGED;
    attention->slopes = operands->slopes.data;
    attention->sinks = operands->sinks.data;
    attention->q = operands->q.data;
    attention->k = operands->k.data;
    attention->v = operands->v.data;
    attention->k_tensor = attention_request_given(r, "k") ? r->k : NULL;
    attention->v_tensor = attention_request_given(r, "v") ? r->v : NULL;
    attention->sequence = attention_request_given(r, "sequence") ? r->sequence : NULL;
    attention->layer = r->layer;
    attention->append = r->append;
    attention->position = r->position;
    attention->priority = r->priority;
    attention->kernel = attention_request_given(r, "kernel") ? r->kernel : NULL;
}

/* ---- resident operands ---- */

const char *resident_name(const char *operand)
{
    static const char prefix[] = "tensor:";
    bool is_resident = operand != NULL && strncmp(operand, prefix, sizeof prefix - 1) == 0;
    return is_resident ? operand + sizeof prefix - 1 : NULL;
}

enum gemmd_error resident_look(struct gemmd_client *client, const char *name, struct tensor *tensor,
                               struct gemmd_error_info *error)
{
    struct gemmd_result result;
    gemmd_result_init(&result, sizeof result);
    enum gemmd_error code = gemmd_tensor_stat(client, name, NULL, &result, error);
    if (code == GEMMD_OK && result.dtype == GEMMD_DTYPE_COUNT)
        *tensor = (struct tensor){
            .dtype = result.dtype, .rank = 2, .dims = {result.dims[0], result.dims[1]}};
    else if (code == GEMMD_OK) /* libgemmd has checked the shape */
        (void)tensor_init(tensor, result.dtype, result.dims, result.rank, NULL);
    else if (code == GEMMD_ERR_NOT_FOUND)
        snprintf(error->message, sizeof error->message, "there is no tensor '%s'", name);
    return code;
}

enum gemmd_error resident_take(struct gemmd_client *client, const struct parameter_table *table,
                               void *request, const char *parameter, const char **path,
                               struct tensor *tensor, const struct tensor **resident,
                               struct gemmd_error_info *error)
{
    const char *name = resident_name(*path);
    if (name == NULL)
        return GEMMD_OK;
    enum gemmd_error code = resident_look(client, name, tensor, error);
    if (code != GEMMD_OK)
        return code;
    if (tensor->dtype == GEMMD_DTYPE_COUNT &&
        (table != &gemm_parameter_table || strcmp(parameter, "b") != 0)) {
        *error = (struct gemmd_error_info){.code = GEMMD_ERR_UNSUPPORTED};
        snprintf(error->message, sizeof error->message,
                 "the tensor '%.128s' is packed weights, which can only be B of gemm", name);
        return error->code;
    }
    /* Setting the parameter cannot fail: the daemon knows the name, and the parameter is not set
     * yet. */
    (void)parameter_set(table, request, parameter, name, &(struct fault){0});
    *resident = tensor;
    *path = NULL;
    return GEMMD_OK;
}

/* ---- floating-point operations ---- */

double flops_of_gemm(const struct gemm_request *request)
{
    return 2 * (double)request->m * (double)request->n * (double)request->k *
           (double)request->batch;
}

/* Returns the number of pairs of a query and a key that the masks do not exclude. */
static double count_pairs(const struct attention_request *r)
{
    const int64_t shift = attention_request_given(r, "offset") ? (int64_t)r->offset
                                                               : (int64_t)r->skv - (int64_t)r->sq;
    double pairs = 0;
    for (uint64_t i = 0; i < r->sq; i++) {
        const int64_t position = (int64_t)i + shift;
        int64_t first = 0, end = (int64_t)r->skv;
        if (r->causal && position + 1 < end)
            end = position + 1;
        if (attention_request_given(r, "window_right") &&
            position + 1 + (int64_t)r->window_right < end)
            end = position + 1 + (int64_t)r->window_right;
        if (attention_request_given(r, "window") && position - (int64_t)r->window > 0)
            first = position - (int64_t)r->window;
        pairs += end > first ? (double)(end - first) : 0;
    }
    return pairs;
}

double flops_of_attention(const struct attention_request *request)
{
    return 2 * count_pairs(request) * (double)(request->d + request->dv) *
           (double)attention_request_entries_apart(request) * (double)request->heads;
}

double flops_of_conv(const struct conv2d_request *request)
{
    struct conv_shape s;
    struct fault fault;
    if (conv2d_request_shape(request, &s, &fault) != GEMMD_OK)
        return 0;
    const uint64_t channels = s.channels / s.groups;
    return 2 * (double)channels * (double)s.r * (double)s.s * (double)s.batch * (double)s.filters *
           (double)s.out_height * (double)s.out_width;
}
