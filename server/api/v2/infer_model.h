/*
 * infer_model.h - the models of the Open Inference Protocol. There is a model of each operation for
 * each type of operands, such as gemm_fp32 (C = A·B) and attention_fp16 (O from Q, K, V). There is
 * also a model, called a layer, for each resident tensor W of a fitting shape: linear.W (Y = X·W)
 * for a matrix or a batch of matrices, conv.W (Y = conv(X, W)) for a tensor of four dimensions.
 *
 * Models have one version, "1". A layer belongs to the tenant of its tensor. Any thread may call
 * these functions; one thread at a time may use a struct model.
 */
#ifndef SERVER_API_V2_INFER_MODEL_H
#define SERVER_API_V2_INFER_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/gemm_request.h"
#include "server/observe/model_stats.h"

struct services;
struct infer_operation;
struct resident;

#define MODEL_VERSION "1"
#define MODEL_LINEAR "linear."
#define MODEL_CONV "conv."

enum {
    MODEL_NAME_MAX = sizeof MODEL_LINEAR - 1 + GEMM_TENSOR_NAME_MAX,
    MODEL_INPUTS_MAX = 8,
    MODEL_OUTPUTS_MAX = 2
};

/* An input or output of a model. A dimension of -1 may have any size. */
struct model_tensor {
    /* Of an input: its index among the operands of the operation (operands.h). Of an output: 0 is
     * the result, 1 the second result (lse of an attention). */
    uint32_t number;
    const char *name;
    enum gemmd_dtype dtype;
    bool optional;
    uint32_t rank; /* of an array of any rank: 1 */
    int64_t dims[4];
    /* Sequence lengths, which say how much of the other inputs is read, or scales: the host checks
     * the values before they are used. */
    bool is_checked;
    /* The type follows from the request's parameters (infer_operation.result_dtype). */
    bool has_result_type;
};

/* Writes the names of inputs or outputs, for example "A, B, BIAS, C0". */
void model_tensor_names(const struct model_tensor *tensors, uint32_t count, char out[64]);

/* The name, inputs and outputs of a layer's model. */
struct model_layer {
    char name[MODEL_NAME_MAX + 1];
    struct model_tensor inputs[5], outputs[1];
};

/* A model. A struct model must not be copied or moved, because the pointers of a layer's model
 * point into its own `layer`. */
struct model {
    const char *name;
    enum gemmd_dtype dtype; /* of the operands */
    const struct infer_operation *operation;
    struct resident *weight;   /* a layer's tensor: a reference; NULL: all operands are inputs */
    struct model_stats *stats; /* borrowed */
    /* Inputs in the order A or X, B, BIAS, C0, A_SCALE, B_SCALE, or Q, K, V, LENS_Q, LENS_KV, MASK,
     * SLOPES, SINKS. The types of BIAS, C0 and C are the defaults; a request's option `out` changes
     * them. */
    const struct model_tensor *inputs, *outputs;
    uint32_t input_count, output_count;
    /* The number of inputs that the metadata and configuration list: all inputs but scales, and
     * only X of a layer, because some clients (perf_analyzer with shared memory) send every listed
     * input, also the optional ones. */
    uint32_t listed_count;
    struct model_layer layer; /* set only if `weight` is not NULL */
};

/* Finds a model by name and acquires its tensor. model_release must be called afterwards, unless
 * the call fails with GEMMD_ERR_NOT_FOUND or GEMMD_ERR_FORBIDDEN. */
enum gemmd_error model_find(struct services *services, const char *name, const char *tenant,
                            struct model *model, struct fault *fault);
/* Releases a model that model_find has found. A zeroed model is allowed. */
void model_release(struct services *services, struct model *model);

/* Calls `visit` with each of the tenant's models until `visit` returns false. Layers come last;
 * each kind is ordered by name. The model is valid only during the call of `visit`. Returns false
 * if `visit` did. */
bool model_each(struct services *services, const char *tenant,
                bool (*visit)(void *context, const struct model *model), void *context);

#endif
