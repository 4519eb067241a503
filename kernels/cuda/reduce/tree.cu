/*
 * reduce_tree - the textbook reduction: the threads of a block load 2048 elements of a row, and a
 * tree in shared memory joins their states, with half as many threads at each level. The states of
 * the blocks go to device memory, and a second launch joins them, a block for each row. See
 * M. Harris, "Optimizing Parallel Reduction in CUDA" (2007).
 */
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce/reduce.h"
#include "kernels/cuda/reduce/state.cuh"

namespace reduce_tree
{

using namespace reduce;

constexpr unsigned THREADS = 256, EACH = 8;
static_assert(THREADS * EACH == 2048, "reduce_tree_blocks");

/* Joins the states of all threads of a block. Only thread 0 gets the result. */
template <typename Op>
static __device__ typename Op::state join(typename Op::state s, typename Op::state *shared)
{
    shared[threadIdx.x] = s;
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            shared[threadIdx.x] = Op::both(shared[threadIdx.x], shared[threadIdx.x + half]);
    }
    return shared[0];
}

template <typename T, typename O>
__global__ void __launch_bounds__(THREADS)
    reduce_tree_elements(const __grid_constant__ struct reduce_problem p,
                         typename O::state *partial, uint64_t blocks)
{
    __shared__ typename O::state shared[THREADS];
    const uint64_t row = blockIdx.x / blocks, block = blockIdx.x % blocks;
    const T *x = (const T *)p.x + row / p.mid * p.outer_stride + row % p.mid * p.mid_stride;
    typename O::state s = O::none();
    for (unsigned i = 0; i < EACH; i++) {
        const uint64_t l = block * THREADS * EACH + i * THREADS + threadIdx.x;
        if (l < p.length)
            s = O::both(s, O::one(widen(x[l]), (uint32_t)l, p.op));
    }
    s = join<O>(s, shared);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = s;
}

template <typename O>
__global__ void __launch_bounds__(THREADS)
    reduce_tree_blocks_of(const __grid_constant__ struct reduce_problem p,
                          const typename O::state *partial, uint64_t blocks)
{
    __shared__ typename O::state shared[THREADS];
    const uint64_t row = blockIdx.x;
    counter<O, O::exact ? 1 : 20> states;
    for (uint64_t block = threadIdx.x; block < blocks; block += THREADS)
        states.add(partial[row * blocks + block]);
    const typename O::state s = join<O>(states.total(), shared);
    if (threadIdx.x == 0)
        O::finish(p, s, place_of(p, row));
}

template <typename T, typename O>
static enum gemmd_error run(cudaStream_t stream, const struct reduce_problem &p, void *workspace)
{
    using State = typename O::state;
    static_assert(sizeof(State) <= REDUCE_STATE_BYTES, "the workspace has room");
    const uint64_t blocks = reduce_tree_blocks(p.length), rows = p.outer * p.mid;
    const enum gemmd_error code =
        launch(reduce_tree_elements<T, O>, dim3((unsigned)(rows * blocks)), dim3(THREADS), stream,
               p, (State *)workspace, blocks);
    return code != GEMMD_OK ? code
                            : launch(reduce_tree_blocks_of<O>, dim3((unsigned)rows), dim3(THREADS),
                                     stream, p, (const State *)workspace, blocks);
}

} // namespace reduce_tree

enum gemmd_error reduce_tree_launch(cudaStream_t stream, const struct reduce_problem *problem,
                                    void *workspace)
{
    return reduce::with_types(*problem, [&](auto element, auto operation) {
        return reduce_tree::run<decltype(element), decltype(operation)>(stream, *problem,
                                                                        workspace);
    });
}
