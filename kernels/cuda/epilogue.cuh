/*
 * epilogue.cuh - the epilogue of every CUDA kernel: c = act(alpha*sum + beta*c0 + bias), computed
 * in the type of the sum (in f32 where sums of i32 become f32) and rounded once. The formulas are
 * the same as in kernels/cpu/cpu_epilogue.c.
 */
#ifndef KERNELS_CUDA_EPILOGUE_CUH
#define KERNELS_CUDA_EPILOGUE_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>
#include <type_traits>

#include "kernels/gemm.h"

/* The type that an element of C is computed in. i32 is unsigned, since it wraps. */
template <typename Out> struct compute_type {
    using type = float;
};
template <> struct compute_type<double> {
    using type = double;
};
template <> struct compute_type<int32_t> {
    using type = uint32_t;
};

static __device__ __forceinline__ double widen(double x)
{
    return x;
}

static __device__ __forceinline__ float widen(float x)
{
    return x;
}

static __device__ __forceinline__ float widen(__half x)
{
    return __half2float(x);
}

static __device__ __forceinline__ float widen(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

static __device__ __forceinline__ uint32_t widen(int32_t x)
{
    return (uint32_t)x;
}

static __device__ __forceinline__ void narrow(double x, double *to)
{
    *to = x;
}

static __device__ __forceinline__ void narrow(float x, float *to)
{
    *to = x;
}

static __device__ __forceinline__ void narrow(float x, __half *to)
{
    *to = __float2half_rn(x);
}

static __device__ __forceinline__ void narrow(float x, __nv_bfloat16 *to)
{
    *to = __float2bfloat16_rn(x);
}

static __device__ __forceinline__ void narrow(uint32_t x, int32_t *to)
{
    *to = (int32_t)x;
}

/* The smooth activations are x times a weight in [0, 1] that falls to 0 at the left, so that
 * the limit at minus infinity is 0, and nothing cancels. */

static __device__ __forceinline__ float weigh(float x, float weight)
{
    return weight == 0 ? copysignf(0, x) : x * weight;
}

static __device__ __forceinline__ double weigh(double x, double weight)
{
    return weight == 0 ? copysign(0.0, x) : x * weight;
}

static __device__ __forceinline__ float sigmoid(float x)
{
    const float e = expf(-fabsf(x)); /* never overflows */
    return (x < 0 ? e : 1) / (1 + e);
}

static __device__ __forceinline__ double sigmoid(double x)
{
    const double e = exp(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}

static __device__ __forceinline__ float half_erfc(float x)
{
    return 0.5f * erfcf(x);
}

static __device__ __forceinline__ double half_erfc(double x)
{
    return 0.5 * erfc(x);
}

static_assert(GEMM_ACT_COUNT == 5, "activate() has a case for each activation");
template <typename Real> static __device__ __forceinline__ Real activate(enum gemm_act act, Real x)
{
    const Real sqrt_half = (Real)0.70710678118654752440;
    const Real sqrt_8_over_pi = (Real)1.59576912160573071176;
    const Real cubic = (Real)0.044715; /* of the tanh approximation */
    switch (act) {
    case GEMM_ACT_RELU:
        return x < 0 ? 0 : x; /* NaN stays */
    case GEMM_ACT_GELU:
        return weigh(x, half_erfc(-x * sqrt_half));
    case GEMM_ACT_GELU_TANH: /* (1 + tanh(y)) / 2 = sigmoid(2 y) */
        return weigh(x, sigmoid(sqrt_8_over_pi * (x + cubic * x * x * x)));
    case GEMM_ACT_SILU:
        return weigh(x, sigmoid(x));
    default:
        return x;
    }
}

template <> __device__ __forceinline__ uint32_t activate<uint32_t>(enum gemm_act act, uint32_t x)
{
    return act == GEMM_ACT_RELU && x >> 31 != 0 ? 0 : x;
}

/* The parameters of an epilogue for results of type Out, and its computation. `index` is the
 * problem in the batch. */
template <typename Out> struct epilogue {
    using compute = typename compute_type<Out>::type;

    compute alpha, beta;
    enum gemm_act act;
    const Out *bias; // [n] or NULL
    const Out *c0;   // [batch, m, n] or NULL
    Out *c;          // [batch, m, n]
    uint64_t ldc0, ldc, stride_c0, stride_c;

    explicit epilogue(const struct gemm_problem &p)
        : alpha(scalar(p.alpha)), beta(scalar(p.beta)), act(p.act), bias((const Out *)p.bias),
          c0(p.beta != 0 ? (const Out *)p.c0 : nullptr), c((Out *)p.c), ldc0(p.ldc0), ldc(p.ldc),
          stride_c0(p.stride_c0), stride_c(p.stride_c)
    {
    }

    /* For one product, with parameters that are known on the device. c0_rows is NULL if beta is 0.
     */
    __device__ epilogue(double alpha_value, double beta_value, enum gemm_act activation,
                        const void *bias_row, const void *c0_rows, void *c_rows, uint64_t ld_c0,
                        uint64_t ld_c)
        : alpha(scalar(alpha_value)), beta(scalar(beta_value)), act(activation),
          bias((const Out *)bias_row), c0((const Out *)c0_rows), c((Out *)c_rows), ldc0(ld_c0),
          ldc(ld_c), stride_c0(0), stride_c(0)
    {
    }

    /* The element of C before the activation. c0_value and bias_value are ignored if the problem
     * has no C0 or no bias. */
    __device__ __forceinline__ compute before_act(compute sum, compute c0_value,
                                                  compute bias_value) const
    {
        compute x = alpha * sum;
        if (c0 != nullptr)
            x += beta * c0_value;
        if (bias != nullptr)
            x += bias_value;
        return x;
    }

    /* Computes an element of C from its sum, and stores it. */
    __device__ __forceinline__ void store(uint64_t index, uint64_t row, uint64_t column,
                                          compute sum) const
    {
        const compute c0_value =
            c0 != nullptr ? widen(c0[index * stride_c0 + row * ldc0 + column]) : 0;
        const compute bias_value = bias != nullptr ? widen(bias[column]) : 0;
        narrow(activate<compute>(act, before_act(sum, c0_value, bias_value)),
               &c[index * stride_c + row * ldc + column]);
    }

  private:
    static __host__ __device__ compute
    scalar(double value) /* unsigned from a negative number: by way of int64 */
    {
        if constexpr (std::is_integral<compute>::value)
            return (compute)(int64_t)value;
        else
            return (compute)value;
    }
};

#endif
