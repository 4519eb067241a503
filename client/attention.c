#include <stdbool.h>

#include "client/client.h"
#include "client/compute.h"
#include "client/failure.h"
#include "client/query.h"
#include "client/record.h"
#include "proto/attention_request.h"

void gemmd_attention_init(struct gemmd_attention *attention, size_t size)
{
    const struct gemmd_attention defaults = {
        .batch = 1,
        .dtype = GEMMD_F16,
        .window = GEMMD_WINDOW_NONE,
        .window_right = GEMMD_WINDOW_NONE,
        .scale = GEMMD_SCALE_DEFAULT,
        .priority = GEMM_PRIORITY_DEFAULT,
    };
    record_write(attention, size, &defaults, sizeof defaults);
}

_Static_assert((int)GEMMD_LAYOUT_BHSD == (int)ATTENTION_BHSD &&
                   (int)GEMMD_LAYOUT_BSHD == (int)ATTENTION_BSHD,
               "layouts are proto's");
_Static_assert((int)GEMMD_MASK_ADD == (int)ATTENTION_MASK_ADD &&
                   (int)GEMMD_MASK_BOOL == (int)ATTENTION_MASK_BOOL,
               "masks are proto's");

static enum attention_lens lens_of(const struct gemmd_attention *attention)
{
    return attention->lens_q == NULL ? ATTENTION_LENS_NONE
           : attention->ragged != 0  ? ATTENTION_LENS_RAGGED
                                     : ATTENTION_LENS_PADDED;
}

static void attention_write_parameters(struct query *query, const struct gemmd_attention *attention)
{
    query_add_u64_unless(query, "batch", attention->batch, 1);
    query_add_u64(query, "heads", attention->heads);
    query_add_u64_unless(query, "kv_heads", attention->kv_heads, 0);
    query_add_u64(query, "sq", attention->sq);
    query_add_u64_unless(query, "skv", attention->skv, 0);
    query_add_u64(query, "d", attention->d);
    query_add_u64_unless(query, "dv", attention->dv, 0);
    query_add_choice_unless(query, "layout", (uint32_t)attention->layout, GEMMD_LAYOUT_BHSD);
    query_add_dtype(query, "dtype", (int32_t)attention->dtype);
    query_add_u64_unless(query, "causal", (uint64_t)attention->causal, 0);
    if (attention->window != GEMMD_WINDOW_NONE)
        query_add_u64(query, "window", (uint64_t)attention->window);
    if (attention->window_right != GEMMD_WINDOW_NONE)
        query_add_u64(query, "window_right", (uint64_t)attention->window_right);
    query_add_f64_unless(query, "scale", attention->scale, GEMMD_SCALE_DEFAULT);
    query_add_f64_unless(query, "softcap", attention->softcap, 0);
    query_add_choice_unless(query, "lens", lens_of(attention), ATTENTION_LENS_NONE);
    query_add_u64_unless(query, "alibi", attention->slopes != NULL, 0);
    query_add_u64_unless(query, "sinks", attention->sinks != NULL, 0);
    query_add_choice_unless(query, "mask", (uint32_t)attention->mask_kind, GEMMD_MASK_NONE);
    query_add_u64_unless(query, "mask_batch", attention->mask_batch, 0);
    query_add_u64_unless(query, "mask_heads", attention->mask_heads, 0);
    query_add_u64_unless(query, "mask_sq", attention->mask_sq, 0);
    if (attention->has_offset != 0)
        query_add_u64(query, "offset", attention->offset);
    query_add_if_named(query, "k", attention->k_tensor);
    query_add_if_named(query, "v", attention->v_tensor);
    query_add_if_named(query, "sequence", attention->sequence);
    query_add_u64_unless(query, "layer", attention->layer, 0);
    if (attention->append != 0) {
        query_add_u64(query, "append", 1);
        query_add_u64(query, "position", attention->position);
    }
    if (attention->with_lse != 0)
        query_add_u64(query, "lse", 1);
    query_add_if_named(query, "kernel", attention->kernel);
    query_add_u64_unless(query, "priority", attention->priority, GEMM_PRIORITY_DEFAULT);
    /* A job's deadline is part of the query. For every other request each attempt sends the time
     * that is left (transfer.c). */
    if (attention->job != 0 && attention->timeout_ms != 0)
        query_add_u64(query, "timeout_ms", attention->timeout_ms);
}

static enum gemmd_error attention_query_write(const struct gemmd_attention *attention, char *out,
                                              size_t room, struct attention_request *asked,
                                              struct fault *fault)
{
    struct query query;
    attention_request_init(asked);
    query_begin(&query, &attention_parameter_table, out, room, asked, fault);
    attention_write_parameters(&query, attention);
    /* Only the daemon knows the sequence, with whose shape it compares the parameters. */
    if (fault->code == GEMMD_OK)
        (void)attention_request_settle_sequence(asked, NULL, fault);
    return fault->code == GEMMD_OK ? attention_request_check(asked, FORMAT_RAW, fault)
                                   : fault->code;
}

