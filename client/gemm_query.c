#include "client/gemm_query.h"

#include <stdbool.h>

#include "client/query.h"

_Static_assert((int)GEMMD_ACT_RELU == (int)GEMM_ACT_RELU &&
                   (int)GEMMD_ACT_GELU == (int)GEMM_ACT_GELU &&
                   (int)GEMMD_ACT_GELU_TANH == (int)GEMM_ACT_GELU_TANH &&
                   (int)GEMMD_ACT_SILU == (int)GEMM_ACT_SILU,
               "activations are proto's");

static void gemm_write_parameters(struct query *query, const struct gemmd_gemm *gemm)
{
    static const char *const precisions[] = {"full", "tf32", "f8"};
    static const char *const verifies[] = {"none", "freivalds"};
    bool is_act = (unsigned)gemm->act <= GEMMD_ACT_SILU;
    query_add_u64(query, "m", gemm->m);
    query_add_u64(query, "n", gemm->n);
    query_add_u64(query, "k", gemm->k);
    query_add_dtype(query, "dtype", (int32_t)gemm->dtype);
    if (gemm->out != GEMMD_OUT_DEFAULT)
        query_add_dtype(query, "out", gemm->out);
    if (gemm->precision != GEMMD_PRECISION_FULL)
        query_add_choice(query, "precision", precisions, 3, (uint32_t)gemm->precision);
    if (gemm->scales != GEMMD_SCALES_NONE)
        query_add_choice(query, "scales", gemm_scales_names, 3, (uint32_t)gemm->scales);
    query_add_u64_unless(query, "transa", (uint64_t)gemm->transa, 0);
    query_add_u64_unless(query, "transb", (uint64_t)gemm->transb, 0);
    query_add_f64_unless(query, "alpha", gemm->alpha, 1);
    query_add_f64_unless(query, "beta", gemm->beta, 0);
    query_add_u64_unless(query, "batch", gemm->batch, 1);
    if (gemm->bias != NULL)
        query_add_u64(query, "bias", 1);
    if (gemm->act != GEMMD_ACT_NONE)
        query_add(query, "act", is_act ? gemm_act_name((enum gemm_act)gemm->act) : "?");
    query_add_if_named(query, "kernel", gemm->kernel);
    if (gemm->verify != GEMMD_VERIFY_NONE)
        query_add_choice(query, "verify", verifies, 2, (uint32_t)gemm->verify);
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
