/*
 * oip.h - decodes an inference request of the Open Inference Protocol, version 2.
 *
 * The body of a request is a JSON object, followed by the bytes of the binary inputs in the order
 * of `inputs` (the protocol's binary tensor extension). The header Inference-Header-Content-Length
 * gives the length of the JSON. Members of the JSON that the protocol does not define are ignored,
 * as other servers ignore them. Members that the protocol defines are checked against the protocol.
 *
 * A decoded request borrows the body: `data` and `array` of an input point into the body. The
 * caller owns the struct oip_request. Any thread, in the C locale.
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
    OIP_DATATYPE_MAX = 8,   /* bytes of a datatype's name */
    OIP_ID_MAX = 256,       /* bytes of a request's id */
    OIP_PARAMETER_MAX = 64, /* bytes of a parameter's value, as text */
    OIP_REGION_MAX = 128,   /* bytes of a region's name */
    OIP_INPUTS_MAX = 8,
    OIP_OUTPUTS_MAX = 8,
    OIP_PARAMETERS_MAX = 16
};

/* A part of a region, which is a mapping of shared memory with a name. */
struct oip_region {
    char name[OIP_REGION_MAX + 1]; /* "": the tensor is in no region */
    uint64_t offset, bytes;        /* the part's start and size, in bytes */
};

/* An input. The tensor's data is in one of three places: in a region (`region.name` is not empty
 * and `binary` is true), in the body behind the JSON (`binary` is true), or in the JSON (`binary`
 * is false). */
struct oip_input {
    char name[OIP_NAME_MAX + 1], datatype[OIP_DATATYPE_MAX + 1];
    uint64_t dims[TENSOR_MAX_RANK];
    uint32_t rank;
    bool binary;
    const void *data; /* borrowed; the tensor's bytes in the body, or NULL */
    uint64_t bytes;   /* size that the request gives for binary data; not compared with the shape */
    struct oip_region region;
    struct oip_array array; /* borrowed; the member `data` of the JSON, or NULL and 0 bytes */
};

/* A parameter that the protocol leaves to the model. The value is a number or a string as text, or
 * "1" or "0" for a boolean. */
struct oip_parameter {
    char name[OIP_NAME_MAX + 1], value[OIP_PARAMETER_MAX + 1];
};

/* An output that the request names. */
struct oip_output {
    char name[OIP_NAME_MAX + 1];
    bool binary; /* true: sent as bytes behind the response's JSON; false if there is a region */
    struct oip_region region; /* the region that the output is written to */
};

/* A decoded request. Entries of `inputs`, `outputs` and `parameters` past their counts have
 * unspecified content. */
struct oip_request {
    char id[OIP_ID_MAX + 1]; /* "": the request has no id */
    struct oip_input inputs[OIP_INPUTS_MAX];
    struct oip_output outputs[OIP_OUTPUTS_MAX]; /* no entries: all outputs of the model */
    struct oip_parameter parameters[OIP_PARAMETERS_MAX];
    uint32_t input_count, output_count, parameter_count;
    bool binary_output;  /* default for outputs without the parameter binary_data */
    uint64_t priority;   /* 1: highest priority; 0: the request has no priority */
    uint64_t timeout_us; /* 0: the request has no timeout */
};

/* Initializes a request without an id, inputs, outputs or parameters. */
void oip_request_init(struct oip_request *request);

/* Decodes a complete body of `bytes` bytes, of which the first `json_bytes` bytes are JSON, into
 * `request`. The function initializes the request first. Returns GEMMD_ERR_MALFORMED if the JSON is
 * invalid, if a member breaks the protocol, or if the body is shorter or longer than its inputs
 * take; GEMMD_ERR_NOT_IMPLEMENTED if the request asks for classification, a part of the protocol
 * that gemmd does not implement; GEMMD_ERR_OUT_OF_MEMORY if no memory is left to describe invalid
 * JSON. After an error, the content of `request` is not to be used. */
enum gemmd_error oip_request_decode(const void *body, uint64_t bytes, uint64_t json_bytes,
                                    struct oip_request *request, struct fault *fault);

#endif
