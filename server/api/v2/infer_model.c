#include "server/api/v2/infer_model.h"

#include <stdio.h>
#include <string.h>

#include "proto/dtype.h"
#include "proto/nearest.h"
#include "proto/parameter.h"
#include "server/api/services.h"
#include "server/api/v2/infer_call.h"

/* Tensors that are acquired at a time to list the layers. */
enum { PAGE = 64 };

/* A model of an operation, which exists without a resident matrix. */
struct fixed_model {
    const char *name;
    enum gemmd_dtype dtype;
    const struct infer_operation *operation;
    struct model_tensor inputs[MODEL_INPUTS_MAX], outputs[MODEL_OUTPUTS_MAX];
    uint32_t input_count, output_count, listed_count;
};

#define ANY                                                                                        \
    {                                                                                              \
        -1, -1, -1, -1                                                                             \
    }
/* The numbers of inputs are the indices in attention_operand_table. */
#define ATTENTION(title, type)                                                                     \
    {                                                                                              \
        .name = "attention_" title, .dtype = type, .operation = &infer_attention,                  \
        .inputs = {{4, "Q", type, false, 4, ANY, false, false},                                    \
                   {5, "K", type, false, 4, ANY, false, false},                                    \
                   {6, "V", type, false, 4, ANY, false, false},                                    \
                   {0, "LENS_Q", GEMMD_I32, true, 1, ANY, true, false},                            \
                   {1, "LENS_KV", GEMMD_I32, true, 1, ANY, true, false},                           \
                   {7, "MASK", type, true, 4, ANY, false, false},                                  \
                   {2, "SLOPES", GEMMD_F32, true, 1, ANY, false, false},                           \
                   {3, "SINKS", GEMMD_F32, true, 1, ANY, false, false}},                           \
        .outputs = {{0, "O", type, false, 4, ANY, false, false},                                   \
                    {1, "LSE", GEMMD_F32, true, 3, ANY, false, false}},                            \
        .input_count = 8, .output_count = 2, .listed_count = 5                                     \
    }
/* `out` is the default type of the result. The numbers of inputs are the indices in
 * conv2d_operand_table. */
#define CONV2D(title, type, out)                                                                   \
    {                                                                                              \
        .name = "conv2d_" title, .dtype = type, .operation = &infer_conv2d,                        \
        .inputs = {{0, "X", type, false, 4, ANY, false, false},                                    \
                   {1, "W", type, false, 4, ANY, false, false},                                    \
                   {2, "BIAS", out, true, 1, ANY, false, true}},                                   \
        .outputs = {{0, "Y", out, false, 4, ANY, false, true}}, .input_count = 3,                  \
        .output_count = 1                                                                          \
    }
/* `out` is the type that dtype_default_out returns. The numbers of inputs are the indices in
 * gemm_operand_table. */
#define PRODUCT(title, type, out)                                                                  \
    {                                                                                              \
        .name = "gemm_" title, .dtype = type, .operation = &infer_gemm,                            \
        .inputs = {{0, "A", type, false, 2, ANY, false, false},                                    \
                   {1, "B", type, false, 2, ANY, false, false},                                    \
                   {2, "BIAS", out, true, 1, ANY, false, true},                                    \
                   {3, "C0", out, true, 2, ANY, false, true},                                      \
                   {4, "A_SCALE", GEMMD_F32, true, 2, ANY, true, false},                           \
                   {5, "B_SCALE", GEMMD_F32, true, 2, ANY, true, false}},                          \
        .outputs = {{0, "C", out, false, 2, ANY, false, true}}, .input_count = 6,                  \
        .output_count = 1, .listed_count = 4                                                       \
    }

/* Arrays of any rank. `out` is the type of a sum. */
#define REDUCE(title, type, out)                                                                   \
    {                                                                                              \
        .name = "reduce_" title, .dtype = type, .operation = &infer_reduce,                        \
        .inputs = {{0, "X", type, false, 1, ANY, false, false}},                                   \
        .outputs = {{0, "Y", out, false, 1, ANY, false, true}}, .input_count = 1,                  \
        .output_count = 1                                                                          \
    }
