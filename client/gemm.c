#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "client/failure.h"
#include "client/query.h"
#include "client/record.h"
#include "client/schedule.h"
#include "proto/gemm_request.h"
#include "proto/size.h"

enum { RESULT_ALIGNMENT = 64 };

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
    const char *missing = gemm->a == NULL                        ? "a"
                          : gemm->b == NULL                      ? "b"
                          : asked->beta != 0 && gemm->c0 == NULL ? "c0"
                                                                 : NULL;
    if (missing != NULL)
        return failure_set(error, GEMMD_ERR_USAGE, missing, "%s is NULL; it must be an operand%s",
                           missing, asked->beta != 0 ? ", as beta is not 0" : "");
    struct body *body = &request->body;
    body_init(body);
    if (!append_operand(body, gemm->a, asked->dtype, asked->batch, asked->m, asked->k) ||
        !append_operand(body, gemm->b, asked->dtype, asked->batch, asked->k, asked->n) ||
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
    if (gemm->c != NULL && gemm->c_bytes < result.bytes)
        return failure_set(error, GEMMD_ERR_USAGE, "c_bytes",
                           "the result has %llu bytes and c has room for %llu",
                           (unsigned long long)result.bytes, (unsigned long long)gemm->c_bytes);
    request->expected.rank = result.rank;
    memcpy(request->expected.dims, result.dims, result.rank * sizeof result.dims[0]);
    request->expected.dtype = result.dtype;
    request->expected.bytes = result.bytes;
    request->expected.verify = gemm->verify != GEMMD_VERIFY_NONE;
    request->sink.data = gemm->c;
    request->sink.room = gemm->c != NULL ? result.bytes : 0;
    return GEMMD_OK;
}

static bool same_shape(const struct gemmd_request *request, const struct answer *answer)
{
    return answer->rank == request->expected.rank &&
           memcmp(answer->dims, request->expected.dims, answer->rank * sizeof answer->dims[0]) == 0;
}

static enum gemmd_error accept_result(struct gemmd_request *request, const struct answer *answer)
{
    struct gemmd_error_info *error = &request->error;
    struct sink *sink = &request->sink;
    if (!same_shape(request, answer))
        return failure_set(error, GEMMD_ERR_PROTOCOL, NULL,
                           "the answer's Gemmd-Shape is missing or not the shape of the result");
    if (!answer->has_dtype || answer->dtype != request->expected.dtype)
        return failure_set(error, GEMMD_ERR_PROTOCOL, NULL,
                           "the answer's Gemmd-Dtype is missing or not %s",
                           gemmd_dtype_name(request->expected.dtype));
    if (answer->has_length && answer->length != request->expected.bytes)
        return failure_set(
            error, GEMMD_ERR_PROTOCOL, NULL, "the answer has %llu bytes where the result has %llu",
            (unsigned long long)answer->length, (unsigned long long)request->expected.bytes);
    if (request->expected.verify && !answer->verify_pass)
        return failure_set(error, GEMMD_ERR_PROTOCOL, NULL,
                           "the answer does not say that the result was verified");
    if (sink->data != NULL)
        return GEMMD_OK;
    void *data;
    if (posix_memalign(&data, RESULT_ALIGNMENT, request->expected.bytes) != 0)
        return failure_set(error, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                           "no memory for a result of %llu bytes",
                           (unsigned long long)request->expected.bytes);
    sink->data = data;
    sink->room = request->expected.bytes;
    sink->owned = true;
    return GEMMD_OK;
}

/* What may stand in a header line. */
static bool is_request_id(const char *id)
{
    size_t length = 0;
    while (id[length] > ' ' && id[length] < 0x7f)
        length++;
    return id[length] == '\0' && length > 0 && length < sizeof((struct gemmd_request *)0)->id;
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
    if (gemm.request_id != NULL && !is_request_id(gemm.request_id)) {
        failure_set(error, GEMMD_ERR_USAGE, "request_id",
                    "a request id is 1 to 63 visible ASCII characters");
        return NULL;
    }
    struct gemmd_request *request = request_new(client, REQUEST_POST, gemm.timeout_ms, error);
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
    if (gemm.request_id != NULL)
        snprintf(request->id, sizeof request->id, "%s", gemm.request_id);
    request->user = gemm.user;
    request->accept = accept_result;
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
    if (request == NULL)
        return error->code;
    gemmd_wait(request, -1);
    enum gemmd_error code = gemmd_request_result(request, result, error);
    gemmd_request_free(request);
    return code;
}
