/*
 * infer.h - a POST /v2/models/{model}/infer on its way: what it has besides the product or
 * attention that it becomes. On the request's I/O thread.
 *
 * The protocol says everything in the body, so that shapes and options are known only once its JSON
 * is there; the limits of size, place and memory hold before, as for a self-describing body of
 * /gemm.
 */
#ifndef SERVER_API_V2_INFER_H
#define SERVER_API_V2_INFER_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/oip.h"
#include "server/api/compute/compute_call.h"
#include "server/api/v2/model.h"
#include "server/http/request.h"

/* What differs between the models that multiply and those that attend. */
struct infer_operation {
    const struct call_operation *operation;
    const char *const *options; /* which of its parameters mean something here; NULL ends them */
    const char *options_text;
    /* All parameters are in: the types, and what resident operands say of the shapes. */
    enum gemmd_error (*settle)(struct request *request);
    /* Where an input belongs. */
    struct tensor *(*place)(union call_operands *operands, enum model_role role);
    /* All inputs are in their places: completes the request with them. */
    enum gemmd_error (*complete)(struct request *request, union call_operands *operands);
};
extern const struct infer_operation infer_gemm;      /* infer_gemm.c */
extern const struct infer_operation infer_attention; /* infer_attention.c */

/* An output that was asked for. */
struct infer_output {
    const struct model_tensor *tensor; /* the model's */
    bool binary;
    bool elsewhere; /* in shared memory; not binary then */
};

struct infer_call {
    struct request *request;     /* the one that this is the state of */
    struct compute_call compute; /* the product or attention that the request becomes */
    struct model model;          /* in use until the request is over */
    bool has_header;             /* Inference-Header-Content-Length: */
    uint64_t json_bytes;
    /* Bytes that are left free before the body in its memory, so that what follows the JSON is
     * aligned: where a kernel reads operands in place, others would be copied first. */
    uint64_t lead_bytes;
    bool is_read;                 /* `asked`, and all that follows from it: */
    enum gemmd_error read_code;   /* whether it could be, */
    union call_operands operands; /* ... with what */
    unsigned char *numbers; /* pinned: inputs that came as JSON, and lengths in shared memory */
    uint64_t numbers_bytes;

    uint32_t output_count;
    /* Pinned: the answer's JSON, if there are numbers in it or nothing but the JSON is sent. Else
     * the JSON goes in front of the result (compute_call's front_bytes). */
    char *text;
    uint64_t text_bytes; /* room */
    bool counted;        /* in the model's statistics */

    /* Not cleared at the start, from here on. */
    struct oip_request asked;
    struct infer_output outputs[MODEL_OUTPUTS_MAX]; /* in the order in which they go */
    struct fault read_fault;                        /* why read_code is an error */
};

static inline struct infer_call *infer_of(const struct request *request)
{
    return request->call;
}

/* The endpoint's functions. */
void infer_begin(struct request *request);
bool infer_chunk(struct request *request, const void *bytes, uint64_t length);
void infer_submit(struct request *request);
bool infer_withdraw(struct request *request);
void infer_answer(struct request *request);
void infer_release(struct request *request);
uint32_t infer_retry_after_s(const struct request *request, enum gemmd_error code);
enum gemmd_dtype infer_describe(const struct request *request, bool work_ended,
                                struct log_access *entry);

/* The JSON is there, perhaps not what follows it: reads it, once, and starts to copy what follows
 * to the device where that can be done early (call_lookahead.h). (infer_bind.c, also below.) */
void infer_look(struct request *request);
/* The body is complete: reads it, unless that has been done, and makes call->compute ready for the
 * queue. */
enum gemmd_error infer_bind(struct request *request);
/* Finds an input's bytes in its shared memory region, which is in use from here on
 * (infer_regions.c). */
enum gemmd_error infer_find_input(struct request *request, const struct oip_input *input,
                                  const struct model_tensor *expected, struct tensor *tensor);
/* Puts an output into its shared memory region. */
enum gemmd_error infer_place_output(struct request *request, const struct oip_output *asked,
                                    const struct model_tensor *tensor, enum gemmd_dtype dtype);
/* The type of an input or output as the request has it. */
enum gemmd_dtype infer_dtype(const struct request *request, const struct model_tensor *tensor);
/* An output's tensor; known after infer_bind. */
const struct tensor *infer_result(const struct request *request, const struct infer_output *output);
/* The work is over: gives back all but its result. */
void infer_end(struct request *request);
/* Counts the request as a failure and answers it with request->fault. */
void infer_fail(struct request *request);

#endif
