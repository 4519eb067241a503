#include "client/gemm_query.h"

#include <stdbool.h>

#include "client/query.h"

_Static_assert((int)GEMMD_ACT_RELU == (int)GEMM_ACT_RELU &&
                   (int)GEMMD_ACT_GELU == (int)GEMM_ACT_GELU &&
                   (int)GEMMD_ACT_GELU_TANH == (int)GEMM_ACT_GELU_TANH &&
                   (int)GEMMD_ACT_SILU == (int)GEMM_ACT_SILU,
               "activations are proto's");

static void write_parameters(struct query *query, const struct gemmd_gemm *gemm)
{
    static const char *const precisions[] = {"full", "tf32"};
    static const char *const verifies[] = {"none", "freivalds"};
    bool is_act = (unsigned)gemm->act <= GEMMD_ACT_SILU;
    query_add_u64(query, "m", gemm->m);
    query_add_u64(query, "n", gemm->n);
    query_add_u64(query, "k", gemm->k);
    query_add_dtype(query, "dtype", (int32_t)gemm->dtype);
    if (gemm->out != GEMMD_OUT_DEFAULT)
        query_add_dtype(query, "out", gemm->out);
    if (gemm->precision != GEMMD_PRECISION_FULL)
        query_add_choice(query, "precision", precisions, 2, (uint32_t)gemm->precision);
    if (gemm->transa != 0)
        query_add_u64(query, "transa", (uint64_t)gemm->transa);
    if (gemm->transb != 0)
        query_add_u64(query, "transb", (uint64_t)gemm->transb);
    if (gemm->alpha != 1)
        query_add_f64(query, "alpha", gemm->alpha);
    if (gemm->beta != 0)
        query_add_f64(query, "beta", gemm->beta);
    if (gemm->batch != 1)
        query_add_u64(query, "batch", gemm->batch);
    if (gemm->bias != NULL)
        query_add_u64(query, "bias", 1);
    if (gemm->act != GEMMD_ACT_NONE)
        query_add(query, "act", is_act ? gemm_act_name((enum gemm_act)gemm->act) : "?");
    if (gemm->kernel != NULL)
        query_add(query, "kernel", gemm->kernel);
    if (gemm->verify != GEMMD_VERIFY_NONE)
        query_add_choice(query, "verify", verifies, 2, (uint32_t)gemm->verify);
    if (gemm->priority != 4)
        query_add_u64(query, "priority", gemm->priority);
    if (gemm->a_tensor != NULL)
        query_add(query, "a", gemm->a_tensor);
    if (gemm->b_tensor != NULL)
        query_add(query, "b", gemm->b_tensor);
    if (gemm->store != NULL)
        query_add(query, "store", gemm->store);
    /* Of all others the time that is left when they are sent. */
    if (gemm->job != 0 && gemm->timeout_ms != 0)
        query_add_u64(query, "timeout_ms", gemm->timeout_ms);
}

static enum gemmd_error set(void *request, const char *name, const char *value, struct fault *fault)
{
    return gemm_request_set(request, name, value, fault);
}

enum gemmd_error gemm_query_write(const struct gemmd_gemm *gemm, char *out, size_t room,
                                  struct gemm_request *asked, struct fault *fault)
{
    struct query query;
    gemm_request_init(asked);
    query_begin(&query, "/gemm", out, room, set, asked, fault);
    write_parameters(&query, gemm);
    return fault->code == GEMMD_OK ? gemm_request_check(asked, FORMAT_RAW, fault) : fault->code;
}
