/*
 * bench_subject.h - the request that gemmctl bench repeats: one product, or one attention, of
 * random operands.
 */
#ifndef GEMMCTL_BENCH_SUBJECT_H
#define GEMMCTL_BENCH_SUBJECT_H

#include <gemmd/gemmd.h>
#include <jansson.h>

#include "client/gemmctl/options.h"
#include "proto/attention_request.h"
#include "proto/gemm_request.h"

enum { BENCH_OPERANDS = 3 };

struct bench_subject {
    bool attends; /* the request is an attention, not a product */
    struct gemm_request product;
    struct attention_request attention;
    struct {
        void *data;
        uint64_t bytes;
    } operands[BENCH_OPERANDS];        /* A and B, or Q, K and V */
    uint64_t body_bytes, result_bytes; /* of one request */
    double flops;                      /* multiplications and additions of one request */
    struct gemmd_gemm gemm;
    struct gemmd_attention attend;
};

/* Reads the parameters from the command line; sizes that are missing get defaults. On failure
 * `fault` has a sentence. */
enum gemmd_error bench_subject_read(struct bench_subject *subject, bool attends,
                                    const struct arguments *arguments, struct fault *fault);
/* Allocates the operands and fills them with random values. False: there is no memory. The caller
 * calls bench_subject_free in any case. */
bool bench_subject_fill(struct bench_subject *subject);
void bench_subject_free(struct bench_subject *subject);

/* Starts one request, whose result goes to `out`, which has result_bytes. Returns a new request, or
 * NULL with `error` filled in. */
struct gemmd_request *bench_subject_submit(struct bench_subject *subject,
                                           struct gemmd_client *client, void *out, void *user,
                                           struct gemmd_error_info *error);

/* Prints the request on standard output, for example "product    64x64x64 f32 to f32". */
void bench_subject_print(const struct bench_subject *subject);
/* Adds the sizes of the request to a JSON object. */
void bench_subject_describe(const struct bench_subject *subject, json_t *object);

#endif
