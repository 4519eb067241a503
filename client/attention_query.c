#include "client/attention_query.h"

#include <stdbool.h>

#include "client/query.h"

_Static_assert((int)GEMMD_LAYOUT_BHSD == (int)ATTENTION_BHSD &&
                   (int)GEMMD_LAYOUT_BSHD == (int)ATTENTION_BSHD,
               "layouts are proto's");

/* Those that may be left out: 0 is their default, or the default is 1. */
static void add_size(struct query *query, const char *name, uint64_t value)
{
    if (value != 0)
        query_add_u64(query, name, value);
}

static void write_parameters(struct query *query, const struct gemmd_attention *attention)
{
    static const char *const layouts[] = {"bhsd", "bshd"};
    if (attention->batch != 1)
        query_add_u64(query, "batch", attention->batch);
    query_add_u64(query, "heads", attention->heads);
    add_size(query, "kv_heads", attention->kv_heads);
    query_add_u64(query, "sq", attention->sq);
    add_size(query, "skv", attention->skv);
    query_add_u64(query, "d", attention->d);
    add_size(query, "dv", attention->dv);
    if (attention->layout != GEMMD_LAYOUT_BHSD)
        query_add_choice(query, "layout", layouts, 2, (uint32_t)attention->layout);
    query_add_dtype(query, "dtype", (int32_t)attention->dtype);
    if (attention->causal != 0)
        query_add_u64(query, "causal", (uint64_t)attention->causal);
    if (attention->window != GEMMD_WINDOW_NONE)
        query_add_u64(query, "window", (uint64_t)attention->window);
    if (attention->scale != GEMMD_SCALE_DEFAULT)
        query_add_f64(query, "scale", attention->scale);
    if (attention->softcap != 0)
        query_add_f64(query, "softcap", attention->softcap);
    if (attention->lens_q != NULL)
        query_add_u64(query, "lens", 1);
    if (attention->k_tensor != NULL)
        query_add(query, "k", attention->k_tensor);
    if (attention->v_tensor != NULL)
        query_add(query, "v", attention->v_tensor);
    if (attention->with_lse != 0)
        query_add_u64(query, "lse", 1);
    if (attention->kernel != NULL)
        query_add(query, "kernel", attention->kernel);
    if (attention->priority != GEMM_PRIORITY_DEFAULT)
        query_add_u64(query, "priority", attention->priority);
    /* Of all others the time that is left when they are sent. */
    if (attention->job != 0 && attention->timeout_ms != 0)
        query_add_u64(query, "timeout_ms", attention->timeout_ms);
}

static enum gemmd_error set(void *request, const char *name, const char *value, struct fault *fault)
{
    return attention_request_set(request, name, value, fault);
}

enum gemmd_error attention_query_write(const struct gemmd_attention *attention, char *out,
                                       size_t room, struct attention_request *asked,
                                       struct fault *fault)
{
    struct query query;
    attention_request_init(asked);
    query_begin(&query, "/attention", out, room, set, asked, fault);
    write_parameters(&query, attention);
    return fault->code == GEMMD_OK ? attention_request_check(asked, FORMAT_RAW, fault)
                                   : fault->code;
}
