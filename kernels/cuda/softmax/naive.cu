/*
 * softmax_naive - one thread for each row, which computes in f64 and reads the row three times: for
 * the maximum, for the sum, and for the result.
 */
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/softmax/rows.cuh"
#include "kernels/cuda/softmax/softmax.h"

namespace softmax_naive
{

using namespace softmax;

static __device__ __forceinline__ void put(double value, double *y)
{
    *y = value;
}
template <typename Out> static __device__ __forceinline__ void put(double value, Out *y)
{
    narrow((float)value, y);
}

template <typename T, typename Out>
__global__ void softmax_naive_kernel(const __grid_constant__ struct softmax_problem p)
{
    const uint64_t r = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
    if (r >= p.rows)
        return;
    const T *x = (const T *)p.x + r * p.x_leading;
    Out *y = (Out *)p.y + r * p.y_leading;
    const uint32_t length = length_of(p, r);
    const scaling<double> scale(p.scale);
    double top = -CUDART_INF, sum = 0, lost = 0;
    for (uint32_t i = 0; i < length; i++)
        top = fmax(top, widen(x[i]) * scale.unit);
    for (uint32_t i = 0; i < length; i++) {
        /* W. Kahan, "Further remarks on reducing truncation errors" (1965): the error of the sum
         * does not grow with the length of the row. */
        const double term = exp(scale.relative(widen(x[i]), top)) - lost, next = sum + term;
        lost = (next - sum) - term;
        sum = next;
    }
    for (uint32_t i = 0; i < length; i++) {
        const double difference = scale.relative(widen(x[i]), top);
        put(p.log ? difference - log(sum) : exp(difference) / sum, y + i);
    }
    for (uint64_t i = length; i < p.length; i++)
        put(p.log ? -CUDART_INF : 0.0, y + i);
}

template <typename T, typename Out>
static enum gemmd_error run(cudaStream_t stream, const struct softmax_problem &p)
{
    return launch(softmax_naive_kernel<T, Out>, dim3(grid_blocks_x(p.rows, 64)), dim3(64), stream,
                  p);
}

} // namespace softmax_naive

enum gemmd_error softmax_naive_launch(cudaStream_t stream, const struct softmax_problem *problem)
{
    using namespace softmax_naive;
    const struct softmax_problem &p = *problem;
    switch (p.dtype) {
    case GEMMD_F64:
        return run<double, double>(stream, p);
    case GEMMD_F32:
        return run<float, float>(stream, p);
    case GEMMD_F16:
        return p.out == GEMMD_F32 ? run<__half, float>(stream, p) : run<__half, __half>(stream, p);
    case GEMMD_BF16:
        return p.out == GEMMD_F32 ? run<__nv_bfloat16, float>(stream, p)
                                  : run<__nv_bfloat16, __nv_bfloat16>(stream, p);
    default:
        return GEMMD_ERR_UNSUPPORTED;
    }
}
