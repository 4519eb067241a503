/* call_attention: what attentions supply to a compute call (call_operation.h). */
#include <math.h>
#include <string.h>

#include "proto/dtype.h"
#include "server/api/compute/call_operation.h"
#include "server/api/compute/call_residents.h"
#include "server/observe/log.h"

static void attention_init(union call_request *request)
{
    attention_request_init(&request->attention);
}

static enum gemmd_error attention_settle(union call_request *of,
                                         const struct call_residents *residents, enum format format,
                                         struct fault *fault)
{
    struct attention_request *request = &of->attention;
    struct attention_sequence sequence;
    enum gemmd_error code = attention_request_settle_residents(
        request, call_residents_tensor(residents->a), call_residents_tensor(residents->b), fault);
    if (residents->sequence != NULL) {
        const struct sequence_shape *shape = sequence_shape_of(residents->sequence);
        sequence = (struct attention_sequence){.dtype = shape->dtype,
                                               .kv_heads = shape->kv_heads,
                                               .d = shape->d,
                                               .dv = shape->dv,
                                               .layers = shape->layers,
                                               .lengths = residents->lengths};
    }
    if (code == GEMMD_OK)
        code = attention_request_settle_sequence(
            request, residents->sequence != NULL ? &sequence : NULL, fault);
    return code == GEMMD_OK ? attention_request_check(request, format, fault) : code;
}

static enum gemmd_error attention_read(union call_request *request, enum format format,
                                       struct body_front *front, union call_operands *operands,
                                       struct fault *fault)
{
    return attention_request_bind_front(&request->attention, format, front, &operands->attention,
                                        fault);
}

static enum gemmd_error attention_check(const union call_request *request,
                                        const union call_operands *operands, struct fault *fault)
{
    return attention_request_check_lens(&request->attention, &operands->attention, fault);
}

static bool attention_results(const union call_request *request, struct tensor *c,
                              struct tensor *lse)
{
    const bool known = attention_request_result(&request->attention, c, lse);
    if (!request->attention.lse)
        lse->rank = 0;
    return known;
}

static struct attention_strides mask_strides(const struct attention_request *r)
{
    const uint64_t row = r->mask_sq * r->skv;
    return (struct attention_strides){
        .batch = r->mask_batch == 1 ? 0 : r->mask_heads * row,
        .head = r->mask_heads == 1 ? 0 : row,
        .row = r->mask_sq == 1 ? 0 : r->skv,
    };
}

static enum gemmd_error attention_problem_of(const union call_request *request,
                                             const struct call_residents *residents, bool has_lse,
                                             union operation_problem *problem, struct fault *fault)
{
    static const int32_t lengths;
    static const char mask;
    static const float of_heads;
    static float lse;
    const struct attention_request *r = &request->attention;
    const bool scaled = attention_request_given(r, "scale");
    const bool has_lens = r->lens != ATTENTION_LENS_NONE;
    /* The kernels that take no offset compute an attention whose offset is the usual one, and those
     * that take no window to the right one that is a causal mask, or that a causal mask makes void.
     */
    const bool has_offset =
        attention_request_given(r, "offset") && (has_lens || r->offset + r->sq != r->skv);
    const bool has_right = attention_request_given(r, "window_right");
    const bool causal = r->causal || (has_right && r->window_right == 0);
    (void)residents;
    (void)fault;
    problem->attention = (struct attention_problem){
        .dtype = r->dtype,
        .batch = r->batch,
        .heads = r->heads,
        .kv_heads = r->kv_heads,
        .sq = r->sq,
        .skv = r->skv,
        .d = r->d,
        .dv = r->dv,
        .causal = causal,
        .windowed = attention_request_given(r, "window"),
        .window = r->window,
        .has_offset = has_offset,
        .offset = r->offset,
        .scale = (float)(scaled ? r->scale : 1 / sqrt((double)r->d)),
        .softcap = (float)r->softcap,
        .lens_q = has_lens ? &lengths : NULL,
        .lens_kv = has_lens ? &lengths : NULL,
        .ragged = r->lens == ATTENTION_LENS_RAGGED,
        .right_windowed = has_right && !causal,
        .window_right = r->window_right,
        .slopes = r->alibi ? &of_heads : NULL,
        .sinks = r->sinks ? &of_heads : NULL,
        .mask = r->mask != ATTENTION_MASK_NONE ? &mask : NULL,
        .mask_dtype = r->mask == ATTENTION_MASK_BOOL ? GEMMD_I8 : r->dtype,
        .lse = has_lse ? &lse : NULL,
        .q_strides = attention_strides(r->layout, r->heads, r->sq, r->d),
        .k_strides = attention_strides(r->layout, r->kv_heads, r->skv, r->d),
        .v_strides = attention_strides(r->layout, r->kv_heads, r->skv, r->dv),
        .o_strides = attention_strides(r->layout, r->heads, r->sq, r->dv),
        .mask_strides = mask_strides(r),
    };
    if (problem->attention.ragged)
        problem->attention.q_strides.batch = problem->attention.k_strides.batch =
            problem->attention.v_strides.batch = problem->attention.o_strides.batch = 0;
    return GEMMD_OK;
}

