/*
 * infer_call.h - the state of a request for POST /v2/models/{model}/infer, which request->call
 * points to.
 *
 * The body of such a request begins with JSON that has the shapes and options, so that the shapes
 * and options are known only when the JSON has arrived. The limits on size, admission and memory
 * apply at the headers and while the body arrives, as for a self-describing body of /gemm.
 *
 * All functions run on the request's I/O thread. Errors are in request->fault.
 */
#ifndef SERVER_API_V2_INFER_CALL_H
#define SERVER_API_V2_INFER_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/oip.h"
#include "server/api/compute/compute_call.h"
#include "server/api/v2/infer_model.h"
#include "server/http/request.h"

/* The functions and tables that differ between models of operations. */
struct infer_operation {
    const struct call_operation *operation;
    /* The operation's parameters that are allowed. NULL ends the list. */
    const char *const *options;
    /* Sets the type of the operands, before the parameters are set. */
    void (*set_dtype)(union call_request *request, enum gemmd_dtype dtype);
    /* Prepares the request for a model of a layer, which has the second operand as its weight.
     * NULL: there is nothing to prepare. */
    void (*begin_layer)(union call_request *request);
    /* The type of inputs and outputs with has_result_type, when all parameters are set. NULL: the
     * models have none. */
    enum gemmd_dtype (*result_dtype)(const union call_request *request);
    /* The parameter that says whether the second result is wanted. NULL: there is no second result.
     */
    bool *(*second_result)(union call_request *request);
    /* Completes the request with the shapes of its operands, when all operands are set. */
    enum gemmd_error (*complete)(union call_request *request, union call_operands *operands,
                                 struct fault *fault);
};
/* infer_operations.c */
extern const struct infer_operation infer_gemm, infer_attention, infer_conv2d, infer_reduce,
    infer_softmax, infer_experts;

/* A requested output. */
struct infer_output {
    const struct model_tensor *tensor; /* of the model; borrowed */
    bool binary;                       /* sent as binary data, not as JSON */
    bool in_region;                    /* written to a shared-memory region; `binary` is false */
};

struct infer_call {
    struct request *request;     /* borrowed; owns this state */
    struct compute_call compute; /* the computation that the request asks for */
    struct model model;          /* released at the end of the request */
    bool has_header;             /* the request has the header Inference-Header-Content-Length */
    uint64_t json_bytes;
    /* Bytes that are left free before the body in its memory, so that the data after the JSON is
     * aligned. A kernel that reads operands in place needs copies of operands that are not. */
    uint64_t lead_bytes;
    bool is_read;                 /* infer_look has read the request; the next two are known */
    enum gemmd_error read_code;   /* the result of reading the request */
    union call_operands operands; /* the operands, if read_code is GEMMD_OK */
    /* Pinned; owned: inputs that were sent as JSON, and copies of lengths in shared memory. */
    unsigned char *numbers;
    uint64_t numbers_bytes;

    uint32_t output_count;
    /* Pinned; owned: the answer's JSON, if an output is sent as JSON or no output is sent as binary
     * data. Else the JSON lies in front of the result (front_bytes of struct compute_call). */
    char *text;
    uint64_t text_bytes; /* room in `text` */
    bool counted;        /* the request was counted in the model's statistics */

    /* The fields from here on are not zeroed at first. */
    struct oip_request asked;                       /* the request, as its JSON says */
    struct infer_output outputs[MODEL_OUTPUTS_MAX]; /* in the order of the answer */
    struct fault read_fault;                        /* describes a read_code that is an error */
};

/* The state of a request. */

static inline struct infer_call *infer_of(const struct request *request)
{
    return request->call;
}

/* The endpoint's functions (infer.c; infer_answer in infer_answer.c). */
void infer_begin(struct request *request);
bool infer_chunk(struct request *request, const void *bytes, uint64_t length);
bool infer_takes_long(const struct request *request);
void infer_submit(struct request *request);
bool infer_withdraw(struct request *request);
void infer_answer(struct request *request);
void infer_release(struct request *request);
uint32_t infer_retry_after_s(const struct request *request, enum gemmd_error code);
enum gemmd_dtype infer_describe(const struct request *request, bool work_ended,
                                struct log_access *entry);

/* Reads the request's JSON before the rest of the body has arrived, and starts an early copy of the
 * operands (compute_call.h). To be called once. */
void infer_look(struct request *request);
/* Reads the complete body, unless infer_look has read the JSON, and prepares call->compute for the
 * queue. */
enum gemmd_error infer_bind(struct request *request);
/* Sets `tensor->data` of an input that lies in a shared-memory region. The call holds the mapping
 * of the region until the call's work is done (infer_regions.c). */
enum gemmd_error infer_find_input(struct request *request, const struct oip_input *input,
                                  const struct model_tensor *expected, struct tensor *tensor);
/* Makes the call write an output to its shared-memory region (infer_regions.c). */
enum gemmd_error infer_place_output(struct request *request, const struct oip_output *asked,
                                    const struct model_tensor *tensor, enum gemmd_dtype dtype);
/* Reads which outputs the request's JSON asks for, and where each goes (infer_outputs.c). */
enum gemmd_error infer_take_outputs(struct request *request);
/* Leaves room for the answer's JSON before the result, if no output is sent as JSON numbers. */
void infer_take_front(struct request *request);
/* Takes memory for the answer's JSON, unless the JSON lies before the result. An answer in JSON is
 * longer than the result, whose own size was checked before. */
enum gemmd_error infer_take_text(struct request *request);
/* The type that an input or output has in this request. */
enum gemmd_dtype infer_dtype(const struct request *request, const struct model_tensor *tensor);
/* The tensor of an output; known after infer_bind. Borrowed. */
const struct tensor *infer_result(const struct request *request, const struct infer_output *output);
/* Frees everything except the results, after the work is done. May be called again. */
void infer_end(struct request *request);
/* Counts the request as a failure, and answers it with request->fault. */
void infer_fail(struct request *request);

#endif
