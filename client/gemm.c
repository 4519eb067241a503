#include <stdbool.h>

#include "client/client.h"
#include "client/compute.h"
#include "client/failure.h"
#include "client/query.h"
#include "client/record.h"
#include "proto/gemm_request.h"

void gemmd_gemm_init(struct gemmd_gemm *gemm, size_t size)
{
    const struct gemmd_gemm defaults = {
        .batch = 1,
        .dtype = GEMMD_F32,
        .out = GEMMD_OUT_DEFAULT,
        .alpha = 1,
        .priority = 4,
    };
    record_write(gemm, size, &defaults, sizeof defaults);
}

void gemmd_result_init(struct gemmd_result *result, size_t size)
{
    const struct gemmd_result zero = {0};
    record_write(result, size, &zero, sizeof zero);
}

#define X(NAME, name)                                                                              \
    _Static_assert((int)GEMMD_ACT_##NAME == (int)GEMM_ACT_##NAME, "activations are proto's");
GEMM_ACT_MAP(X)
#undef X

static void gemm_write_parameters(struct query *query, const struct gemmd_gemm *gemm)
{
    query_add_u64(query, "m", gemm->m);
    query_add_u64(query, "n", gemm->n);
    query_add_u64(query, "k", gemm->k);
    query_add_dtype(query, "dtype", (int32_t)gemm->dtype);
    if (gemm->out != GEMMD_OUT_DEFAULT)
        query_add_dtype(query, "out", gemm->out);
    query_add_choice_unless(query, "precision", (uint32_t)gemm->precision, GEMMD_PRECISION_FULL);
    query_add_choice_unless(query, "scales", (uint32_t)gemm->scales, GEMMD_SCALES_NONE);
    query_add_u64_unless(query, "transa", (uint64_t)gemm->transa, 0);
    query_add_u64_unless(query, "transb", (uint64_t)gemm->transb, 0);
    query_add_f64_unless(query, "alpha", gemm->alpha, 1);
    query_add_f64_unless(query, "beta", gemm->beta, 0);
    query_add_u64_unless(query, "batch", gemm->batch, 1);
    if (gemm->bias != NULL)
        query_add_u64(query, "bias", 1);
    query_add_choice_unless(query, "act", (uint32_t)gemm->act, GEMMD_ACT_NONE);
    query_add_if_named(query, "kernel", gemm->kernel);
    query_add_choice_unless(query, "verify", (uint32_t)gemm->verify, GEMMD_VERIFY_NONE);
    query_add_u64_unless(query, "priority", gemm->priority, 4);
    query_add_if_named(query, "a", gemm->a_tensor);
    query_add_if_named(query, "b", gemm->b_tensor);
    query_add_if_named(query, "store", gemm->store);
    /* A job's deadline is part of the query. For every other request each attempt sends the time
     * that is left (transfer.c). */
    if (gemm->job != 0 && gemm->timeout_ms != 0)
        query_add_u64(query, "timeout_ms", gemm->timeout_ms);
}

/* Writes "/gemm?m=..." without the parameters that have their default. Every parameter is also
 * parsed by proto/ into `asked`, so that a parameter that the daemon would refuse is refused here
 * with the same sentence. */
static enum gemmd_error gemm_query_write(const struct gemmd_gemm *gemm, char *out, size_t room,
                                         struct gemm_request *asked, struct fault *fault)
{
    struct query query;
    gemm_request_init(asked);
    query_begin(&query, &gemm_parameter_table, out, room, asked, fault);
    gemm_write_parameters(&query, gemm);
    return fault->code == GEMMD_OK ? gemm_request_check(asked, FORMAT_RAW, fault) : fault->code;
}

/* Checks that scales are there if they are needed. A resident tensor may bring its own. */
static enum gemmd_error check_scale(const struct gemmd_gemm *gemm, const char *name,
                                    const float *scale, const char *tensor,
                                    struct gemmd_error_info *error)
{
    if (gemm->scales == GEMMD_SCALES_NONE && scale != NULL)
        return failure_set(error, GEMMD_ERR_USAGE, name,
                           "%s is set and scales is GEMMD_SCALES_NONE; it must be ROWCOL or BLOCK",
                           name);
    if (gemm->scales != GEMMD_SCALES_NONE && scale == NULL && tensor == NULL)
        return failure_set(error, GEMMD_ERR_USAGE, name,
                           "%s is NULL; it must point to the scales, since scales is not NONE",
                           name);
    return GEMMD_OK;
}

static enum gemmd_error gemm_write_body(struct gemmd_request *request,
                                        const struct gemmd_gemm *gemm,
                                        const struct gemm_request *asked,
                                        struct gemmd_error_info *error)
{
    const bool has_c0 = asked->beta != 0;
    const void *const operands[OPERAND_TABLE_MAX] = {
        gemm->a, gemm->b, gemm->bias, has_c0 ? gemm->c0 : NULL, gemm->a_scale, gemm->b_scale};
    enum gemmd_error code = compute_check_operand("a", gemm->a, gemm->a_tensor, error);
    if (code == GEMMD_OK)
        code = compute_check_operand("b", gemm->b, gemm->b_tensor, error);
    if (code == GEMMD_OK)
        code = check_scale(gemm, "a_scale", gemm->a_scale, gemm->a_tensor, error);
    if (code == GEMMD_OK)
        code = check_scale(gemm, "b_scale", gemm->b_scale, gemm->b_tensor, error);
    if (code != GEMMD_OK)
        return code;
    if (has_c0 && gemm->c0 == NULL)
        return failure_set(error, GEMMD_ERR_USAGE, "c0",
                           "c0 is NULL; it must point to a matrix, since beta is not 0");
    return compute_write_body(request, &gemm_operand_table, asked, operands, "m", error);
}

static enum gemmd_error gemm_expect_result(struct gemmd_request *request,
                                           const struct gemmd_gemm *gemm,
                                           const struct gemm_request *asked,
                                           struct gemmd_error_info *error)
{
    struct tensor result;
    if (!gemm_request_result(asked, NULL, &result))
        return failure_set(error, GEMMD_ERR_USAGE, "m", "the result has more than 2^63 bytes");
    request->expected.verify = gemm->verify != GEMMD_VERIFY_NONE;
    return compute_expect(request, &result, gemm->store == NULL ? gemm->c : NULL, gemm->c_bytes,
                          "c_bytes", error);
}

static enum gemmd_error gemm_write(struct gemmd_request *request, const void *argument,
                                   struct gemmd_error_info *error)
{
    const struct gemmd_gemm *gemm = argument;
    struct gemm_request asked;
    struct fault fault;
    if (gemm_query_write(gemm, request->target, sizeof request->target, &asked, &fault) != GEMMD_OK)
        return failure_from_fault(error, &fault);
    const enum gemmd_error code = gemm_write_body(request, gemm, &asked, error);
    return code == GEMMD_OK ? gemm_expect_result(request, gemm, &asked, error) : code;
}

struct gemmd_request *gemmd_gemm_submit(struct gemmd_client *client, const struct gemmd_gemm *given,
                                        struct gemmd_error_info *error)
{
    struct gemmd_gemm gemm;
    failure_clear(error);
    gemmd_gemm_init(&gemm, sizeof gemm);
    if (record_read(&gemm, sizeof gemm, given, GEMMD_GEMM_SIZE_0_1, "gemm", "gemm", error) !=
        GEMMD_OK)
        return NULL;
    const struct compute compute = {
        .call = {.timeout_ms = gemm.timeout_ms,
                 .request_id = gemm.request_id,
                 .traceparent = gemm.traceparent,
                 .data = gemm.c,
                 .bytes = gemm.c_bytes,
                 .user = gemm.user},
        .job = gemm.job != 0,
        .store = gemm.store,
        .result = "c",
        .write = gemm_write,
    };
    return compute_submit(client, &compute, &gemm, error);
}

enum gemmd_error gemmd_gemm(struct gemmd_client *client, const struct gemmd_gemm *gemm,
                            struct gemmd_result *result, struct gemmd_error_info *error)
{
    struct gemmd_error_info local;
    if (error == NULL)
        error = &local;
    struct gemmd_request *request = gemmd_gemm_submit(client, gemm, error);
    return request_finish(request, result, error);
}