#define SOFTMAX(title, type)                                                                       \
    {                                                                                              \
        .name = "softmax_" title, .dtype = type, .operation = &infer_softmax,                      \
        .inputs = {{1, "X", type, false, 1, ANY, false, false},                                    \
                   {0, "LENS", GEMMD_I32, true, 1, ANY, true, false}},                             \
        .outputs = {{0, "Y", type, false, 1, ANY, false, true}}, .input_count = 2,                 \
        .output_count = 1                                                                          \
    }

#define EXPERTS(title, type)                                                                       \
    {                                                                                              \
        .name = "experts_" title, .dtype = type, .operation = &infer_experts,                      \
        .inputs = {{0, "A", type, false, 2, ANY, false, false},                                    \
                   {1, "W", type, false, 3, ANY, false, false},                                    \
                   {2, "EXPERTS", GEMMD_I32, false, 2, ANY, true, false},                          \
                   {3, "WEIGHTS", GEMMD_F32, true, 2, ANY, false, false},                          \
                   {4, "BIAS", type, true, 2, ANY, false, true}},                                  \
        .outputs = {{0, "C", type, false, 2, ANY, false, true}}, .input_count = 5,                 \
        .output_count = 1                                                                          \
    }

static const struct fixed_model models[] = {
    ATTENTION("bf16", GEMMD_BF16),
    ATTENTION("fp16", GEMMD_F16),
    ATTENTION("fp32", GEMMD_F32),
    CONV2D("bf16", GEMMD_BF16, GEMMD_BF16),
    CONV2D("fp16", GEMMD_F16, GEMMD_F16),
    CONV2D("fp32", GEMMD_F32, GEMMD_F32),
    CONV2D("int8", GEMMD_I8, GEMMD_I32),
    EXPERTS("bf16", GEMMD_BF16),
    EXPERTS("fp16", GEMMD_F16),
    EXPERTS("fp32", GEMMD_F32),
    EXPERTS("fp64", GEMMD_F64),
    PRODUCT("bf16", GEMMD_BF16, GEMMD_BF16),
    PRODUCT("fp16", GEMMD_F16, GEMMD_F16),
    PRODUCT("fp32", GEMMD_F32, GEMMD_F32),
    PRODUCT("fp64", GEMMD_F64, GEMMD_F64),
    PRODUCT("fp8", GEMMD_F8_E4M3, GEMMD_BF16),
    PRODUCT("int8", GEMMD_I8, GEMMD_I32),
    REDUCE("bf16", GEMMD_BF16, GEMMD_BF16),
    REDUCE("fp16", GEMMD_F16, GEMMD_F16),
    REDUCE("fp32", GEMMD_F32, GEMMD_F32),
    REDUCE("fp64", GEMMD_F64, GEMMD_F64),
    REDUCE("int32", GEMMD_I32, GEMMD_I32),
    REDUCE("int8", GEMMD_I8, GEMMD_I32),
    SOFTMAX("bf16", GEMMD_BF16),
    SOFTMAX("fp16", GEMMD_F16),
    SOFTMAX("fp32", GEMMD_F32),
    SOFTMAX("fp64", GEMMD_F64),
};

void model_tensor_names(const struct model_tensor *tensors, uint32_t count, char out[64])
{
    int length = 0;
    for (uint32_t i = 0; i < count; i++)
        length += snprintf(out + length, (size_t)(64 - length), "%s%s", i > 0 ? ", " : "",
                           tensors[i].name);
}

enum { MODEL_COUNT = sizeof models / sizeof *models };
_Static_assert((int)MODEL_COUNT <= (int)SERVICES_MODELS_MAX, "each model has statistics");

static void describe_fixed_model(const struct fixed_model *fixed, struct services *services,
                                 struct model *model)
{
    model->name = fixed->name;
    model->dtype = fixed->dtype;
    model->operation = fixed->operation;
    model->weight = NULL;
    model->stats = &services->model_stats[fixed - models];
    model->inputs = fixed->inputs;
    model->outputs = fixed->outputs;
    model->input_count = fixed->input_count;
    model->listed_count = fixed->listed_count;
    model->output_count = fixed->output_count;
}

/* The right operand of a layer's products: the resident tensor, or, of packed weights, the matrix,
 * whose type is that of X: f16 if the scales are of f16, else bf16. */
