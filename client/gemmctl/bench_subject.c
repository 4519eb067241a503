#include "client/gemmctl/bench_subject.h"

#include <stdio.h>
#include <stdlib.h>

#include "client/gemmctl/fill.h"
#include "client/gemmctl/flops.h"
#include "client/gemmctl/parameters.h"
#include "proto/size.h"

enum { DEFAULT_SIDE = 64, DEFAULT_HEADS = 8, DEFAULT_LENGTH = 512 };

static void use_default(uint64_t *size, uint64_t otherwise)
{
    if (*size == 0)
        *size = otherwise;
}

/* Computes the sizes of operands and result, in bytes. False on overflow. */
static bool measure_product(struct bench_subject *subject)
{
    const struct gemm_request *r = &subject->product;
    const uint64_t a[] = {r->batch, r->m, r->k}, b[] = {r->batch, r->k, r->n};
    subject->flops = flops_of_gemm(r);
    return size_tensor_bytes(r->dtype, a, 3, &subject->operands[0].bytes) &&
           size_tensor_bytes(r->dtype, b, 3, &subject->operands[1].bytes) &&
           gemm_request_result_bytes(r, &subject->result_bytes);
}

static bool measure_attention(struct bench_subject *subject)
{
    const struct attention_request *r = &subject->attention;
    struct tensor q, k, v, o, lse;
    if (!attention_request_tensor(r, r->heads, r->sq, r->d, &q) ||
        !attention_request_tensor(r, r->kv_heads, r->skv, r->d, &k) ||
        !attention_request_tensor(r, r->kv_heads, r->skv, r->dv, &v) ||
        !attention_request_result(r, &o, &lse))
        return false;
    subject->operands[0].bytes = q.bytes;
    subject->operands[1].bytes = k.bytes;
    subject->operands[2].bytes = v.bytes;
    subject->result_bytes = o.bytes;
    subject->flops = flops_of_attention(r);
    return true;
}

static enum gemmd_error read_product(struct gemm_request *request,
                                     const struct arguments *arguments, struct fault *fault)
{
    enum gemmd_error code = parameters_read_gemm(request, arguments, fault);
    use_default(&request->m, DEFAULT_SIDE);
    use_default(&request->n, DEFAULT_SIDE);
    use_default(&request->k, DEFAULT_SIDE);
    return code == GEMMD_OK ? gemm_request_check(request, FORMAT_RAW, fault) : code;
}

static enum gemmd_error read_attention(struct attention_request *request,
                                       const struct arguments *arguments, struct fault *fault)
{
    enum gemmd_error code = parameters_read_attention(request, arguments, fault);
    use_default(&request->heads, DEFAULT_HEADS);
    use_default(&request->sq, DEFAULT_LENGTH);
    use_default(&request->d, DEFAULT_SIDE);
    return code == GEMMD_OK ? attention_request_check(request, FORMAT_RAW, fault) : code;
}

enum gemmd_error bench_subject_read(struct bench_subject *subject, bool attends,
                                    const struct arguments *arguments, struct fault *fault)
{
    *subject = (struct bench_subject){.attends = attends};
    enum gemmd_error code = attends ? read_attention(&subject->attention, arguments, fault)
                                    : read_product(&subject->product, arguments, fault);
    if (code != GEMMD_OK)
        return code;
    bool fits = attends ? measure_attention(subject) : measure_product(subject);
    for (int i = 0; i < BENCH_OPERANDS; i++)
        fits =
            fits && size_add(subject->body_bytes, subject->operands[i].bytes, &subject->body_bytes);
    return fits ? GEMMD_OK
                : fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                            "the operands or the result have more than 2^63 bytes");
}

