/*
 * bench.h - gemmctl bench: the request that is repeated, which is one problem of one operation with
 * random operands, and the measurements of a run.
 */
#ifndef GEMMCTL_BENCH_H
#define GEMMCTL_BENCH_H

#include <gemmd/gemmd.h>
#include <jansson.h>
#include <stdint.h>

#include "client/gemmctl/array_command.h"
#include "client/gemmctl/command.h"
#include "client/gemmctl/latency.h"
#include "client/gemmctl/options.h"
#include "proto/attention_request.h"
#include "proto/conv2d_request.h"
#include "proto/experts_request.h"
#include "proto/gemm_request.h"
#include "proto/reduce_request.h"
#include "proto/softmax_request.h"

/* ---- the request ---- */

struct bench_subject {
    const struct bench_operation *operation;
    union { /* the parameters, as the command line gives them, with defaults for the rest */
        struct gemm_request product;
        struct attention_request attention;
        struct conv2d_request conv;
        struct reduce_request reduce;
        struct softmax_request softmax;
        struct experts_request experts;
    };
    struct tensor operands[TENSOR_FILES_MAX]; /* in the order of the request; rank 0: there is no
                                                 such operand */
    uint64_t body_bytes, result_bytes;        /* of one request */
    double flops; /* multiplications and additions of one request; 0 if the operation is measured in
                     bytes only */
    union {       /* what the library is given */
        struct gemmd_gemm gemm;
        struct gemmd_attention attend;
        struct array_call call;
    };
};

/* What differs between the operations. */
struct bench_operation {
    uint64_t taker; /* the command's bit, FOR_... */
    /* Reads the parameters from the command line, sets defaults, and sets types and shapes of the
     * operands, result_bytes and flops. On failure `fault` has a sentence. */
    enum gemmd_error (*read)(struct bench_subject *subject, const struct arguments *arguments,
                             struct fault *fault);
    /* Makes what the library is given, when the operands have data. */
    void (*prepare)(struct bench_subject *subject);
    /* As bench_subject_submit, _print and _describe. */
    struct gemmd_request *(*submit)(struct bench_subject *subject, struct gemmd_client *client,
                                    void *out, void *user, struct gemmd_error_info *error);
    void (*print)(const struct bench_subject *subject, FILE *to);
    json_t *(*describe)(const struct bench_subject *subject); /* a new object; NULL: no memory */
};
extern const struct bench_operation bench_product, bench_attention, bench_conv, bench_reduce,
    bench_softmax, bench_experts;

/* Reads the parameters of the operation that the command names; sizes that are missing get
 * defaults. On failure `fault` has a sentence. */
enum gemmd_error bench_subject_read(struct bench_subject *subject,
                                    const struct arguments *arguments, struct fault *fault);
/* Allocates the operands and fills them with random values. On failure `fault` has a sentence. The
 * caller calls bench_subject_free in any case. */
enum gemmd_error bench_subject_fill(struct bench_subject *subject, struct fault *fault);
void bench_subject_free(struct bench_subject *subject);

/* Starts one request, whose result goes to `out`, which has result_bytes. Returns a new request, or
 * NULL with `error` filled in. */
struct gemmd_request *bench_subject_submit(struct bench_subject *subject,
                                           struct gemmd_client *client, void *out, void *user,
                                           struct gemmd_error_info *error);

/* Prints the request, for example "product    64x64x64 f32 to f32". */
void bench_subject_print(const struct bench_subject *subject, FILE *to);
/* Adds the sizes of the request to a JSON object. */
void bench_subject_describe(const struct bench_subject *subject, json_t *object);

/* ---- the measurements ---- */

struct bench_run {
    struct bench_subject subject; /* the request that was repeated */
    uint32_t connections, in_flight;
    double elapsed_s;
    uint64_t errors[GEMMD_ERR_COUNT];
    uint64_t error_count;
    struct gemmd_error_info first_error;
    uint64_t
        launches_sum; /* sum over all answers of the number of requests that shared the launch */
    char kernel[32];
    struct latency latency; /* latencies of the requests that were answered */
};

#endif