static struct tensor layer_matrix(const struct resident *weight)
{
    const struct packed_file *packed = resident_packed(weight);
    if (packed == NULL)
        return *resident_tensor(weight);
    return (struct tensor){.dtype =
                               packed->layout.scale_dtype == GEMMD_F16 ? GEMMD_F16 : GEMMD_BF16,
                           .rank = 2,
                           .dims = {packed->layout.k, packed->layout.n}};
}

/* Whether a resident tensor can be the right operand of a product. */
static bool is_layer(const struct resident *weight)
{
    const struct tensor w = layer_matrix(weight);
    return (w.rank == 2 || w.rank == 3) && dtype_offers_out(w.dtype, dtype_default_out(w.dtype));
}

/* Whether a resident tensor can be the filters of a convolution. */
static bool is_conv_layer(const struct resident *weight)
{
    const struct tensor *w = resident_tensor(weight);
    return w->rank == 4 && (w->dtype == GEMMD_F32 || w->dtype == GEMMD_F16 ||
                            w->dtype == GEMMD_BF16 || w->dtype == GEMMD_I8);
}

/* The order of the dimensions of W is a parameter of the request, so that only the number of
 * filters is known, and that only for the bias. */
static void describe_conv_layer(struct resident *weight, struct model *model)
{
    const struct tensor *w = resident_tensor(weight);
    const enum gemmd_dtype out = w->dtype == GEMMD_I8 ? GEMMD_I32 : w->dtype;
    struct model_layer *layer = &model->layer;
    *model = (struct model){.name = layer->name,
                            .dtype = w->dtype,
                            .operation = &infer_conv2d,
                            .weight = weight,
                            .stats = resident_stats(weight),
                            .inputs = layer->inputs,
                            .outputs = layer->outputs,
                            .input_count = 2,
                            .output_count = 1,
                            .listed_count = 1};
    stpcpy(stpcpy(layer->name, MODEL_CONV), resident_name(weight));
    layer->inputs[0] = (struct model_tensor){0, "X", w->dtype, false, 4, ANY, false, false};
    layer->inputs[1] = (struct model_tensor){2, "BIAS", out, true, 1, ANY, false, true};
    layer->outputs[0] = (struct model_tensor){0, "Y", out, false, 4, ANY, false, true};
    layer->inputs[1].dims[0] = (int64_t)w->dims[0];
}

static void describe_layer(struct resident *weight, struct model *model)
{
    const struct tensor matrix = layer_matrix(weight), *w = &matrix;
    const enum gemmd_dtype out = dtype_default_out(w->dtype);
    const uint64_t *shape = w->dims + (w->rank - 2);
    struct model_layer *layer = &model->layer;
    *model = (struct model){.name = layer->name,
                            .dtype = w->dtype,
                            .operation = &infer_gemm,
                            .weight = weight,
                            .stats = resident_stats(weight),
                            .inputs = layer->inputs,
                            .outputs = layer->outputs,
                            .input_count = resident_packed(weight) != NULL ? 3 : 5,
                            .output_count = 1,
                            .listed_count = 1};
    stpcpy(stpcpy(layer->name, MODEL_LINEAR), resident_name(weight));
    layer->inputs[0] = (struct model_tensor){0, "X", w->dtype, false, w->rank, ANY, false, false};
    layer->inputs[1] = (struct model_tensor){2, "BIAS", out, true, 1, ANY, false, true};
    layer->inputs[2] = (struct model_tensor){3, "C0", out, true, w->rank, ANY, false, true};
    layer->inputs[3] = (struct model_tensor){4, "A_SCALE", GEMMD_F32, true, 2, ANY, true, false};
    layer->inputs[4] = (struct model_tensor){5, "B_SCALE", GEMMD_F32, true, 2, ANY, true, false};
    layer->outputs[0] = (struct model_tensor){0, "Y", out, false, w->rank, ANY, false, true};
    layer->inputs[0].dims[w->rank - 1] = (int64_t)shape[0];
    layer->inputs[1].dims[0] = (int64_t)shape[1];
    layer->outputs[0].dims[w->rank - 1] = layer->inputs[2].dims[w->rank - 1] = (int64_t)shape[1];
    if (w->rank == 3)
        layer->inputs[0].dims[0] = layer->inputs[2].dims[0] = layer->outputs[0].dims[0] =
            (int64_t)w->dims[0];
}