static enum gemmd_error attention_check_operands(const struct gemmd_attention *attention,
                                                 struct gemmd_error_info *error)
{
    const bool reads_sequence = attention->sequence != NULL && attention->append == 0;
    enum gemmd_error code = GEMMD_OK;
    if (reads_sequence && (attention->k != NULL || attention->v != NULL))
        return failure_set(error, GEMMD_ERR_USAGE, attention->k != NULL ? "k" : "v",
                           "k and v are those of the sequence; both must be NULL without append");
    if (reads_sequence && attention->mask != NULL && attention->skv == 0)
        return failure_set(error, GEMMD_ERR_USAGE, "skv",
                           "skv is 0; with a mask it must be the number of keys of the sequence");
    if (!reads_sequence)
        code = compute_check_operand("k", attention->k, attention->k_tensor, error);
    if (!reads_sequence && code == GEMMD_OK)
        code = compute_check_operand("v", attention->v, attention->v_tensor, error);
    if (code != GEMMD_OK)
        return code;
    if (attention->q == NULL)
        return failure_set(error, GEMMD_ERR_USAGE, "q", "q is NULL; it must point to an operand");
    if ((attention->lens_q == NULL) != (attention->lens_kv == NULL))
        return failure_set(error, GEMMD_ERR_USAGE, attention->lens_q == NULL ? "lens_q" : "lens_kv",
                           "one of lens_q and lens_kv is NULL; set both or neither");
    if (attention->ragged != 0 && attention->lens_q == NULL)
        return failure_set(
            error, GEMMD_ERR_USAGE, "ragged",
            "ragged is 1 and lens_q is NULL; ragged entries need lens_q and lens_kv");
    if ((attention->mask == NULL) != (attention->mask_kind == GEMMD_MASK_NONE))
        return failure_set(error, GEMMD_ERR_USAGE, "mask",
                           "one of mask and mask_kind is set; set both or neither");
    if (attention->lse != NULL && attention->with_lse == 0)
        return failure_set(error, GEMMD_ERR_USAGE, "lse",
                           "lse is set and with_lse is 0; set both or neither");
    return GEMMD_OK;
}

static enum gemmd_error attention_write_body(struct gemmd_request *request,
                                             const struct gemmd_attention *attention,
                                             const struct attention_request *asked,
                                             struct gemmd_error_info *error)
{
    const void *const operands[OPERAND_TABLE_MAX] = {
        attention->lens_q, attention->lens_kv, attention->slopes, attention->sinks,
        attention->q,      attention->k,       attention->v,      attention->mask};
    return compute_write_body(request, &attention_operand_table, asked, operands, "sq", error);
}

static enum gemmd_error attention_expect_result(struct gemmd_request *request,
                                                const struct gemmd_attention *attention,
                                                const struct attention_request *asked,
                                                struct gemmd_error_info *error)
{
    struct tensor o, lse;
    if (!attention_request_result(asked, &o, &lse))
        return failure_set(error, GEMMD_ERR_USAGE, "sq", "the result has more than 2^63 bytes");
    if (attention->lse != NULL && attention->lse_bytes < lse.bytes)
        return failure_set(error, GEMMD_ERR_USAGE, "lse_bytes",
                           "lse takes %llu bytes and its buffer has %llu",
                           (unsigned long long)lse.bytes, (unsigned long long)attention->lse_bytes);
    if (attention->with_lse != 0) {
        request->expected.lse_bytes = lse.bytes;
        request->sink.lse =
            (struct answer_buffer){.data = (char *)attention->lse, .room = attention->lse_bytes};
    }
    return compute_expect(request, &o, attention->o, attention->o_bytes, "o_bytes", error);
}

static enum gemmd_error attention_write(struct gemmd_request *request, const void *argument,
                                        struct gemmd_error_info *error)
{
    const struct gemmd_attention *attention = argument;
    struct attention_request asked;
    struct fault fault;
    if (attention_query_write(attention, request->target, sizeof request->target, &asked, &fault) !=
        GEMMD_OK)
        return failure_from_fault(error, &fault);
    enum gemmd_error code = attention_check_operands(attention, error);
    if (code == GEMMD_OK)
        code = attention_write_body(request, attention, &asked, error);
    return code == GEMMD_OK ? attention_expect_result(request, attention, &asked, error) : code;
}

struct gemmd_request *gemmd_attention_submit(struct gemmd_client *client,
                                             const struct gemmd_attention *given,
                                             struct gemmd_error_info *error)
{
    struct gemmd_attention attention;
    failure_clear(error);
    gemmd_attention_init(&attention, sizeof attention);
    if (record_read(&attention, sizeof attention, given, GEMMD_ATTENTION_SIZE_0_1, "attention",
                    "attention", error) != GEMMD_OK)
        return NULL;
    const struct compute compute = {
        .call = {.timeout_ms = attention.timeout_ms,
                 .request_id = attention.request_id,
                 .traceparent = attention.traceparent,
                 .data = attention.o,
                 .bytes = attention.o_bytes,
                 .user = attention.user},
        .job = attention.job != 0,
        .tensors = attention.with_lse != 0,
        .result = attention.with_lse == 0 ? "o" : NULL,
        .write = attention_write,
    };
    return compute_submit(client, &compute, &attention, error);
}

enum gemmd_error gemmd_attention(struct gemmd_client *client,
                                 const struct gemmd_attention *attention,
                                 struct gemmd_result *result, struct gemmd_error_info *error)
{
    struct gemmd_error_info local;
    if (error == NULL)
        error = &local;
    struct gemmd_request *request = gemmd_attention_submit(client, attention, error);
    return request_finish(request, result, error);
}
