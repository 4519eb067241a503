#include "client/gemmctl/flops.h"

double flops_of_gemm(const struct gemm_request *request)
{
    return 2 * (double)request->m * (double)request->n * (double)request->k *
           (double)request->batch;
}

/* Returns the number of pairs of a query and a key that the masks do not exclude. */
static double count_pairs(const struct attention_request *r)
{
    double pairs = 0;
    for (uint64_t i = 0; i < r->sq; i++) {
        const int64_t position = (int64_t)i + (int64_t)r->skv - (int64_t)r->sq;
        int64_t first = 0, end = (int64_t)r->skv;
        if (r->causal && position + 1 < end)
            end = position + 1;
        if (attention_request_given(r, "window") && position - (int64_t)r->window > 0)
            first = position - (int64_t)r->window;
        pairs += end > first ? (double)(end - first) : 0;
    }
    return pairs;
}

double flops_of_attention(const struct attention_request *request)
{
    return 2 * count_pairs(request) * (double)(request->d + request->dv) * (double)request->batch *
           (double)request->heads;
}

double flops_of_conv(const struct conv2d_request *request)
{
    struct conv_shape s;
    struct fault fault;
    if (conv2d_request_shape(request, &s, &fault) != GEMMD_OK)
        return 0;
    const uint64_t channels = s.channels / s.groups;
    return 2 * (double)channels * (double)s.r * (double)s.s * (double)s.batch * (double)s.filters *
           (double)s.out_height * (double)s.out_width;
}
