#include <string.h>

#include "client/client.h"
#include "client/failure.h"
#include "client/payload.h"
#include "client/query.h"
#include "client/record.h"
#include "client/resource.h"
#include "client/schedule.h"
#include "client/stored.h"
#include "proto/gemm_request.h"
#include "proto/size.h"

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

static bool append_operand(struct body *body, const void *data, enum gemmd_dtype dtype,
                           uint64_t batch, uint64_t rows, uint64_t columns)
{
    const uint64_t dims[] = {batch, rows, columns};
    uint64_t bytes;
    return size_tensor_bytes(dtype, dims, 3, &bytes) && body_append(body, data, bytes);
}

/* The operands, in the order of a raw body. */
static enum gemmd_error write_body(struct gemmd_request *request, const struct gemmd_gemm *gemm,
                                   const struct gemm_request *asked, struct gemmd_error_info *error)
{
    const bool a = gemm->a_tensor == NULL, b = gemm->b_tensor == NULL;
    const char *missing = a && gemm->a == NULL                   ? "a"
                          : b && gemm->b == NULL                 ? "b"
                          : asked->beta != 0 && gemm->c0 == NULL ? "c0"
                                                                 : NULL;
    if (missing != NULL)
        return failure_set(error, GEMMD_ERR_USAGE, missing, "%s is NULL; it must be an operand%s",
                           missing, asked->beta != 0 ? ", as beta is not 0" : "");
    const char *twice = !a && gemm->a != NULL ? "a" : !b && gemm->b != NULL ? "b" : NULL;
    if (twice != NULL)
        return failure_set(error, GEMMD_ERR_USAGE, twice,
                           "%s is given and %s_tensor too; one of them must be NULL", twice, twice);
    struct body *body = &request->body;
    body_init(body);
    if ((a && !append_operand(body, gemm->a, asked->dtype, asked->batch, asked->m, asked->k)) ||
        (b && !append_operand(body, gemm->b, asked->dtype, asked->batch, asked->k, asked->n)) ||
        (asked->bias && !append_operand(body, gemm->bias, asked->out, 1, 1, asked->n)) ||
        (asked->beta != 0 &&
         !append_operand(body, gemm->c0, asked->out, asked->batch, asked->m, asked->n)) ||
        body->bytes > INT64_MAX)
        return failure_set(error, GEMMD_ERR_USAGE, "m", "the operands have more than 2^63 bytes");
    return GEMMD_OK;
}

static enum gemmd_error expect_result(struct gemmd_request *request, const struct gemmd_gemm *gemm,
                                      const struct gemm_request *asked,
                                      struct gemmd_error_info *error)
{
    struct tensor result;
    if (!gemm_request_result(asked, NULL, &result))
        return failure_set(error, GEMMD_ERR_USAGE, "m", "the result has more than 2^63 bytes");
    if (gemm->c != NULL && gemm->store == NULL && gemm->c_bytes < result.bytes)
        return failure_set(error, GEMMD_ERR_USAGE, "c_bytes",
                           "the result has %llu bytes and c has room for %llu",
                           (unsigned long long)result.bytes, (unsigned long long)gemm->c_bytes);
    request->expected.rank = result.rank;
    memcpy(request->expected.dims, result.dims, result.rank * sizeof result.dims[0]);
    request->expected.dtype = result.dtype;
    request->expected.bytes = result.bytes;
    request->expected.verify = gemm->verify != GEMMD_VERIFY_NONE;
    return GEMMD_OK;
}

/* A daemon that takes no jobs answers with the result instead (RFC 7240). */
static enum gemmd_error accept_taken(struct gemmd_request *request, const struct answer *answer)
{
    if (resource_check_job(answer->job, NULL) != GEMMD_OK)
        return failure_set(&request->error, GEMMD_ERR_PROTOCOL, NULL,
                           "the answer's Location is missing or names no job");
    request->expected.bytes = 0;
    return GEMMD_OK;
}

static enum gemmd_error accept_job(struct gemmd_request *request, const struct answer *answer)
{
    return answer->status == 202 ? accept_taken(request, answer)
                                 : payload_take_expected(request, answer);
}

static enum gemmd_error accept_stored(struct gemmd_request *request, const struct answer *answer)
{
    if (answer->status == 202)
        return accept_taken(request, answer);
    request->expected.bytes = 0;
    return GEMMD_OK;
}

static enum gemmd_error conclude_stored(struct gemmd_request *request, struct answer *answer,
                                        const char *document, size_t bytes)
{
    return answer->status == 202 ? GEMMD_OK : stored_conclude(request, answer, document, bytes);
}

static const struct operation gemm_operation = {.method = "POST",
                                                .headers = HEADERS_SEND,
                                                .sends = true,
                                                .statuses = {200},
                                                .time_parameter = "timeout_ms",
                                                .time_max_ms = INT32_MAX,
                                                .accept = payload_take_expected};
static const struct operation store_operation = {.method = "POST",
                                                 .headers = HEADERS_SEND,
                                                 .sends = true,
                                                 .statuses = {201, 200},
                                                 .time_parameter = "timeout_ms",
                                                 .time_max_ms = INT32_MAX,
                                                 .accept = accept_stored,
                                                 .conclude = conclude_stored};
static const struct operation job_operation = {.method = "POST",
                                               .headers = HEADERS_SEND,
                                               .sends = true,
                                               .prefers_async = true,
                                               .statuses = {202, 200},
                                               .accept = accept_job};
static const struct operation store_job_operation = {.method = "POST",
                                                     .headers = HEADERS_SEND,
                                                     .sends = true,
                                                     .prefers_async = true,
                                                     .statuses = {202, 201, 200},
                                                     .accept = accept_stored,
                                                     .conclude = conclude_stored};

static const struct operation *operation_for(const struct gemmd_gemm *gemm)
{
    if (gemm->job != 0)
        return gemm->store != NULL ? &store_job_operation : &job_operation;
    return gemm->store != NULL ? &store_operation : &gemm_operation;
}

struct gemmd_request *gemmd_gemm_submit(struct gemmd_client *client, const struct gemmd_gemm *given,
                                        struct gemmd_error_info *error)
{
    struct gemmd_gemm gemm;
    failure_clear(error);
    gemmd_gemm_init(&gemm, sizeof gemm);
    if (!record_read(&gemm, sizeof gemm, given, given->size, GEMMD_GEMM_SIZE_0_1)) {
        failure_set(error, GEMMD_ERR_USAGE, "size",
                    "the product is not described as in this library (%s); use "
                    "gemmd_gemm_init(&gemm, sizeof gemm)",
                    gemmd_version());
        return NULL;
    }
    const struct gemmd_call call = {
        /* A job's deadline is not that of handing it in. */
        .timeout_ms = gemm.job != 0 ? 0 : gemm.timeout_ms,
        .request_id = gemm.request_id,
        .data = gemm.c,
        .bytes = gemm.c_bytes,
        .user = gemm.user,
    };
    struct gemmd_request *request = request_new(client, operation_for(&gemm), &call, error);
    if (request == NULL)
        return NULL;
    struct gemm_request asked;
    struct fault fault;
    if (query_write(&gemm, request->target, sizeof request->target, &asked, &fault) != GEMMD_OK) {
        failure_from_fault(error, &fault);
        goto refused;
    }
    if (write_body(request, &gemm, &asked, error) != GEMMD_OK ||
        expect_result(request, &gemm, &asked, error) != GEMMD_OK)
        goto refused;
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
