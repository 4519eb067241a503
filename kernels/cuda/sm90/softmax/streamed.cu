/*
 * softmax_streamed - the softmax of rows of 16,385 to 131,072 elements of f32, f16 and bf16, each
 * read and written once.
 *
 * A row belongs to a cluster of 4, 8 or 16 blocks, each of which has a slice of at most 8,192
 * elements. The copy engine loads a slice into shared memory, from where the threads take it into
 * their registers. That frees the shared memory, so that the slice of the next row arrives while
 * the threads compute this one. The blocks send their maximum and their sum to one another's shared
 * memory, where a barrier counts the bytes, so that a row costs no barrier of the whole cluster.
 *
 * Clusters go through the rows in steps of their number. A multiprocessor has two blocks (f32) or
 * three, so that one computes while another waits for the exchange of maxima and sums. Their copies
 * of 64 or 48 KiB are more than the latency of the memory takes (reduce/shuffle.cu has the
 * figures); with two or three slices ahead in each block the memory was slower.
 *
 * Slices, threads and the order of sums depend on the length only.
 */
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/sm90/grid.h"
#include "kernels/cuda/softmax/rows.cuh"
#include "kernels/cuda/softmax/softmax.h"

namespace softmax_streamed
{

using namespace softmax;

constexpr unsigned BLOCKS_MAX = 16; /* of a cluster */
static_assert(SOFTMAX_STREAMED_MAX == BLOCKS_MAX * SOFTMAX_STREAMED_SLICE, "the longest row");

/* The numbers of blocks on a multiprocessor are those for which 32 elements a thread have room in
 * the registers. */
template <typename T> struct shape {
    static constexpr unsigned THREADS = 256;
    static constexpr unsigned BLOCKS = sizeof(T) == 4 ? 2 : 3; /* on a multiprocessor */
    static constexpr unsigned WIDTH = vector<T>::WIDTH;
    static constexpr unsigned VECTORS = SOFTMAX_STREAMED_SLICE / THREADS / WIDTH;
    static constexpr uint32_t SLICE_BYTES = SOFTMAX_STREAMED_SLICE * sizeof(T);
    using slice = struct row<T, THREADS, VECTORS>;
};

struct arguments {
    struct softmax_problem problem;
    bool aligned_x, aligned_y; /* every row begins at a multiple of a vector */
};

/* What the blocks of a cluster send to one another. */
struct exchange {
    uint64_t barrier;
    float parts[BLOCKS_MAX]; /* of the blocks, by rank */
};

/* Joins the values of all threads of a cluster, in all of them. `shared` has an element for each
 * warp. `parity` changes with every row. A block sends its value for the next row only after all
 * blocks have sent another value for this row, which they do after their threads have read `parts`;
 * so nothing is overwritten that somebody still needs. */
template <typename Join, unsigned THREADS>
static __device__ __forceinline__ float join_cluster(float value, float none, float *shared,
                                                     struct exchange &exchange, uint32_t parity)
{
    const uint32_t blocks = ptx::cluster_blocks();
    const uint32_t barrier = ptx::shared_address(&exchange.barrier);
    value = join_threads<Join, THREADS>(value, shared);
    if (blocks == 1)
        return value;
    if (threadIdx.x == 0)
        ptx::mbarrier_arrive_expect(barrier, blocks * sizeof value);
    if (threadIdx.x < blocks)
        ptx::cluster_store(ptx::shared_address(&exchange.parts[ptx::cluster_block_rank()]), value,
                           barrier, threadIdx.x);
    ptx::mbarrier_wait(barrier, parity);
    const unsigned block = threadIdx.x % BLOCKS_MAX;
    value = block < blocks ? exchange.parts[block] : none;
#pragma unroll
    for (unsigned half = BLOCKS_MAX / 2; half > 0; half /= 2)
        value = Join::join(value, __shfl_xor_sync(0xffffffffu, value, half));
    return value;
}

/* Starts the copy of this block's part of a row, by one thread; of whole vectors, which elements up
 * to `length` fill. */
template <typename T>
static __device__ __forceinline__ void start_copy(const T *from, uint32_t first, uint32_t length,
                                                  uint32_t copy, uint32_t barrier)
{
    constexpr uint32_t WIDTH = vector<T>::WIDTH;
    const uint32_t bytes = length > first ? (length - first) / WIDTH * 16 : 0;
    ptx::mbarrier_arrive_expect(barrier, bytes);
    if (bytes > 0)
        ptx::bulk_load(copy, from + first, bytes, barrier);
}

/* Takes the elements of a slice from shared memory, and those of a last vector that is not whole
 * from where they are. */
template <typename T>
static __device__ __forceinline__ void take_copy(typename shape<T>::slice &slice, const uint4 *copy,
                                                 const T *from)
{
#pragma unroll
    for (unsigned v = 0; v < shape<T>::VECTORS; v++) {
        const uint32_t at = slice.at(v);
        if (at + shape<T>::WIDTH <= slice.length)
            slice.x[v].bits = copy[v * shape<T>::THREADS + threadIdx.x];
        else
#pragma unroll
            for (unsigned i = 0; i < shape<T>::WIDTH; i++)
                slice.x[v].elements[i] = at + i < slice.length ? from[at + i] : T(0.0f);
    }
}

template <typename T, typename Out>
__global__ void __launch_bounds__(shape<T>::THREADS, shape<T>::BLOCKS)
    softmax_streamed_kernel(const __grid_constant__ struct arguments all)
{
    using S = shape<T>;
    extern __shared__ __align__(128) unsigned char copy[];
    __shared__ uint64_t copied;
    __shared__ struct exchange largest, total;
    __shared__ float shared[S::THREADS / 32];
    const struct softmax_problem &p = all.problem;
    const uint32_t blocks = ptx::cluster_blocks(), clusters = gridDim.x / blocks;
    const float scale = (float)p.scale;
    /* The part of a block: a multiple of 64 elements, and so of vectors. */
    const uint32_t part = ((uint32_t)p.length + blocks * 64 - 1) / (blocks * 64) * 64;
    typename S::slice slice;
    slice.thread = threadIdx.x;
    slice.first = ptx::cluster_block_rank() * part;
    slice.end = min(slice.first + part, (uint32_t)p.length);
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(ptx::shared_address(&copied), 1);
        ptx::mbarrier_init(ptx::shared_address(&largest.barrier), 1);
        ptx::mbarrier_init(ptx::shared_address(&total.barrier), 1);
        ptx::mbarrier_init_fence();
    }
    ptx::cluster_sync();
    earlier_kernels_wait();
    /* By one thread, for a row that may lie beyond the last. */
    const auto start = [&](uint64_t r) {
        if (all.aligned_x && r < p.rows)
            start_copy((const T *)p.x + r * p.x_leading, slice.first,
                       min(length_of(p, r), slice.end), ptx::shared_address(copy),
                       ptx::shared_address(&copied));
    };
    uint64_t r = blockIdx.x / blocks;
    uint32_t parity = 0, length = r < p.rows ? length_of(p, r) : 0;
    if (threadIdx.x == 0)
        start(r);
    for (; r < p.rows; r += clusters) {
        const T *x = (const T *)p.x + r * p.x_leading;
        slice.length = min(length, slice.end);
        if (r + clusters < p.rows)
            length = length_of(p, r + clusters);
        if (all.aligned_x) {
            ptx::mbarrier_wait(ptx::shared_address(&copied), parity);
            take_copy(slice, (const uint4 *)copy, x);
            __syncthreads(); /* all have taken it */
            if (threadIdx.x == 0)
                start(r + clusters);
        } else {
            slice.load(x, false);
        }
        const float top = join_cluster<larger, S::THREADS>(slice.most(scale), -CUDART_INF_F, shared,
                                                           largest, parity);
        Out *y = (Out *)p.y + r * p.y_leading;
        /* The branches share nothing, so that registers hold either X or its exponentials. */
        if (p.log) {
            const float sum = join_cluster<added, S::THREADS>(
                slice.total_of_exponentials(scale, top), 0, shared, total, parity);
            slice.store_log_softmax(y, all.aligned_y, scale, top, sum);
        } else {
            float e[S::VECTORS][S::WIDTH];
            slice.exponentials(scale, top, e);
            const float sum =
                join_cluster<added, S::THREADS>(slice.total(e), 0, shared, total, parity);
            slice.store_softmax(y, all.aligned_y, e, sum);
        }
        parity ^= 1;
    }
    ptx::cluster_sync(); /* nobody sends to a block that has ended */
}

