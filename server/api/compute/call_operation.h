/*
 * call_operation.h - what the operations of the protocol (products, attention, convolutions,
 * reductions, softmax) supply to a compute call (compute_call.h), which is the same for all.
 */
#ifndef SERVER_API_COMPUTE_CALL_OPERATION_H
#define SERVER_API_COMPUTE_CALL_OPERATION_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/attention_request.h"
#include "proto/conv2d_request.h"
#include "proto/dtype.h"
#include "proto/gemm_request.h"
#include "proto/operands.h"
#include "proto/parameter.h"
#include "proto/reduce_request.h"
#include "proto/safetensors.h"
#include "proto/softmax_request.h"

struct body_front;
struct call_residents;
struct compute_call;
struct log_access;
struct services;
struct work;

/* The operands of a call: by name, or (`all`) in the order of a raw body. An operand that the
 * request does not have, or that is resident, has rank 0. */
union call_operands {
    struct gemm_operands gemm;
    struct attention_operands attention;
    struct conv2d_operands conv2d;
    struct reduce_operands reduce;
    struct softmax_operands softmax;
    struct tensor all[OPERAND_TABLE_MAX];
};

/* The parameters of a call's operation. */
union call_request {
    struct gemm_request gemm;
    struct attention_request attention;
    struct conv2d_request conv2d;
    struct reduce_request reduce;
    struct softmax_request softmax;
};

/* The functions and tables that differ between operations. Each function that returns an error
 * describes the error in `fault`. */
struct call_operation {
    const char *name;                         /* "gemm": in the log and in jobs */
    const char *result_name;                  /* the result's name in the header Gemmd-Memory */
    const char *json_model;                   /* "gemm_fp32": the model that takes JSON */
    const struct operand_table *operands;     /* the operands and their shapes */
    const struct parameter_table *parameters; /* the request's parameters */
    /* The parameter `store` of a request, or "". NULL: results of the operation cannot be stored.
     */
    const char *(*store)(const union call_request *request);
    bool stores_contiguous; /* the kernels leave no room between the rows of a stored result */
    /* Sets the request's parameters to their defaults. */
    void (*init)(struct compute_call *call);
    /* Acquires the resident operands, checks the request, and sets timeout_ms and priority. Called
     * when all parameters are set. */
    enum gemmd_error (*settle)(struct compute_call *call, struct services *services,
                               const char *tenant, struct fault *fault);
    /* Finds the operands in the front of a self-describing body, and completes the request with
     * their shapes. GEMMD_ERR_CONFLICT: the front is too short. An operand whose bytes have no
     * known location yet has no data. After an error the request may be changed. */
    enum gemmd_error (*read)(struct compute_call *call, struct body_front *front,
                             union call_operands *operands, struct fault *fault);
    /* Sets `c`, `lse` and result_bytes from the shapes. Returns false on overflow. */
    bool (*result)(struct compute_call *call);
    /* Describes the problem in `work`, and chooses its kernel and the layout of its device memory.
     * residents.stored is the memory for a result that is to be stored. */
    enum gemmd_error (*choose)(struct compute_call *call, struct services *services,
                               struct fault *fault);
    /* Writes the header that the answer's format has before the result. Returns its length in
     * bytes. */
    uint32_t (*header)(const struct compute_call *call, char out[SAFETENSORS_HEADER_MAX]);
    /* Points `c`, `lse` and the problem at the memory of the results: at `payload`, or at the
     * client's memory for results that are wanted there. `payload` is NULL if all results are. */
    void (*point_result)(struct compute_call *call, unsigned char *payload);
    /* Points the problem at the operands that have data. */
    void (*point)(struct compute_call *call, const union call_operands *operands);
    /* Points the problem of a work at the resident operands where `residents` has them, and at the
     * memory for a stored result. NULL: no operand can be resident. */
    void (*point_residents)(const struct call_residents *residents, struct work *work);
    /* Adds the request's types and shape to an entry of the log. Returns the type of the operands,
     * or GEMMD_DTYPE_COUNT if the shape is not known. */
    enum gemmd_dtype (*describe)(const union call_request *request, struct log_access *entry);
    /* Checks the values of the operands, when all bytes of the operands have arrived. NULL: there
     * is nothing to check. */
    enum gemmd_error (*check)(struct compute_call *call, const union call_operands *operands,
                              struct fault *fault);
};
extern const struct call_operation gemm_operation;      /* gemm_operation.c */
extern const struct call_operation attention_operation; /* attention_operation.c */
extern const struct call_operation conv2d_operation;    /* conv2d_operation.c */
extern const struct call_operation reduce_operation;    /* reduce_operation.c */
extern const struct call_operation softmax_operation;   /* softmax_operation.c */

/* Checks a product's request with its resident operands and their scales, after these have been
 * acquired: gemm_request_settle_residents and gemm_request_settle_resident_scales. */
enum gemmd_error gemm_settle_residents(const struct call_residents *residents,
                                       struct gemm_request *request, struct fault *fault);

#endif
