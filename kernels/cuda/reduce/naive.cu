/*
 * reduce_naive - one thread for each result, which reads its elements one after the other. Sums are
 * computed in f64, or in 64-bit integers: one after the other, or as a pairwise tree if the
 * elements themselves are of f64. Neighbouring threads read neighbouring elements only if an axis
 * before the last is reduced. If the last axis is reduced, each thread reads a row of its own, and
 * most of the bytes that the memory delivers are not used.
 */
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce/reduce.h"
#include "kernels/cuda/reduce/state.cuh"

namespace reduce_naive
{

using namespace reduce;

template <typename W> struct wider {
    using type = double;
};
template <> struct wider<long long> {
    using type = long long;
};

template <typename T, template <typename> class Op>
__global__ void reduce_naive_kernel(const __grid_constant__ struct reduce_problem p)
{
    using W = typename wider<typename wide_of<T>::type>::type;
    const uint64_t results = p.outer * p.mid * p.width;
    const uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
    if (i >= results)
        return;
    const uint64_t column = i % p.width, row = i / p.width;
    const T *x =
        (const T *)p.x + row / p.mid * p.outer_stride + row % p.mid * p.mid_stride + column;
    /* A chain of f64 is exact enough for sums of narrower types; for those of f64 it is not. */
    counter<Op<W>, sizeof(T) == sizeof(double) && !Op<W>::exact ? 32 : 1> states;
    for (uint64_t l = 0; l < p.length; l++)
        states.add(Op<W>::one((W)widen(x[l * p.length_stride]), (uint32_t)l, p.op));
    finish<W>(p, states.total(), p.y, i / p.y_width * p.y_leading + i % p.y_width);
}

template <typename T, template <typename> class Op>
static enum gemmd_error run(cudaStream_t stream, const struct reduce_problem &p)
{
    return launch(reduce_naive_kernel<T, Op>, dim3(grid_blocks_x(p.outer * p.mid * p.width, 128)),
                  dim3(128), stream, p);
}

} // namespace reduce_naive

enum gemmd_error reduce_naive_launch(cudaStream_t stream, const struct reduce_problem *problem)
{
    using namespace reduce_naive;
    const struct reduce_problem &p = *problem;
    return reduce::with_type(p.dtype, [&](auto zero) {
        using T = decltype(zero);
        switch (p.op) {
        case REDUCE_SUM:
        case REDUCE_MEAN:
            return run<T, reduce::sum>(stream, p);
        case REDUCE_MAX:
        case REDUCE_MIN:
        case REDUCE_ARGMAX:
            return run<T, reduce::most>(stream, p);
        default:
            if constexpr (sizeof(typename reduce::wide_of<T>::type) == sizeof(long long) &&
                          sizeof(T) != sizeof(double))
                return GEMMD_ERR_UNSUPPORTED; /* of integers */
            else if (p.op == REDUCE_NORM2)
                return run<T, reduce::squares>(stream, p);
            else
                return run<T, reduce::logsumexp>(stream, p);
        }
    });
}
