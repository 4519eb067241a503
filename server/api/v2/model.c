#include "server/api/v2/model.h"

#include <stdio.h>
#include <string.h>

#include "proto/dtype.h"
#include "server/api/services.h"
#include "server/api/v2/infer.h"

enum { PAGE = 64 };

static const struct {
    const char *name;
    enum gemmd_dtype dtype;
    bool attends;
} models[] = {
    {"attention_bf16", GEMMD_BF16, true}, {"attention_fp16", GEMMD_F16, true},
    {"attention_fp32", GEMMD_F32, true},  {"gemm_bf16", GEMMD_BF16, false},
    {"gemm_fp16", GEMMD_F16, false},      {"gemm_fp32", GEMMD_F32, false},
    {"gemm_fp64", GEMMD_F64, false},      {"gemm_fp8", GEMMD_F8_E4M3, false},
    {"gemm_int8", GEMMD_I8, false},
};

bool model_role_is_lengths(enum model_role role)
{
    return role == MODEL_LENS_Q || role == MODEL_LENS_KV;
}

static struct model_tensor tensor(enum model_role role, const char *name, enum gemmd_dtype dtype,
                                  uint32_t rank, bool optional)
{
    return (struct model_tensor){role, name, dtype, optional, rank, {-1, -1, -1, -1}};
}

static void add_input(struct model *model, enum model_role role, const char *name,
                      enum gemmd_dtype dtype, uint32_t rank, bool optional)
{
    model->inputs[model->input_count++] = tensor(role, name, dtype, rank, optional);
}

static void add_output(struct model *model, enum model_role role, const char *name,
                       enum gemmd_dtype dtype, uint32_t rank, bool optional)
{
    model->outputs[model->output_count++] = tensor(role, name, dtype, rank, optional);
}

static void describe_product(enum gemmd_dtype dtype, struct services *services, struct model *model)
{
    const enum gemmd_dtype out = dtype_default_out(dtype);
    model->operation = &infer_gemm;
    model->stats = &services->product_stats[dtype];
    add_input(model, MODEL_A, "A", dtype, 2, false);
    add_input(model, MODEL_B, "B", dtype, 2, false);
    add_input(model, MODEL_BIAS, "BIAS", out, 1, true);
    add_input(model, MODEL_C0, "C0", out, 2, true);
    add_output(model, MODEL_C, "C", out, 2, false);
}

static void describe_attention(enum gemmd_dtype dtype, struct services *services,
                               struct model *model)
{
    model->operation = &infer_attention;
    model->stats = &services->attention_stats[dtype];
    add_input(model, MODEL_Q, "Q", dtype, 4, false);
    add_input(model, MODEL_K, "K", dtype, 4, false);
    add_input(model, MODEL_V, "V", dtype, 4, false);
    add_input(model, MODEL_LENS_Q, "LENS_Q", GEMMD_I32, 1, true);
    add_input(model, MODEL_LENS_KV, "LENS_KV", GEMMD_I32, 1, true);
    add_output(model, MODEL_O, "O", dtype, 4, false);
    add_output(model, MODEL_LSE, "LSE", GEMMD_F32, 3, true);
}

static void describe(size_t index, struct services *services, struct model *model)
{
    *model = (struct model){.dtype = models[index].dtype};
    snprintf(model->name, sizeof model->name, "%s", models[index].name);
    if (models[index].attends)
        describe_attention(model->dtype, services, model);
    else
        describe_product(model->dtype, services, model);
    model->listed_count = model->input_count;
}

/* Whether a resident tensor can be the right operand of a product. */
static bool is_layer(const struct tensor *w)
{
    return (w->rank == 2 || w->rank == 3) &&
           dtype_offers_out(w->dtype, dtype_default_out(w->dtype));
}

static void describe_layer(struct resident *weight, struct model *model)
{
    const struct tensor *w = resident_tensor(weight);
    const enum gemmd_dtype out = dtype_default_out(w->dtype);
    const uint64_t *shape = w->dims + (w->rank - 2);
    *model = (struct model){.dtype = w->dtype,
                            .operation = &infer_gemm,
                            .weight = weight,
                            .stats = resident_stats(weight)};
    snprintf(model->name, sizeof model->name, MODEL_LINEAR "%s", resident_name(weight));
    add_input(model, MODEL_A, "X", w->dtype, w->rank, false);
    model->listed_count = model->input_count;
    add_input(model, MODEL_BIAS, "BIAS", out, 1, true);
    add_input(model, MODEL_C0, "C0", out, w->rank, true);
    add_output(model, MODEL_C, "Y", out, w->rank, false);
    model->inputs[0].dims[w->rank - 1] = (int64_t)shape[0];
    model->inputs[1].dims[0] = (int64_t)shape[1];
    model->outputs[0].dims[w->rank - 1] = model->inputs[2].dims[w->rank - 1] = (int64_t)shape[1];
    if (w->rank == 3)
        model->inputs[0].dims[0] = model->inputs[2].dims[0] = model->outputs[0].dims[0] =
            (int64_t)w->dims[0];
}

enum gemmd_error model_find(struct services *services, const char *name, const char *tenant,
                            struct model *model, struct fault *fault)
{
    const size_t prefix = sizeof MODEL_LINEAR - 1;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        if (strcmp(models[i].name, name) == 0) {
            describe(i, services, model);
            return GEMMD_OK;
        }
    }
    if (strncmp(name, MODEL_LINEAR, prefix) == 0) {
        struct resident *weight;
        struct fault reason = {.code = GEMMD_OK};
        enum gemmd_error code =
            tensor_store_acquire(services->tensors, name + prefix, tenant, &weight, &reason);
        if (code == GEMMD_OK && is_layer(resident_tensor(weight))) {
            describe_layer(weight, model);
            return GEMMD_OK;
        }
        if (code == GEMMD_OK)
            tensor_store_release(services->tensors, weight);
        else if (code != GEMMD_ERR_NOT_FOUND)
            return fault_set(fault, code, NULL, "%s", reason.detail);
    }
    return fault_set(fault, GEMMD_ERR_NOT_FOUND, NULL,
                     "there is no model '%.140s'; POST /v2/repository/index lists those there are",
                     name);
}

void model_release(struct services *services, struct model *model)
{
    tensor_store_release(services->tensors, model->weight);
    model->weight = NULL;
}

/* The last name is copied, since its tensor may be gone by the next page. */
static void each_layer(struct services *services, const char *tenant,
                       bool (*visit)(void *context, const struct model *model), void *context)
{
    char after[GEMM_TENSOR_NAME_MAX + 1] = "";
    bool more = true;
    while (more) {
        struct resident *page[PAGE];
        const uint32_t count =
            tensor_store_page(services->tensors, tenant, after, page, PAGE, &more);
        bool goes_on = count > 0;
        for (uint32_t i = 0; i < count; i++) {
            struct model model;
            snprintf(after, sizeof after, "%s", resident_name(page[i]));
            if (goes_on && is_layer(resident_tensor(page[i]))) {
                describe_layer(page[i], &model);
                goes_on = visit(context, &model);
            }
            tensor_store_release(services->tensors, page[i]);
        }
        if (!goes_on)
            return;
    }
}

void model_each(struct services *services, const char *tenant,
                bool (*visit)(void *context, const struct model *model), void *context)
{
    struct model model;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        describe(i, services, &model);
        if (!visit(context, &model))
            return;
    }
    each_layer(services, tenant, visit, context);
}