bool bench_subject_fill(struct bench_subject *subject)
{
    const enum gemmd_dtype dtype =
        subject->attends ? subject->attention.dtype : subject->product.dtype;
    for (uint64_t i = 0; i < BENCH_OPERANDS; i++) {
        const uint64_t bytes = subject->operands[i].bytes;
        if (bytes == 0)
            continue;
        subject->operands[i].data = malloc(bytes);
        if (subject->operands[i].data == NULL)
            return false;
        fill_random(subject->operands[i].data, dtype, bytes / gemmd_dtype_size(dtype), i + 1);
    }
    const struct gemm_operands product = {.a = {.data = subject->operands[0].data},
                                          .b = {.data = subject->operands[1].data},
                                          .transa = subject->product.transa,
                                          .transb = subject->product.transb};
    const struct attention_operands attention = {.q = {.data = subject->operands[0].data},
                                                 .k = {.data = subject->operands[1].data},
                                                 .v = {.data = subject->operands[2].data}};
    if (subject->attends)
        parameters_to_attention(&subject->attention, &attention, &subject->attend);
    else
        parameters_to_gemm(&subject->product, &product, &subject->gemm);
    subject->attend.o_bytes = subject->gemm.c_bytes = subject->result_bytes;
    return true;
}

void bench_subject_free(struct bench_subject *subject)
{
    for (int i = 0; i < BENCH_OPERANDS; i++)
        free(subject->operands[i].data);
}

struct gemmd_request *bench_subject_submit(struct bench_subject *subject,
                                           struct gemmd_client *client, void *out, void *user,
                                           struct gemmd_error_info *error)
{
    subject->gemm.c = subject->attend.o = out;
    subject->gemm.user = subject->attend.user = user;
    return subject->attends ? gemmd_attention_submit(client, &subject->attend, error)
                            : gemmd_gemm_submit(client, &subject->gemm, error);
}

static void print_product(const struct gemm_request *r)
{
    printf("product    %llux%llux%llu", (unsigned long long)r->m, (unsigned long long)r->n,
           (unsigned long long)r->k);
    if (r->batch > 1)
        printf(" times %llu", (unsigned long long)r->batch);
    printf(" %s to %s", gemmd_dtype_name(r->dtype), gemmd_dtype_name(r->out));
}

static void print_attention(const struct attention_request *r)
{
    printf("attention  %llu heads on %llu, %llu queries on %llu keys, heads of %llu and %llu",
           (unsigned long long)r->heads, (unsigned long long)r->kv_heads, (unsigned long long)r->sq,
           (unsigned long long)r->skv, (unsigned long long)r->d, (unsigned long long)r->dv);
    if (r->batch > 1)
        printf(" times %llu", (unsigned long long)r->batch);
    printf(" %s%s", r->causal ? "causal " : "", gemmd_dtype_name(r->dtype));
}

void bench_subject_print(const struct bench_subject *subject)
{
    if (subject->attends)
        print_attention(&subject->attention);
    else
        print_product(&subject->product);
}

void bench_subject_describe(const struct bench_subject *subject, json_t *object)
{
    const struct gemm_request *p = &subject->product;
    const struct attention_request *a = &subject->attention;
    json_t *members =
        subject->attends
            ? json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:b}", "op", "attention",
                        "batch", (json_int_t)a->batch, "heads", (json_int_t)a->heads, "kv_heads",
                        (json_int_t)a->kv_heads, "sq", (json_int_t)a->sq, "skv", (json_int_t)a->skv,
                        "d", (json_int_t)a->d, "dv", (json_int_t)a->dv, "dtype",
                        gemmd_dtype_name(a->dtype), "causal", (int)a->causal)
            : json_pack("{s:s, s:I, s:I, s:I, s:I, s:s, s:s}", "op", "gemm", "m", (json_int_t)p->m,
                        "n", (json_int_t)p->n, "k", (json_int_t)p->k, "batch", (json_int_t)p->batch,
                        "dtype", gemmd_dtype_name(p->dtype), "out", gemmd_dtype_name(p->out));
    json_object_update(object, members);
    json_decref(members);
}
