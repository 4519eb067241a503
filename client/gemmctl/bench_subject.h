/*
 * bench_subject.h - what gemmctl bench asks for, again and again: one product, or one attention, of
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
    bool attends; /* which of the two it is */
    struct gemm_request product;
    struct attention_request attention;
    struct {
        void *data;
        uint64_t bytes;
    } operands[BENCH_OPERANDS];        /* A and B, or Q, K and V */
    uint64_t body_bytes, result_bytes; /* of one request */
    double flops;                      /* multiplications and additions of one */
    struct gemmd_gemm gemm;
    struct gemmd_attention attend;
};

/* Reads the parameters, with defaults for the sizes that are missing. On failure a sentence. */
enum gemmd_error bench_subject_read(struct bench_subject *subject, bool attends,
                                    const struct arguments *arguments, struct fault *fault);
/* Makes the operands. False: no memory. Released with bench_subject_free in any case. */
bool bench_subject_fill(struct bench_subject *subject);
void bench_subject_free(struct bench_subject *subject);

/* Starts one, whose result goes to `out`, of result_bytes. As gemmd_gemm_submit. */
struct gemmd_request *bench_subject_submit(struct bench_subject *subject,
                                           struct gemmd_client *client, void *out, void *user,
                                           struct gemmd_error_info *error);

/* "product    64x64x64 f32 to f32" on standard output, and its sizes as members of an object. */
void bench_subject_print(const struct bench_subject *subject);
void bench_subject_describe(const struct bench_subject *subject, json_t *object);

#endif
