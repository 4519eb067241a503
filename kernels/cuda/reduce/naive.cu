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

/* The operation in f64, but for integers. */
template <typename O> struct wider {
    using type = O;
};
template <template <typename> class Op> struct wider<Op<float>> {
    using type = Op<double>;
};

template <typename T, typename O>
__global__ void reduce_naive_kernel(const __grid_constant__ struct reduce_problem p)
{
    const uint64_t results = p.outer * p.mid * p.width;
    const uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
    if (i >= results)
        return;
    const uint64_t column = i % p.width, row = i / p.width;
    const T *x =
        (const T *)p.x + row / p.mid * p.outer_stride + row % p.mid * p.mid_stride + column;
    /* A chain of f64 is exact enough for sums of narrower types; for those of f64 it is not. */
    counter<O, sizeof(T) == sizeof(double) && !O::exact ? 32 : 1> states;
    for (uint64_t l = 0; l < p.length; l++)
        states.add(O::one(widen(x[l * p.length_stride]), (uint32_t)l, p.op));
    O::finish(p, states.total(), place_of(p, i));
}

} // namespace reduce_naive

enum gemmd_error reduce_naive_launch(cudaStream_t stream, const struct reduce_problem *problem)
{
    using namespace reduce_naive;
    const struct reduce_problem &p = *problem;
    return with_types(p, [&](auto element, auto operation) {
        using O = typename wider<decltype(operation)>::type;
        return launch(reduce_naive_kernel<decltype(element), O>,
                      dim3(grid_blocks_x(p.outer * p.mid * p.width, 128)), dim3(128), stream, p);
    });
}
