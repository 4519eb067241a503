#include "client/compute.h"
#include "client/failure.h"
#include "client/gemm_query.h"
#include "client/record.h"
#include "client/schedule.h"
#include "client/stored.h"

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

static const struct operation *operation_for(const struct gemmd_gemm *gemm)
{
    if (gemm->store == NULL)
        return compute_operation(gemm->job != 0, false);
    return stored_operation(gemm->job != 0);
}

struct gemmd_request *gemmd_gemm_submit(struct gemmd_client *client, const struct gemmd_gemm *given,
                                        struct gemmd_error_info *error)
{
    struct gemmd_gemm gemm;
    failure_clear(error);
    gemmd_gemm_init(&gemm, sizeof gemm);
    if (!record_read(&gemm, sizeof gemm, given, given->size, GEMMD_GEMM_SIZE_0_1)) {
        failure_set(error, GEMMD_ERR_USAGE, "size",
                    "the size of struct gemmd_gemm is not one that libgemmd %s knows; use "
                    "gemmd_gemm_init(&gemm, sizeof gemm)",
                    gemmd_version());
        return NULL;
    }
    const struct gemmd_call call = {
        /* `timeout_ms` is the job's deadline, not the deadline of the request that hands the job
           in. */
        .timeout_ms = gemm.job != 0 ? 0 : gemm.timeout_ms,
        .request_id = gemm.request_id,
        .traceparent = gemm.traceparent,
        .data = gemm.c,
        .bytes = gemm.c_bytes,
        .user = gemm.user,
    };
    struct gemmd_request *request = request_new(client, operation_for(&gemm), &call, error);
    if (request == NULL)
        return NULL;
    struct gemm_request asked;
    struct fault fault;
    if (gemm_query_write(&gemm, request->target, sizeof request->target, &asked, &fault) !=
        GEMMD_OK) {
        failure_from_fault(error, &fault);
        goto refused;
    }
    if (gemm_write_body(request, &gemm, &asked, error) != GEMMD_OK ||
        gemm_expect_result(request, &gemm, &asked, error) != GEMMD_OK)
        goto refused;
    request->shared_memory.possible = gemm.job == 0;
    request->shared_memory.result = gemm.store == NULL ? "c" : NULL;
    schedule_submit(request);
    return request;

refused:
    gemmd_request_free(request);
    return NULL;
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
