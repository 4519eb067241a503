/*
 * oip.h - what an inference request of the Open Inference Protocol, version 2, asks for.
 *
 * The body is a JSON object, then the bytes of the inputs that are not in it, one after another in
 * the order of `inputs` (the binary tensor extension); Inference-Header-Content-Length says where
 * the JSON ends. Reading makes views onto the body. Members that the protocol does not have are
 * ignored, as others do it; what it has is held to what it says. Any thread.
 */
#ifndef PROTO_OIP_H
#define PROTO_OIP_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"
#include "proto/oip_json.h"
#include "proto/tensor.h"

enum {
    OIP_NAME_MAX = 32,      /* bytes of an input's or output's name */
    OIP_DATATYPE_MAX = 8,   /* of a datatype's */
    OIP_ID_MAX = 256,       /* of a request's id */
    OIP_PARAMETER_MAX = 64, /* of a parameter's value, as text */
    OIP_REGION_MAX = 128,   /* of a shared memory region's name */
    OIP_INPUTS_MAX = 8,
    OIP_OUTPUTS_MAX = 8,
    OIP_PARAMETERS_MAX = 16
};

/* A part of a shared memory region. */
struct oip_region {
    char name[OIP_REGION_MAX + 1]; /* "": it is not in any */
    uint64_t offset, bytes;
};

struct oip_input {
    char name[OIP_NAME_MAX + 1], datatype[OIP_DATATYPE_MAX + 1];
    uint64_t dims[TENSOR_MAX_RANK];
    uint32_t rank;
    bool binary;
    const void *data; /* binary: the tensor's bytes, so many as the request said they are; NULL
                         where they are in a region */
    uint64_t bytes;
    struct oip_region region; /* counts as binary */
    struct oip_array array;   /* not binary: its `data` */
};

/* A parameter that is the model's own; numbers, strings and booleans (1 and 0) as text. */
struct oip_parameter {
    char name[OIP_NAME_MAX + 1], value[OIP_PARAMETER_MAX + 1];
};

struct oip_output {
    char name[OIP_NAME_MAX + 1];
    bool binary;
    struct oip_region region; /* where it is to be put; not binary then */
};

/* The entries past the counts have unspecified content. */
struct oip_request {
    char id[OIP_ID_MAX + 1]; /* "": none */
    struct oip_input inputs[OIP_INPUTS_MAX];
    struct oip_output outputs[OIP_OUTPUTS_MAX]; /* none: all that there are */
    struct oip_parameter parameters[OIP_PARAMETERS_MAX];
    uint32_t input_count, output_count, parameter_count;
    bool binary_output;  /* how outputs go that say nothing of it */
    uint64_t priority;   /* 1: the highest; 0: none given */
    uint64_t timeout_us; /* 0: none given */
};

/* Makes a request that asks for nothing. */
void oip_request_init(struct oip_request *request);

/* Reads a complete body whose first `json_bytes` are JSON. GEMMD_ERR_MALFORMED (bytes that are
 * missing or left over among it), GEMMD_ERR_NOT_IMPLEMENTED for what is the protocol's and not
 * served (classification), GEMMD_ERR_OUT_OF_MEMORY. */
enum gemmd_error oip_request_decode(const void *body, uint64_t bytes, uint64_t json_bytes,
                                    struct oip_request *request, struct fault *fault);

#endif
