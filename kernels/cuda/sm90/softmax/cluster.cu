/*
 * softmax_cluster - rows that are too long for one block, in the registers of a cluster of 2, 4 or
 * 8 blocks, so that each element is read and written once. Read twice, rows of 131,072 f32 of all
 * multiprocessors would not stay in the 50 MB of the L2 cache.
 *
 * Each block finds the maximum of its part and the sum relative to that. The blocks exchange both
 * through distributed shared memory, and each joins all of them in the order of the ranks.
 */
#include <cooperative_groups.h>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/softmax/rows.cuh"
#include "kernels/cuda/softmax/softmax.h"

namespace softmax_cluster
{

using namespace softmax;

constexpr unsigned THREADS = 512, ELEMENTS = 32;

template <typename T, typename Out>
__global__ void __launch_bounds__(THREADS)
    softmax_cluster_kernel(const __grid_constant__ struct softmax_problem p, unsigned blocks,
                           bool aligned_x, bool aligned_y)
{
    __shared__ float shared[THREADS / 32], part[2];
    const cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
    const uint64_t r = blockIdx.x / blocks;
    const float scale = (float)p.scale;
    struct row<T, THREADS, ELEMENTS / vector<T>::WIDTH> row;
    row.thread = threadIdx.x;
    row.first = blockIdx.x % blocks * THREADS * ELEMENTS;
    row.length = length_of(p, r);
    row.end = (uint32_t)p.length;
    row.load((const T *)p.x + r * p.x_leading, aligned_x);
    const float own_top = join_threads<larger, THREADS>(row.most(scale), shared);
    const float own_sum = join_threads<added, THREADS>(row.total(scale, own_top), shared);
    if (threadIdx.x == 0) {
        part[0] = own_top;
        part[1] = own_sum;
    }
    cluster.sync();
    float top = -CUDART_INF_F, sum = 0;
    for (unsigned rank = 0; rank < blocks; rank++)
        top = fmaxf(top, cluster.map_shared_rank(part, rank)[0]);
    for (unsigned rank = 0; rank < blocks; rank++) {
        const float *other = cluster.map_shared_rank(part, rank);
        /* A part of masked elements only has the sum 0. */
        if (other[1] != 0 && !(other[0] == -CUDART_INF_F && top > -CUDART_INF_F))
            sum += other[1] * expf(other[0] - top);
    }
    cluster.sync(); /* the parts have been read */
    row.store((Out *)p.y + r * p.y_leading, aligned_y, p, top, sum);
}

template <typename T, typename Out>
static enum gemmd_error run(cudaStream_t stream, const struct softmax_problem &p)
{
    const uint64_t in = sizeof(T), out = sizeof(Out), group = 16 / in * out;
    const bool aligned_x = (uintptr_t)p.x % 16 == 0 && p.x_leading * in % 16 == 0;
    const bool aligned_y = (uintptr_t)p.y % group == 0 && p.y_leading * out % group == 0;
    unsigned blocks = 2;
    while ((uint64_t)blocks * THREADS * ELEMENTS < p.length)
        blocks *= 2;
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = blocks;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)p.rows * blocks);
    config.blockDim = dim3(THREADS);
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    return cuda_error_code((int)cudaLaunchKernelEx(&config, softmax_cluster_kernel<T, Out>, p,
                                                   blocks, aligned_x, aligned_y));
}

} // namespace softmax_cluster

enum gemmd_error softmax_cluster_launch(cudaStream_t stream, const struct softmax_problem *problem)
{
    using namespace softmax_cluster;
    const struct softmax_problem &p = *problem;
    switch (p.dtype) {
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