template <typename T, typename Out>
static enum gemmd_error run(cudaStream_t stream, const struct arguments &all)
{
    const struct softmax_problem &p = all.problem;
    const void *const kernel = (const void *)softmax_streamed_kernel<T, Out>;
    struct sm90_grid grid = {kernel, 0, 1, shape<T>::THREADS, shape<T>::SLICE_BYTES};
    while ((uint64_t)grid.cluster * SOFTMAX_STREAMED_SLICE < p.length)
        grid.cluster *= 2;
    cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                             (int)grid.shared_bytes);
    if (error == cudaSuccess) /* more than 8 blocks in a cluster */
        error = cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    if (error != cudaSuccess)
        return cuda_error_code(error);
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = grid.cluster;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(grid.cluster);
    config.blockDim = dim3(shape<T>::THREADS);
    config.dynamicSmemBytes = grid.shared_bytes;
    config.attrs = &attribute;
    config.numAttrs = 1;
    int clusters = 0; /* that run at the same time */
    error = cudaOccupancyMaxActiveClusters(&clusters, kernel, &config);
    if (error != cudaSuccess)
        return cuda_error_code(error);
    if ((uint64_t)clusters > p.rows)
        clusters = (int)p.rows;
    grid.blocks = (uint32_t)clusters * grid.cluster;
    return cuda_error_code(sm90_grid_enqueue(&grid, &all, stream));
}

} // namespace softmax_streamed

enum gemmd_error softmax_streamed_launch(cudaStream_t stream, const struct softmax_problem *problem)
{
    using namespace softmax_streamed;
    const struct softmax_problem &p = *problem;
    const uint64_t in = p.dtype == GEMMD_F32 ? 4 : 2, out = p.out == GEMMD_F32 ? 4 : 2;
    const uint64_t group = 16 / in * out; /* bytes of Y for a vector of X */
    struct arguments all = {};
    all.problem = p;
    all.aligned_x = (uintptr_t)p.x % 16 == 0 && p.x_leading * in % 16 == 0;
    all.aligned_y = (uintptr_t)p.y % group == 0 && p.y_leading * out % group == 0;
    switch (p.dtype) {
    case GEMMD_F32:
        return run<float, float>(stream, all);
    case GEMMD_F16:
        return p.out == GEMMD_F32 ? run<__half, float>(stream, all)
                                  : run<__half, __half>(stream, all);
    case GEMMD_BF16:
        return p.out == GEMMD_F32 ? run<__nv_bfloat16, float>(stream, all)
                                  : run<__nv_bfloat16, __nv_bfloat16>(stream, all);
    default:
        return GEMMD_ERR_UNSUPPORTED;
    }
}
