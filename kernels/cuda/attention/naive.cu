/*
 * attention_naive - the three steps of the definition, with one block of threads for each row of Q:
 * the maximum of the scores, the sum of the weights, and the product of the weights with V. The
 * other kernels are compared with this one.
 *
 * No score is stored: each step computes the scores again, one thread for each key, and each score
 * is one chain of fused multiply-adds. In the third step the weights of as many keys as there are
 * threads go through shared memory; each thread then sums a column of V, in one chain in the order
 * of the keys.
 */
#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/launch.cuh"

namespace attention_naive
{

using namespace attention;

constexpr unsigned THREADS = ATTENTION_WIDTH_MAX; /* a column of O each */

static __device__ __forceinline__ float larger(float a, float b)
{
    return b > a ? b : a;
}

static __device__ __forceinline__ float sum_of(float a, float b)
{
    return a + b;
}

/* Combines the values of all threads in a fixed order and returns the result to every thread. */
template <float combine(float, float)>
static __device__ __forceinline__ float combined(float value, float *values)
{
    __syncthreads(); /* all threads have read the values of the call before */
    values[threadIdx.x] = value;
#pragma unroll 1
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            values[threadIdx.x] = combine(values[threadIdx.x], values[threadIdx.x + half]);
    }
    __syncthreads();
    return values[0];
}

/* One row of Q, the keys that it sees, and what is added to their scores. */
template <typename T> struct row {
    const struct attention_problem &p;
    const float *q; // [d], in shared memory
    const T *k, *v; // of its head
    struct attention_span span;
    bool has_bias;
    struct bias_row<T> bias;
    const float *sink; // NULL: none

    __device__ __forceinline__ bool hides(uint64_t key) const
    {
        return has_bias && bias.at(key) == -CUDART_INF_F;
    }

    __device__ __forceinline__ float score(uint64_t key) const
    {
        const T *line = k + key * p.k_strides.row;
        float product = 0;
        for (unsigned c = 0; c < p.d; c++)
            product = fmaf(q[c], widen(line[c]), product);
        const float score = score_of(product, p.scale, p.softcap);
        return has_bias ? biased_score(score, bias.at(key)) : score;
    }

    /* Whether the row sees a key that the bias does not hide. */
    __device__ __forceinline__ bool sees(float *values) const
    {
        float any = 0;
        for (uint64_t key = span.first + threadIdx.x; key < span.end; key += THREADS)
            any = hides(key) ? any : 1;
        return combined<larger>(any, values) != 0;
    }

    __device__ __forceinline__ float largest(float *values) const
    {
        float most = -CUDART_INF_F;
        for (uint64_t key = span.first + threadIdx.x; key < span.end; key += THREADS)
            most = larger(most, score(key));
        most = combined<larger>(most, values);
        return sink != nullptr ? larger(*sink, most) : most;
    }

    __device__ __forceinline__ float total(float most, float *values) const
    {
        float total = 0;
        for (uint64_t key = span.first + threadIdx.x; key < span.end; key += THREADS)
            total += hides(key) ? 0 : expf(score(key) - most);
        total = combined<sum_of>(total, values);
        return sink != nullptr ? total + expf(*sink - most) : total;
    }

    /* This thread's column of O. */
    __device__ __forceinline__ float column(float most, float total, float *weights) const
    {
        float sum = 0;
        for (uint64_t first = span.first; first < span.end; first += THREADS) {
            const unsigned keys =
                span.end - first < THREADS ? (unsigned)(span.end - first) : THREADS;
            __syncthreads(); /* the weights before have been read */
            if (threadIdx.x < keys)
                weights[threadIdx.x] = hides(first + threadIdx.x)
                                           ? hidden_weight()
                                           : expf(score(first + threadIdx.x) - most) / total;
            __syncthreads();
            for (unsigned j = 0; j < keys && threadIdx.x < p.dv; j++)
                if (!is_hidden(weights[j]))
                    sum = fmaf(weights[j], widen(v[(first + j) * p.v_strides.row + threadIdx.x]),
                               sum);
        }
        return sum;
    }
};

template <typename T>
__global__ void __launch_bounds__(THREADS)
    attention_naive_kernel(const __grid_constant__ struct attention_problem p,
                           struct operation_range range)
{
    __shared__ float q[ATTENTION_WIDTH_MAX], values[THREADS];
    const uint64_t end = range.first + range.count;
    for (uint64_t number = range.first + blockIdx.x; number < end; number += gridDim.x) {
        const uint64_t of_all = number % p.sq, head = number / p.sq % p.heads;
        const uint64_t apart = number / p.sq / p.heads, kv_head = head / (p.heads / p.kv_heads);
        const auto first_row = [&](uint64_t entry) { return (uint64_t)p.lens_q[entry]; };
        const uint64_t entry = p.ragged ? ragged_entry(p.batch, of_all, first_row) : apart;
        const struct attention_rows rows = rows_of<true>(p, entry);
        const uint64_t i = of_all - rows.first_q;
        const struct row<T> row = {
            p, q, row_of((const T *)p.k, p.k_strides, apart, kv_head, rows.first_kv),
                row_of((const T *)p.v, p.v_strides, apart, kv_head, rows.first_kv),
                span_of<true>(p, rows, i), p.mask != nullptr || p.slopes != nullptr,
                bias_row<T>(p, rows, entry, head, i),
                p.sinks != nullptr &&i < rows.sq ? p.sinks + head : nullptr
        };
        bool sees = row.span.first < row.span.end;
        if (sees && row.has_bias)
            sees = row.sees(values);
        float sum = 0, lse = row.sink != nullptr ? *row.sink : -CUDART_INF_F;
        __syncthreads(); /* the row before has been read */
        if (sees && threadIdx.x < p.d)
            q[threadIdx.x] =
                widen(row_of((const T *)p.q, p.q_strides, apart, head, of_all)[threadIdx.x]);
        __syncthreads();
        if (sees) {
            const float most = row.largest(values), total = row.total(most, values);
            sum = row.column(most, total, values);
            lse = most + logf(total);
        }
        if (threadIdx.x < p.dv)
            narrow(sum, row_of((T *)p.o, p.o_strides, apart, head, of_all) + threadIdx.x);
        if (threadIdx.x == 0 && p.lse != nullptr)
            p.lse[number] = lse;
    }
}

template <typename T>
static enum gemmd_error attention_naive_run(cudaStream_t stream, const struct attention_problem &p,
                                            struct operation_range rows)
{
    const uint64_t limit = INT32_MAX;
    return launch(attention_naive_kernel<T>,
                  dim3((unsigned)(rows.count < limit ? rows.count : limit)), dim3(THREADS), stream,
                  p, rows);
}

} // namespace attention_naive

enum gemmd_error attention_naive_launch(cudaStream_t stream,
                                        const struct attention_problem *problem,
                                        struct operation_range rows)
{
    using namespace attention_naive;
    switch (problem->dtype) {
    case GEMMD_F32:
        return attention_naive_run<float>(stream, *problem, rows);
    case GEMMD_F16:
        return attention_naive_run<__half>(stream, *problem, rows);
    case GEMMD_BF16:
        return attention_naive_run<__nv_bfloat16>(stream, *problem, rows);
    default:
        return GEMMD_ERR_UNSUPPORTED;
    }
}
