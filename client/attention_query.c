#include "client/attention_query.h"

#include <stdbool.h>

#include "client/query.h"

_Static_assert((int)GEMMD_LAYOUT_BHSD == (int)ATTENTION_BHSD &&
                   (int)GEMMD_LAYOUT_BSHD == (int)ATTENTION_BSHD,
               "layouts are proto's");

static void attention_write_parameters(struct query *query, const struct gemmd_attention *attention)
{
    query_add_u64_unless(query, "batch", attention->batch, 1);
    query_add_u64(query, "heads", attention->heads);
    query_add_u64_unless(query, "kv_heads", attention->kv_heads, 0);
    query_add_u64(query, "sq", attention->sq);
    query_add_u64_unless(query, "skv", attention->skv, 0);
    query_add_u64(query, "d", attention->d);
    query_add_u64_unless(query, "dv", attention->dv, 0);
    query_add_choice_unless(query, "layout", (uint32_t)attention->layout, GEMMD_LAYOUT_BHSD);
    query_add_dtype(query, "dtype", (int32_t)attention->dtype);
    query_add_u64_unless(query, "causal", (uint64_t)attention->causal, 0);
    if (attention->window != GEMMD_WINDOW_NONE)
        query_add_u64(query, "window", (uint64_t)attention->window);
    query_add_f64_unless(query, "scale", attention->scale, GEMMD_SCALE_DEFAULT);
    query_add_f64_unless(query, "softcap", attention->softcap, 0);
    if (attention->lens_q != NULL)
        query_add_u64(query, "lens", 1);
    query_add_if_named(query, "k", attention->k_tensor);
    query_add_if_named(query, "v", attention->v_tensor);
    if (attention->with_lse != 0)
        query_add_u64(query, "lse", 1);
    query_add_if_named(query, "kernel", attention->kernel);
    query_add_u64_unless(query, "priority", attention->priority, GEMM_PRIORITY_DEFAULT);
    /* A job's deadline is part of the query. For every other request each attempt sends the time
     * that is left (transfer.c). */
    if (attention->job != 0 && attention->timeout_ms != 0)
        query_add_u64(query, "timeout_ms", attention->timeout_ms);
}

enum gemmd_error attention_query_write(const struct gemmd_attention *attention, char *out,
                                       size_t room, struct attention_request *asked,
                                       struct fault *fault)
{
    struct query query;
    attention_request_init(asked);
    query_begin(&query, &attention_parameter_table, out, room, asked, fault);
    attention_write_parameters(&query, attention);
    return fault->code == GEMMD_OK ? attention_request_check(asked, FORMAT_RAW, fault)
                                   : fault->code;
}
