/* gemmctl bench and bench attention: the requests that are repeated. */
#include <stdio.h>

#include "client/gemmctl/bench.h"
#include "client/gemmctl/parameters.h"

enum { DEFAULT_SIDE = 64, DEFAULT_HEADS = 8, DEFAULT_LENGTH = 512 };

static void use_default(uint64_t *size, uint64_t otherwise)
{
    if (*size == 0)
        *size = otherwise;
}

static enum gemmd_error refuse_size(struct fault *fault)
{
    return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                     "the operands or the result have more than 2^63 bytes");
}

/* ---- products ---- */

static enum gemmd_error product_read(struct bench_subject *subject,
                                     const struct arguments *arguments, struct fault *fault)
{
    struct gemm_request *r = &subject->product;
    enum gemmd_error code = parameters_read_gemm(r, arguments, fault);
    use_default(&r->m, DEFAULT_SIDE);
    use_default(&r->n, DEFAULT_SIDE);
    use_default(&r->k, DEFAULT_SIDE);
    if (code == GEMMD_OK)
        code = gemm_request_check(r, FORMAT_RAW, fault);
    if (code != GEMMD_OK)
        return code;
    const uint64_t a[] = {r->batch, r->m, r->k}, b[] = {r->batch, r->k, r->n};
    subject->flops = flops_of_gemm(r);
    return tensor_init(&subject->operands[0], r->dtype, a, 3, NULL) &&
                   tensor_init(&subject->operands[1], r->dtype, b, 3, NULL) &&
                   gemm_request_result_bytes(r, &subject->result_bytes)
               ? GEMMD_OK
               : refuse_size(fault);
}

static void product_prepare(struct bench_subject *subject)
{
    const struct gemm_operands operands = {.a = subject->operands[0],
                                           .b = subject->operands[1],
                                           .transa = subject->product.transa,
                                           .transb = subject->product.transb};
    parameters_to_gemm(&subject->product, &operands, &subject->gemm);
    subject->gemm.c_bytes = subject->result_bytes;
}

static struct gemmd_request *product_submit(struct bench_subject *subject,
                                            struct gemmd_client *client, void *out, void *user,
                                            struct gemmd_error_info *error)
{
    subject->gemm.c = out;
    subject->gemm.user = user;
    return gemmd_gemm_submit(client, &subject->gemm, error);
}

static void product_print(const struct bench_subject *subject, FILE *to)
{
    const struct gemm_request *r = &subject->product;
    fprintf(to, "product    %llux%llux%llu", (unsigned long long)r->m, (unsigned long long)r->n,
            (unsigned long long)r->k);
    if (r->batch > 1)
        fprintf(to, " times %llu", (unsigned long long)r->batch);
    fprintf(to, " %s to %s", gemmd_dtype_name(r->dtype), gemmd_dtype_name(r->out));
}

static json_t *product_describe(const struct bench_subject *subject)
{
    const struct gemm_request *r = &subject->product;
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:s, s:s}", "op", "gemm", "m", (json_int_t)r->m,
                     "n", (json_int_t)r->n, "k", (json_int_t)r->k, "batch", (json_int_t)r->batch,
                     "dtype", gemmd_dtype_name(r->dtype), "out", gemmd_dtype_name(r->out));
}

const struct bench_operation bench_product = {
    .taker = FOR_BENCH,
    .read = product_read,
    .prepare = product_prepare,
    .submit = product_submit,
    .print = product_print,
    .describe = product_describe,
};

/* ---- attentions ---- */

static enum gemmd_error attention_read(struct bench_subject *subject,
                                       const struct arguments *arguments, struct fault *fault)
{
    struct attention_request *r = &subject->attention;
    struct tensor o, lse;
    enum gemmd_error code = parameters_read_attention(r, arguments, fault);
    use_default(&r->heads, DEFAULT_HEADS);
    use_default(&r->sq, DEFAULT_LENGTH);
    use_default(&r->d, DEFAULT_SIDE);
    if (code == GEMMD_OK)
        code = attention_request_check(r, FORMAT_RAW, fault);
    if (code != GEMMD_OK)
        return code;
    if (!attention_request_tensor(r, r->heads, r->sq, r->d, &subject->operands[0]) ||
        !attention_request_tensor(r, r->kv_heads, r->skv, r->d, &subject->operands[1]) ||
        !attention_request_tensor(r, r->kv_heads, r->skv, r->dv, &subject->operands[2]) ||
        !attention_request_result(r, &o, &lse))
        return refuse_size(fault);
    subject->result_bytes = o.bytes;
    subject->flops = flops_of_attention(r);
    return GEMMD_OK;
}

static void attention_prepare(struct bench_subject *subject)
{
    const struct attention_operands operands = {
        .q = subject->operands[0], .k = subject->operands[1], .v = subject->operands[2]};
    parameters_to_attention(&subject->attention, &operands, &subject->attend);
    subject->attend.o_bytes = subject->result_bytes;
}

static struct gemmd_request *attention_submit(struct bench_subject *subject,
                                              struct gemmd_client *client, void *out, void *user,
                                              struct gemmd_error_info *error)
{
    subject->attend.o = out;
    subject->attend.user = user;
    return gemmd_attention_submit(client, &subject->attend, error);
}

static void attention_print(const struct bench_subject *subject, FILE *to)
{
    const struct attention_request *r = &subject->attention;
    fprintf(to, "attention  %llu heads on %llu, %llu queries on %llu keys, heads of %llu and %llu",
            (unsigned long long)r->heads, (unsigned long long)r->kv_heads,
            (unsigned long long)r->sq, (unsigned long long)r->skv, (unsigned long long)r->d,
            (unsigned long long)r->dv);
    if (r->batch > 1)
        fprintf(to, " times %llu", (unsigned long long)r->batch);
    fprintf(to, " %s%s", r->causal ? "causal " : "", gemmd_dtype_name(r->dtype));
}

static json_t *attention_describe(const struct bench_subject *subject)
{
    const struct attention_request *r = &subject->attention;
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:b}", "op", "attention",
                     "batch", (json_int_t)r->batch, "heads", (json_int_t)r->heads, "kv_heads",
                     (json_int_t)r->kv_heads, "sq", (json_int_t)r->sq, "skv", (json_int_t)r->skv,
                     "d", (json_int_t)r->d, "dv", (json_int_t)r->dv, "dtype",
                     gemmd_dtype_name(r->dtype), "causal", (int)r->causal);
}

const struct bench_operation bench_attention = {
    .taker = FOR_BENCH_ATTENTION,
    .read = attention_read,
    .prepare = attention_prepare,
    .submit = attention_submit,
    .print = attention_print,
    .describe = attention_describe,
};
