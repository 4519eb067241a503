/*
 * call_operation.h - what the operations of the protocol (products, attention, convolutions,
 * reductions, softmax, experts) supply to a compute call (compute_call.h), which is the same for
 * all.
 */
#ifndef SERVER_API_COMPUTE_CALL_OPERATION_H
#define SERVER_API_COMPUTE_CALL_OPERATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/operations.h"
#include "proto/attention_request.h"
#include "proto/conv2d_request.h"
#include "proto/experts_request.h"
#include "proto/gemm_request.h"
#include "proto/operands.h"
#include "proto/parameter.h"
#include "proto/reduce_request.h"
#include "proto/softmax_request.h"

struct body_front;
struct call_residents;
struct sequence_want;
struct log_access;

/* The operands of a call: by name, or (`all`) in the order of a raw body. An operand that the
 * request does not have, or that is resident, has rank 0. */
union call_operands {
    struct gemm_operands gemm;
    struct attention_operands attention;
    struct conv2d_operands conv2d;
    struct reduce_operands reduce;
    struct softmax_operands softmax;
    struct experts_operands experts;
    struct tensor all[OPERAND_TABLE_MAX];
};

/* The parameters of a call's operation. */
union call_request {
    struct gemm_request gemm;
    struct attention_request attention;
    struct conv2d_request conv2d;
    struct reduce_request reduce;
    struct softmax_request softmax;
    struct experts_request experts;
};

/* The functions and tables that differ between operations. Each function that returns an error
 * describes the error in `fault`. */
struct call_operation {
    const char *result_name; /* the result's name in safetensors and in the header Gemmd-Memory */
    const char *json_model;  /* "gemm_fp32": the model that takes JSON */
    /* What the device computes. Operand i of `operands` is part i of a problem. */
    const struct operation *operation;
    const struct operand_table *operands;     /* the operands and their shapes */
    const struct parameter_table *parameters; /* the request's parameters */
    /* Offsets, in the request's struct, of the fields that the requests of all operations have. */
    size_t kernel_at, timeout_at, priority_at;
    size_t store_at;        /* of the name of a stored result; 0: results cannot be stored */
    bool stores_contiguous; /* the kernels leave no room between the rows of a stored result */
    /* The parameters that name resident operands, which become `a` and `b` of the call's residents.
     * NULL: there is no such parameter. */
    struct {
        const char *name;
        size_t at;   /* offset of the name that is given, in the request's struct */
        bool packed; /* the operand may be packed weights */
    } residents[2];

    /* The sequence that has K and V. `at`: offset of its name in the request's struct; 0: requests
     * name no sequence. `want` says what the request does with the sequence. `k` and `v` are the
     * numbers of the operands that are appended, whose heads precede the positions if `heads_first`
     * returns true. */
    struct {
        size_t at;
        uint32_t k, v;
        void (*want)(const union call_request *request, struct sequence_want *want);
        bool (*heads_first)(const union call_request *request);
    } sequence;

    /* Sets the parameters to their defaults. */
    void (*init)(union call_request *request);
    /* Checks a request whose parameters are all set, with its resident operands and a body of the
     * given format, and completes it with the sizes of these operands. */
    enum gemmd_error (*settle)(union call_request *request, const struct call_residents *residents,
                               enum format format, struct fault *fault);
    /* Finds the operands in the front of a self-describing body, and completes the request with
     * their shapes. GEMMD_ERR_CONFLICT: the front is too short. An operand whose bytes have no
     * known location yet has no data. After an error the request is undefined. */
    enum gemmd_error (*read)(union call_request *request, enum format format,
                             struct body_front *front, union call_operands *operands,
                             struct fault *fault);
    /* Checks the values of the operands, when all bytes of the operands have arrived. NULL: there
     * is nothing to check. */
    enum gemmd_error (*check)(const union call_request *request,
                              const union call_operands *operands, struct fault *fault);
    /* The types and shapes of the results from those of the operands: `c`, and for an attention
     * that is asked for it `lse`, which otherwise gets rank 0. False: a size overflows. */
    bool (*results)(const union call_request *request, struct tensor *c, struct tensor *lse);
    /* Describes the problem of a request whose shapes are known. The pointers to operands and
     * results only say which of them will be present; point_residents is called next. `has_lse`: a
     * second result is computed. */
    enum gemmd_error (*problem)(const union call_request *request,
                                const struct call_residents *residents, bool has_lse,
                                union operation_problem *problem, struct fault *fault);
    /* Points a problem at the resident operands, where `residents` has them, and at the memory for
     * a stored result, and sets their leading dimensions and strides. Called once more for each
     * device of a call that is divided, with the copies of the operands on that device. */
    void (*point_residents)(const struct call_residents *residents,
                            union operation_problem *problem);
    /* How many rows each resident operand is multiplied with, for the tenant's fair share. NULL: so
     * many that all bytes of the operands count. */
    void (*resident_rows)(const union operation_problem *problem, uint64_t rows[2]);
    /* Whether the request asks for the check of its result. NULL: results are not checked. */
    bool (*asks_check)(const union call_request *request);
    /* Adds the request's types and shape to an entry of the log. Returns the type of the operands,
     * or GEMMD_DTYPE_COUNT if the shape is not known. */
    enum gemmd_dtype (*describe)(const union call_request *request, struct log_access *entry);
};
extern const struct call_operation call_gemm;      /* gemm_call.c */
extern const struct call_operation call_attention; /* attention_call.c */
extern const struct call_operation call_conv2d;    /* conv2d_call.c */
extern const struct call_operation call_reduce;    /* array_calls.c */
extern const struct call_operation call_softmax;   /* array_calls.c */
extern const struct call_operation call_experts;   /* experts_call.c */

/* A field of the request at one of the offsets of struct call_operation. */
static inline const void *call_request_field(const union call_request *request, size_t at)
{
    return (const char *)request + at;
}

#endif
