/*
 * group.cuh - the attentions of a group as the parameters of one launch.
 *
 * The blocks of a launch (tiles, KV splits or rows) are numbered through all problems; the blocks
 * of problem i start at first[i]. A block finds its problem and calls the same function as the
 * kernel for one problem, so the result of a request does not depend on the other members of its
 * group. The parameters lie in constant memory, which needs neither a copy nor an allocation.
 */
#ifndef KERNELS_CUDA_ATTENTION_GROUP_CUH
#define KERNELS_CUDA_ATTENTION_GROUP_CUH

#include <stdint.h>

#include "kernels/cuda/attention/group.h"
#include "kernels/cuda/launch.cuh"

namespace attention_group
{

/* The parameters of a launch: up to MOST problems. */
template <class Problem_> struct list {
    using Problem = Problem_;
    static constexpr uint32_t MOST =
        (ATTENTION_GROUP_PARAMETER_BYTES - 16) / (sizeof(Problem) + sizeof(uint32_t));

    uint32_t count, blocks;
    uint32_t first[MOST];
    Problem problems[MOST];

    /* Copies the problem that a block belongs to into shared memory, so that no register is needed
     * for the address of the problem. Called by all THREADS threads of a block. Returns the number
     * of the block within its problem. */
    template <unsigned THREADS>
    __device__ __forceinline__ uint32_t fetch(uint32_t block, Problem &problem) const
    {
        static_assert(sizeof(Problem) % sizeof(uint32_t) == 0, "whole words");
        const uint32_t i = find(block);
        const uint32_t *from = reinterpret_cast<const uint32_t *>(&problems[i]);
        uint32_t *to = reinterpret_cast<uint32_t *>(&problem);
        for (unsigned word = threadIdx.x; word < sizeof(Problem) / sizeof(uint32_t);
             word += THREADS)
            to[word] = from[word];
        __syncthreads();
        return block - first[i];
    }

    /* The number of the problem that a block belongs to. */
    __device__ __forceinline__ uint32_t find(uint32_t block) const
    {
        uint32_t low = 0, high = count;
        while (high - low > 1) {
            const uint32_t middle = (low + high) / 2;
            if (first[middle] <= block)
                low = middle;
            else
                high = middle;
        }
        return low;
    }
};

/* Calls `launch` with one list of problems after another until all members have been in a list.
 * `blocks` returns the number of blocks of a member, and `fill` the member as a Problem. */
template <class Problem, class Blocks, class Fill, class Launch>
static enum gemmd_error launch_all(const struct attention_member members[], uint32_t count,
                                   const Blocks &blocks, const Fill &fill, const Launch &launch)
{
    static_assert(sizeof(list<Problem>) <= ATTENTION_GROUP_PARAMETER_BYTES,
                  "a launch's parameters");
    list<Problem> group;
    group.count = group.blocks = 0;
    enum gemmd_error code = GEMMD_OK;
    for (uint32_t i = 0; i < count && code == GEMMD_OK; i++) {
        const uint64_t more = blocks(members[i]);
        if (group.count == list<Problem>::MOST ||
            (group.count > 0 && more > (uint64_t)INT32_MAX - group.blocks)) {
            code = launch(group);
            group.count = group.blocks = 0;
        }
        group.first[group.count] = group.blocks;
        group.problems[group.count++] = fill(members[i]);
        group.blocks += (uint32_t)more;
    }
    return code == GEMMD_OK ? launch(group) : code;
}

} // namespace attention_group

#endif
