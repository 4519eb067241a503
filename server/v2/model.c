#include "server/v2/model.h"

#include <stdio.h>
#include <string.h>

#include "proto/dtype.h"
#include "server/daemon.h"

enum { PAGE = 64 };

static const struct {
    const char *name;
    enum gemmd_dtype dtype;
} products[] = {
    {"gemm_bf16", GEMMD_BF16}, {"gemm_fp16", GEMMD_F16},    {"gemm_fp32", GEMMD_F32},
    {"gemm_fp64", GEMMD_F64},  {"gemm_fp8", GEMMD_F8_E4M3}, {"gemm_int8", GEMMD_I8},
};

static void add_input(struct model *model, enum model_role role, const char *name,
                      enum gemmd_dtype dtype, uint32_t rank, bool optional)
{
    model->inputs[model->input_count++] = (struct model_tensor){.role = role,
                                                                .name = name,
                                                                .dtype = dtype,
                                                                .optional = optional,
                                                                .rank = rank,
                                                                .dims = {-1, -1, -1}};
}

static void describe_product(size_t index, struct daemon *daemon, struct model *model)
{
    const enum gemmd_dtype dtype = products[index].dtype, out = dtype_default_out(dtype);
    *model = (struct model){.dtype = dtype, .stats = &daemon->model_stats[dtype]};
    snprintf(model->name, sizeof model->name, "%s", products[index].name);
    add_input(model, MODEL_A, "A", dtype, 2, false);
    add_input(model, MODEL_B, "B", dtype, 2, false);
    add_input(model, MODEL_BIAS, "BIAS", out, 1, true);
    add_input(model, MODEL_C0, "C0", out, 2, true);
    model->output = (struct model_tensor){MODEL_C, "C", out, false, 2, {-1, -1, -1}};
}

/* Whether a resident tensor can be the right operand of a product. */
static bool is_layer(const struct tensor *tensor)
{
    return (tensor->rank == 2 || tensor->rank == 3) &&
           dtype_offers_out(tensor->dtype, dtype_default_out(tensor->dtype));
}

static void describe_layer(struct resident *weight, struct model *model)
{
    const struct tensor *w = resident_tensor(weight);
    const enum gemmd_dtype out = dtype_default_out(w->dtype);
    const uint64_t *shape = w->dims + (w->rank - 2);
    *model = (struct model){.dtype = w->dtype, .weight = weight, .stats = resident_stats(weight)};
    snprintf(model->name, sizeof model->name, MODEL_LINEAR "%s", resident_name(weight));
    add_input(model, MODEL_A, "X", w->dtype, w->rank, false);
    add_input(model, MODEL_BIAS, "BIAS", out, 1, true);
    add_input(model, MODEL_C0, "C0", out, w->rank, true);
    model->output = (struct model_tensor){MODEL_C, "Y", out, false, w->rank, {-1, -1, -1}};
    model->inputs[0].dims[w->rank - 1] = (int64_t)shape[0];
    model->inputs[1].dims[0] = (int64_t)shape[1];
    model->output.dims[w->rank - 1] = model->inputs[2].dims[w->rank - 1] = (int64_t)shape[1];
    if (w->rank == 3)
        model->inputs[0].dims[0] = model->inputs[2].dims[0] = model->output.dims[0] =
            (int64_t)w->dims[0];
}

enum gemmd_error model_find(struct daemon *daemon, const char *name, const char *tenant,
                            struct model *model, struct fault *fault)
{
    const size_t prefix = sizeof MODEL_LINEAR - 1;
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        if (strcmp(products[i].name, name) == 0) {
            describe_product(i, daemon, model);
            return GEMMD_OK;
        }
    }
    if (strncmp(name, MODEL_LINEAR, prefix) == 0) {
        struct resident *weight;
        struct fault reason = {.code = GEMMD_OK};
        enum gemmd_error code =
            tensor_store_acquire(daemon->tensors, name + prefix, tenant, &weight, &reason);
        if (code == GEMMD_OK && is_layer(resident_tensor(weight))) {
            describe_layer(weight, model);
            return GEMMD_OK;
        }
        if (code == GEMMD_OK)
            tensor_store_release(daemon->tensors, weight);
        else if (code != GEMMD_ERR_NOT_FOUND)
            return fault_set(fault, code, NULL, "%s", reason.detail);
    }
    return fault_set(fault, GEMMD_ERR_NOT_FOUND, NULL,
                     "there is no model '%.140s'; POST /v2/repository/index lists those there are",
                     name);
}

void model_release(struct daemon *daemon, struct model *model)
{
    tensor_store_release(daemon->tensors, model->weight);
    model->weight = NULL;
}

/* The last name is copied, since its tensor may be gone by the next page. */
static void each_layer(struct daemon *daemon, const char *tenant,
                       bool (*visit)(void *context, const struct model *model), void *context)
{
    char after[GEMM_TENSOR_NAME_MAX + 1] = "";
    bool more = true;
    while (more) {
        struct resident *page[PAGE];
        const uint32_t count = tensor_store_page(daemon->tensors, tenant, after, page, PAGE, &more);
        bool goes_on = count > 0;
        for (uint32_t i = 0; i < count; i++) {
            struct model model;
            snprintf(after, sizeof after, "%s", resident_name(page[i]));
            if (goes_on && is_layer(resident_tensor(page[i]))) {
                describe_layer(page[i], &model);
                goes_on = visit(context, &model);
            }
            tensor_store_release(daemon->tensors, page[i]);
        }
        if (!goes_on)
            return;
    }
}

void model_each(struct daemon *daemon, const char *tenant,
                bool (*visit)(void *context, const struct model *model), void *context)
{
    struct model model;
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        describe_product(i, daemon, &model);
        if (!visit(context, &model))
            return;
    }
    each_layer(daemon, tenant, visit, context);
}
