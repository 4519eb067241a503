#include "server/api/compute/call_residents.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/dtype.h"
#include "server/tensors/tensor_describe.h"

static enum gemmd_error acquire_resident(struct tensor_store *store, const char *field,
                                         const char *name, const char *tenant,
                                         struct resident **resident, struct fault *fault)
{
    enum gemmd_error code = tensor_store_acquire(store, name, tenant, resident, fault);
    tensor_store_count_use(store, code == GEMMD_OK);
    if (code != GEMMD_OK)
        snprintf(fault->field, sizeof fault->field, "%s", field);
    return code;
}

enum gemmd_error call_residents_acquire(struct call_residents *residents,
                                        struct gemm_request *request, struct tensor_store *store,
                                        const char *tenant, struct fault *fault)
{
    residents->tenant = tenant;
    enum gemmd_error code = GEMMD_OK;
    if (request->a[0] != '\0')
        code = acquire_resident(store, "a", request->a, tenant, &residents->a, fault);
    if (code == GEMMD_OK && request->b[0] != '\0')
        code = acquire_resident(store, "b", request->b, tenant, &residents->b, fault);
    if (code != GEMMD_OK)
        return code;
    return gemm_request_settle_residents(
        request, residents->a != NULL ? resident_tensor(residents->a) : NULL,
        residents->b != NULL ? resident_tensor(residents->b) : NULL, fault);
}

enum gemmd_error call_residents_acquire_kv(struct call_residents *residents,
                                           struct attention_request *request,
                                           struct tensor_store *store, const char *tenant,
                                           struct fault *fault)
{
    residents->tenant = tenant;
    enum gemmd_error code = GEMMD_OK;
    if (request->k[0] != '\0')
        code = acquire_resident(store, "k", request->k, tenant, &residents->a, fault);
    if (code == GEMMD_OK && request->v[0] != '\0')
        code = acquire_resident(store, "v", request->v, tenant, &residents->b, fault);
    if (code != GEMMD_OK)
        return code;
    return attention_request_settle_residents(
        request, residents->a != NULL ? resident_tensor(residents->a) : NULL,
        residents->b != NULL ? resident_tensor(residents->b) : NULL, fault);
}

enum gemmd_error call_residents_reserve(struct call_residents *residents,
                                        const struct gemm_request *request, const struct tensor *c,
                                        struct tensor_store *store, struct fault *fault)
{
    const struct tensor_offer offer = {
        .name = request->store, .tenant = residents->tenant, .tensor = c};
    enum gemmd_error code = tensor_store_reserve(store, &offer, &residents->stored, fault);
    if (code == GEMMD_ERR_FORBIDDEN)
        snprintf(fault->field, sizeof fault->field, "store");
    return code;
}

/* The number of elements from one matrix of a batch to the next. */
static uint64_t stride_of(const struct resident *resident)
{
    const struct tensor *tensor = resident_tensor(resident);
    return tensor->dims[tensor->rank - 2] * resident_leading(resident);
}

void call_residents_point(const struct call_residents *residents, struct gemm_problem *problem)
{
    if (residents->a != NULL) {
        problem->a = resident_memory(residents->a);
        problem->lda = resident_leading(residents->a);
        problem->stride_a = stride_of(residents->a);
    }
    if (residents->b != NULL) {
        problem->b = resident_memory(residents->b);
        problem->ldb = resident_leading(residents->b);
        problem->stride_b = stride_of(residents->b);
    }
    if (residents->stored != NULL) {
        problem->c = resident_memory(residents->stored);
        problem->ldc = resident_leading(residents->stored);
        problem->stride_c = stride_of(residents->stored);
    }
}

/* From this number of rows on, multiplying with a matrix takes longer than reading the matrix. */
enum { ROWS_MANY = 128 };

static uint64_t resident_work_bytes(const struct resident *resident, uint64_t rows)
{
    const uint64_t bytes = resident_tensor(resident)->bytes;
    return rows >= ROWS_MANY ? bytes : bytes / ROWS_MANY * rows;
}

uint64_t call_residents_work_bytes(const struct call_residents *residents, uint64_t rows_on_a,
                                   uint64_t rows_on_b)
{
    uint64_t bytes = 0;
    if (residents->a != NULL)
        bytes += resident_work_bytes(residents->a, rows_on_a);
    if (residents->b != NULL)
        bytes += resident_work_bytes(residents->b, rows_on_b);
    if (residents->stored != NULL)
        bytes += resident_work_bytes(residents->stored, ROWS_MANY);
    return bytes;
}

enum gemmd_error call_residents_publish(struct call_residents *residents,
                                        struct tensor_store *store, char **description,
                                        struct fault *fault)
{
    static const struct tensor_condition none;
    bool replaced;
    char *text = tensor_describe(residents->stored);
    if (text == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the answer");
    enum gemmd_error code = tensor_store_publish(store, residents->stored, &none, &replaced, fault);
    if (code == GEMMD_OK)
        *description = text;
    else
        free(text);
    return code;
}

void call_residents_finish(struct call_residents *residents, struct tensor_store *store)
{
    tensor_store_release(store, residents->a);
    tensor_store_release(store, residents->b);
    residents->a = residents->b = NULL;
}

void call_residents_close(struct call_residents *residents, struct tensor_store *store)
{
    tensor_store_release(store, residents->stored);
    residents->stored = NULL;
}