static enum gemmd_error no_such_model(const char *name, struct fault *fault)
{
    char hint[PARAMETER_HINT_BYTES];
    struct nearest search;
    nearest_start(&search, name, strlen(name));
    for (size_t i = 0; i < MODEL_COUNT; i++)
        nearest_offer(&search, models[i].name);
    return fault_set(fault, GEMMD_ERR_NOT_FOUND, NULL,
                     "there is no model '%.140s'; POST /v2/repository/index lists those there "
                     "are%s",
                     name, parameter_hint(search.best, hint));
}

/* The kinds of layers, by the beginnings of their names. */
struct layer_kind {
    const char *prefix;
    bool (*is_layer)(const struct resident *weight);
    void (*describe)(struct resident *weight, struct model *model);
};
static const struct layer_kind layer_kinds[] = {{MODEL_CONV, is_conv_layer, describe_conv_layer},
                                                {MODEL_LINEAR, is_layer, describe_layer}};
enum { LAYER_KINDS = sizeof layer_kinds / sizeof *layer_kinds };

/* Finds a layer of one kind. GEMMD_ERR_NOT_FOUND: there is none of the name. */
static enum gemmd_error find_layer(const struct layer_kind *kind, struct services *services,
                                   const char *name, const char *tenant, struct model *model,
                                   struct fault *fault)
{
    struct resident *weight;
    struct fault reason = {.code = GEMMD_OK};
    const enum gemmd_error code = tensor_store_acquire(
        services->tensors, name + strlen(kind->prefix), tenant, &weight, &reason);
    if (code != GEMMD_OK)
        return fault_set(fault, code, NULL, "%s", reason.detail);
    if (kind->is_layer(weight)) {
        kind->describe(weight, model);
        return GEMMD_OK;
    }
    tensor_store_release(services->tensors, weight);
    return GEMMD_ERR_NOT_FOUND;
}

enum gemmd_error model_find(struct services *services, const char *name, const char *tenant,
                            struct model *model, struct fault *fault)
{
    for (size_t i = 0; i < MODEL_COUNT; i++) {
        if (strcmp(models[i].name, name) == 0) {
            describe_fixed_model(&models[i], services, model);
            return GEMMD_OK;
        }
    }
    for (size_t i = 0; i < LAYER_KINDS; i++) {
        const struct layer_kind *kind = &layer_kinds[i];
        if (strncmp(name, kind->prefix, strlen(kind->prefix)) != 0)
            continue;
        const enum gemmd_error code = find_layer(kind, services, name, tenant, model, fault);
        if (code != GEMMD_ERR_NOT_FOUND)
            return code;
    }
    return no_such_model(name, fault);
}

void model_release(struct services *services, struct model *model)
{
    tensor_store_release(services->tensors, model->weight);
    model->weight = NULL;
}

/* Calls `visit` with the model of each resident tensor that is a layer of the kind, until `visit`
 * returns false, and returns whether it never did. The last name of a page is copied, because its
 * tensor may be deleted before the next page is read. */
static bool each_layer(const struct layer_kind *kind, struct services *services, const char *tenant,
                       bool (*visit)(void *context, const struct model *model), void *context)
{
    char after[GEMM_TENSOR_NAME_MAX + 1] = "";
    bool more = true;
    while (more) {
        struct resident *page[PAGE];
        const uint32_t count =
            tensor_store_page(services->tensors, tenant, after, page, PAGE, &more);
        bool goes_on = true;
        for (uint32_t i = 0; i < count; i++) {
            struct model model;
            snprintf(after, sizeof after, "%s", resident_name(page[i]));
            if (goes_on && kind->is_layer(page[i])) {
                kind->describe(page[i], &model);
                goes_on = visit(context, &model);
            }
            tensor_store_release(services->tensors, page[i]);
        }
        if (!goes_on)
            return false;
        more = more && count > 0;
    }
    return true;
}

bool model_each(struct services *services, const char *tenant,
                bool (*visit)(void *context, const struct model *model), void *context)
{
    struct model model;
    for (size_t i = 0; i < MODEL_COUNT; i++) {
        describe_fixed_model(&models[i], services, &model);
        if (!visit(context, &model))
            return false;
    }
    for (size_t i = 0; i < LAYER_KINDS; i++)
        if (!each_layer(&layer_kinds[i], services, tenant, visit, context))
            return false;
    return true;
}
