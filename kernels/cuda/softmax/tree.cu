/*
 * softmax_tree - the textbook softmax: a block for each row finds the maximum, and then the sum of
 * the exponentials, each by a tree in shared memory. A second launch has a thread for each element.
 */
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/softmax/rows.cuh"
#include "kernels/cuda/softmax/softmax.h"

namespace softmax_tree
{

using namespace softmax;

constexpr unsigned THREADS = 256;

/* Joins the values of all threads of a block. All of them get the result. */
template <typename Join> static __device__ float join(float value, float *shared)
{
    __syncthreads();
    shared[threadIdx.x] = value;
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            shared[threadIdx.x] = Join::join(shared[threadIdx.x], shared[threadIdx.x + half]);
    }
    __syncthreads();
    return shared[0];
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    softmax_tree_sums(const __grid_constant__ struct softmax_problem p, float *sums)
{
    __shared__ float shared[THREADS];
    const uint64_t r = blockIdx.x;
    const T *x = (const T *)p.x + r * p.x_leading;
    const uint32_t length = length_of(p, r);
    const scaling<float> scale(p.scale);
    float top = -CUDART_INF_F, sum = 0, lost = 0;
    for (uint32_t i = threadIdx.x; i < length; i += THREADS)
        top = fmaxf(top, widen(x[i]) * scale.unit);
    top = join<larger>(top, shared);
    for (uint32_t i = threadIdx.x; i < length; i += THREADS) { /* compensated, as in `naive` */
        const float term = expf(scale.relative(widen(x[i]), top)) - lost, next = sum + term;
        lost = (next - sum) - term;
        sum = next;
    }
    sum = join<added>(sum, shared);
    if (threadIdx.x == 0) {
        sums[2 * r] = top;
        sums[2 * r + 1] = sum;
    }
}

template <typename T, typename Out>
__global__ void __launch_bounds__(THREADS)
    softmax_tree_elements(const __grid_constant__ struct softmax_problem p, const float *sums,
                          uint64_t blocks)
{
    const uint64_t r = blockIdx.x / blocks, i = blockIdx.x % blocks * THREADS + threadIdx.x;
    if (i >= p.length)
        return;
    Out *y = (Out *)p.y + r * p.y_leading + i;
    if (i >= length_of(p, r)) {
        narrow(p.log ? -CUDART_INF_F : 0, y);
        return;
    }
    const float difference =
        scaling<float>(p.scale).relative(widen(((const T *)p.x)[r * p.x_leading + i]), sums[2 * r]);
    narrow(p.log ? difference - logf(sums[2 * r + 1]) : expf(difference) / sums[2 * r + 1], y);
}

template <typename T, typename Out>
static enum gemmd_error run(cudaStream_t stream, const struct softmax_problem &p, float *sums)
{
    const uint64_t blocks = (p.length + THREADS - 1) / THREADS;
    const enum gemmd_error code =
        launch(softmax_tree_sums<T>, dim3((unsigned)p.rows), dim3(THREADS), stream, p, sums);
    return code != GEMMD_OK
               ? code
               : launch(softmax_tree_elements<T, Out>, dim3((unsigned)(p.rows * blocks)),
                        dim3(THREADS), stream, p, (const float *)sums, blocks);
}

} // namespace softmax_tree

enum gemmd_error softmax_tree_launch(cudaStream_t stream, const struct softmax_problem *problem,
                                     float *workspace)
{
    using namespace softmax_tree;
    const struct softmax_problem &p = *problem;
    switch (p.dtype) {
    case GEMMD_F32:
        return run<float, float>(stream, p, workspace);
    case GEMMD_F16:
        return p.out == GEMMD_F32 ? run<__half, float>(stream, p, workspace)
                                  : run<__half, __half>(stream, p, workspace);
    case GEMMD_BF16:
        return p.out == GEMMD_F32 ? run<__nv_bfloat16, float>(stream, p, workspace)
                                  : run<__nv_bfloat16, __nv_bfloat16>(stream, p, workspace);
    default:
        return GEMMD_ERR_UNSUPPORTED;
    }
}
