#include "client/gemm_query.h"

#include <stdbool.h>

#include "client/query.h"

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

enum gemmd_error gemm_query_write(const struct gemmd_gemm *gemm, char *out, size_t room,
                                  struct gemm_request *asked, struct fault *fault)
{
    struct query query;
    gemm_request_init(asked);
    query_begin(&query, &gemm_parameter_table, out, room, asked, fault);
    gemm_write_parameters(&query, gemm);
    return fault->code == GEMMD_OK ? gemm_request_check(asked, FORMAT_RAW, fault) : fault->code;
}
