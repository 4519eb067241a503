/*
 * model.h - what has a name in the Open Inference Protocol: products (gemm_fp32: C = A·B) and
 * attentions (attention_fp16: O of Q, K, V), one for each type of operands, and each resident
 * matrix W as a layer (linear.W: Y = X·W).
 *
 * Models have one version, "1". Those of resident matrices are their tenant's. Any thread.
 */
#ifndef SERVER_API_V2_MODEL_H
#define SERVER_API_V2_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/gemm_request.h"
#include "server/observe/model_stats.h"

struct services;
struct infer_operation;
struct resident;

#define MODEL_VERSION "1"
#define MODEL_LINEAR "linear."

enum {
    MODEL_NAME_MAX = sizeof MODEL_LINEAR - 1 + GEMM_TENSOR_NAME_MAX,
    MODEL_INPUTS_MAX = 5,
    MODEL_OUTPUTS_MAX = 2
};

/* Which of a product's or an attention's tensors it is. */
enum model_role {
    MODEL_A,
    MODEL_B,
    MODEL_BIAS,
    MODEL_C0,
    MODEL_C,
    MODEL_Q,
    MODEL_K,
    MODEL_V,
    MODEL_LENS_Q,
    MODEL_LENS_KV,
    MODEL_O,
    MODEL_LSE
};

/* Whether it says how much of the others is read. */
bool model_role_is_lengths(enum model_role role);

/* An input or output. Dimensions of -1 can be any. */
struct model_tensor {
    enum model_role role;
    const char *name;
    enum gemmd_dtype dtype;
    bool optional;
    uint32_t rank;
    int64_t dims[4];
};

/* What is a resident matrix's own in its model. */
struct model_layer {
    char name[MODEL_NAME_MAX + 1];
    struct model_tensor inputs[3], outputs[1];
};

/* Stays where model_find or model_each has put it: a layer's points into itself. */
struct model {
    const char *name;
    enum gemmd_dtype dtype; /* of the operands */
    const struct infer_operation *operation;
    struct resident *weight; /* in use; NULL: both operands are inputs */
    struct model_stats *stats;
    /* In the order A or X, B, BIAS, C0, or Q, K, V, LENS_Q, LENS_KV. A product's types are those
     * by default: see `out`. */
    const struct model_tensor *inputs, *outputs;
    uint32_t input_count, output_count;
    /* How many of the inputs its metadata and configuration list: all, but of a layer X alone,
     * since there are clients (perf_analyzer with shared memory) that send whatever is listed or
     * give up. */
    uint32_t listed_count;
    struct model_layer layer; /* unspecified unless there is a weight */
};

/* GEMMD_ERR_NOT_FOUND, GEMMD_ERR_FORBIDDEN: then nothing is in use. */
enum gemmd_error model_find(struct services *services, const char *name, const char *tenant,
                            struct model *model, struct fault *fault);
/* Ends the use of what model_find found; zeroed ones are allowed. */
void model_release(struct services *services, struct model *model);

/* Calls `visit` with each of the tenant's models, by name within each kind, until it returns false.
 * A model is in use only during its call. */
void model_each(struct services *services, const char *tenant,
                bool (*visit)(void *context, const struct model *model), void *context);

#endif