/* Sets the distance of two rows that follow each other in memory: rows of one head, or of all heads
 * if the layout interleaves them. */
static void move_apart(struct attention_strides *strides, uint64_t leading)
{
    const uint64_t width = strides->head < strides->row ? strides->head : strides->row;
    strides->batch = strides->batch / width * leading;
    strides->head = strides->head / width * leading;
    strides->row = strides->row / width * leading;
}

/* Points the problem at the rows of a sequence, each of which has the keys and then the values of
 * all heads. */
static void point_sequence(const struct call_residents *residents,
                           struct attention_problem *problem)
{
    const struct resident *sequence = residents->sequence;
    const uint64_t row = sequence_leading(sequence);
    problem->k = residents->use.rows;
    problem->v =
        residents->use.rows + sequence_values_offset(sequence) * dtype_size(problem->dtype);
    problem->k_strides = (struct attention_strides){
        problem->skv * row, sequence_head_leading(sequence, problem->d), row};
    problem->v_strides = (struct attention_strides){
        problem->skv * row, sequence_head_leading(sequence, problem->dv), row};
}

static void attention_point_residents(const struct call_residents *residents,
                                      union operation_problem *of)
{
    struct attention_problem *problem = &of->attention;
    const struct resident *k = call_residents_a(residents), *v = call_residents_b(residents);
    if (k != NULL) {
        problem->k = resident_memory(k);
        move_apart(&problem->k_strides, resident_leading(k));
    }
    if (v != NULL) {
        problem->v = resident_memory(v);
        move_apart(&problem->v_strides, resident_leading(v));
    }
    if (residents->sequence != NULL)
        point_sequence(residents, problem);
}

static void attention_sequence_want(const union call_request *of, struct sequence_want *want)
{
    const struct attention_request *request = &of->attention;
    *want = (struct sequence_want){.appends = request->append,
                                   .layer = (uint32_t)request->layer, /* settled */
                                   .position = request->append ? request->position : 0,
                                   .count = request->append ? request->sq : request->skv,
                                   .in_one = true};
}

static bool attention_heads_first(const union call_request *request)
{
    return request->attention.layout == ATTENTION_BHSD;
}

/* Each head of K and V is used by this many rows of Q: the queries of all heads that share it. */
static void attention_resident_rows(const union operation_problem *of, uint64_t rows[2])
{
    const struct attention_problem *problem = &of->attention;
    rows[0] = rows[1] = problem->sq * (problem->heads / problem->kv_heads);
}

/* m, n and k are those of Q*K^T. */
static enum gemmd_dtype attention_describe(const union call_request *request,
                                           struct log_access *entry)
{
    const struct attention_request *attention = &request->attention;
    const struct log_size sizes[] = {{"heads", attention->heads}, {"kv_heads", attention->kv_heads},
                                     {"sq", attention->sq},       {"skv", attention->skv},
                                     {"d", attention->d},         {"dv", attention->dv}};
    _Static_assert(sizeof sizes <= sizeof entry->sizes, "the sizes fit");
    entry->m = attention->sq;
    entry->n = attention->skv;
    entry->k = attention->d;
    entry->batch = attention->batch;
    if (attention->heads != 0)
        memcpy(entry->sizes, sizes, sizeof sizes);
    entry->dtype = dtype_name(attention->dtype);
    return attention->heads != 0 ? attention->dtype : GEMMD_DTYPE_COUNT;
}

const struct call_operation call_attention = {
    .result_name = "o",
    .json_model = "attention_fp32",
    .operation = &operation_attention,
    .operands = &attention_operand_table,
    .parameters = &attention_parameter_table,
    .kernel_at = offsetof(struct attention_request, kernel),
    .timeout_at = offsetof(struct attention_request, timeout_ms),
    .priority_at = offsetof(struct attention_request, priority),
    .residents = {{"k", offsetof(struct attention_request, k), false},
                  {"v", offsetof(struct attention_request, v), false}},
    .sequence = {.at = offsetof(struct attention_request, sequence),
                 .k = ATTENTION_PART_K,
                 .v = ATTENTION_PART_V,
                 .want = attention_sequence_want,
                 .heads_first = attention_heads_first},
    .init = attention_init,
    .settle = attention_settle,
    .read = attention_read,
    .check = attention_check,
    .results = attention_results,
    .problem = attention_problem_of,
    .point_residents = attention_point_residents,
    .resident_rows = attention_resident_rows,
    .describe = attention_describe,
};
