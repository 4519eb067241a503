/*
 * types.cuh - the types of a convolution as template arguments, and the epilogue for one element.
 */
#ifndef KERNELS_CUDA_CONV_TYPES_CUH
#define KERNELS_CUDA_CONV_TYPES_CUH

#include "kernels/conv.h"
#include "kernels/cuda/epilogue.cuh"

namespace conv
{

template <typename I, typename O> struct types {
    using In = I;
    using Out = O;
};

/* Calls launch with types<In, Out> of the problem. */
template <class Launch>
static enum gemmd_error with_types(const struct conv_problem &p, const Launch &launch)
{
    switch (p.dtype) {
    case GEMMD_F32:
        return launch(types<float, float>());
    case GEMMD_F16:
        return launch(types<__half, __half>());
    case GEMMD_BF16:
        return launch(types<__nv_bfloat16, __nv_bfloat16>());
    case GEMMD_I8:
        return p.out == GEMMD_I32 ? launch(types<int8_t, int32_t>())
                                  : launch(types<int8_t, float>());
    default:
        return GEMMD_ERR_UNSUPPORTED;
    }
}

/* The type in which products are summed. */
template <typename In> struct sum_type {
    using type = float;
};
template <> struct sum_type<int8_t> {
    using type = int32_t;
};
template <typename In> using sum_t = typename sum_type<In>::type;

/* An element in the type of the sum. */
static __device__ __forceinline__ float load(float x)
{
    return x;
}
static __device__ __forceinline__ float load(__half x)
{
    return __half2float(x);
}
static __device__ __forceinline__ float load(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}
static __device__ __forceinline__ int32_t load(int8_t x)
{
    return x;
}

static __device__ __forceinline__ float multiply_add(float a, float b, float sum)
{
    return fmaf(a, b, sum);
}
static __device__ __forceinline__ int32_t multiply_add(int32_t a, int32_t b, int32_t sum)
{
    return (int32_t)((uint32_t)sum + (uint32_t)(a * b)); /* modulo 2^32 */
}

/* The epilogue of an element of Y. */
template <typename Out> struct finish {
    using compute = typename epilogue<Out>::compute;
    epilogue<Out> rest; /* c and its leading dimension are not used */

    explicit finish(const struct conv_problem &p) : rest(as_product(p))
    {
    }

    __device__ __forceinline__ compute bias(uint64_t filter) const
    {
        return rest.bias != nullptr ? widen(rest.bias[filter]) : 0;
    }

    /* `bias`: of the element's filter. ACT: whether there may be an activation. */
    template <bool ACT, typename Sum>
    __device__ __forceinline__ void store_with(Out *to, Sum sum, compute bias) const
    {
        const compute x = rest.before_act((compute)sum, 0, bias);
        narrow(ACT ? activate<compute>(rest.act, x) : x, to);
    }

    template <typename Sum>
    __device__ __forceinline__ void store(Out *to, Sum sum, uint64_t filter) const
    {
        store_with<true>(to, sum, bias(filter));
    }

  private:
    static struct gemm_problem as_product(const struct conv_problem &p)
    {
        struct gemm_problem product = {};
        product.alpha = p.alpha;
        product.act = p.act;
        product.bias = p.bias;
        return product;
    }
};

} // namespace conv

#endif
