/*
 * infer.h - a POST /v2/models/{model}/infer on its way: what it has besides the product that it
 * becomes (request->gemm). On the request's I/O thread.
 *
 * The protocol says everything in the body, so that shapes and options are known only once that is
 * there; the limits of size, place and memory hold before, as for a self-describing body of /gemm.
 */
#ifndef SERVER_V2_INFER_H
#define SERVER_V2_INFER_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/oip.h"
#include "server/http/request.h"
#include "server/v2/model.h"

struct infer_call {
    struct model model; /* in use until the request is over */
    bool has_header;    /* Inference-Header-Content-Length: */
    uint64_t json_bytes;
    struct oip_request asked;
    unsigned char *numbers; /* pinned: inputs that came as JSON */
    uint64_t numbers_bytes;

    bool binary;         /* how the output goes */
    char *text;          /* pinned: an answer that is all JSON */
    uint64_t text_bytes; /* room */
    uint64_t text_length;
    bool counted; /* in the model's statistics */
};

/* The endpoint's functions. */
void infer_begin(struct request *request);
bool infer_chunk(struct request *request, const void *bytes, uint64_t length);
void infer_submit(struct request *request);
bool infer_withdraw(struct request *request);
void infer_answer(struct request *request);
void infer_release(struct request *request);

/* The body is complete: reads it, and makes request->gemm ready for the queue (infer_bind.c). */
enum gemmd_error infer_bind(struct request *request);
/* The product is over: gives back all but its result. */
void infer_end(struct request *request);
/* Counts the request as a failure and answers it with request->fault. */
void infer_fail(struct request *request);

#endif
