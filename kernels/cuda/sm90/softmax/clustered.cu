/*
 * softmax_clustered - the softmax of rows of more than 32 KiB and up to 512 KiB of f32, f16 and
 * bf16, each read and written once.
 *
 * A row belongs to a cluster of 1 to 8 blocks, as few as hold the row. Each block keeps a part of
 * the row in registers (rows.cuh): at most 32 KiB with 256 threads, or 64 KiB with 512. Half as
 * many blocks of 512 threads are faster, unless more of their registers would stay empty. A block
 * finds the greatest score of its part and the sum of the exponentials relative to that score, and
 * sends both to the other blocks. From the numbers of all blocks each block computes the greatest
 * score and the sum of the row, and then the results, with the exponentials anew: their sum needs
 * f32, and with 16-bit elements the exponentials would take twice the registers of the elements.
 *
 * Clusters end and begin all the time, and one cluster waits for memory while others compute. The
 * speed depends on how many bytes of rows a multiprocessor has in registers: 64 KiB gave 2.4 TB/s,
 * 96 KiB 2.9 TB/s (kernels/experiments/rows.md). 1024 threads hold 128 KiB.
 *
 * Blocks, threads and the order of sums depend on the type and the length only.
 *
 * The exchange. A block stores its two numbers in the shared memory of each other block with
 * st.async, and the barrier there counts their bytes. This is right for these reasons (PTX ISA,
 * "mbarrier" and "st.async"):
 *
 * - No block sends before the barriers of all blocks are initialised: the blocks meet in between.
 *   They arrive early and wait late, so that the loads of the row hide the meeting.
 * - The barrier has a single phase. The phase ends once thread 0 has arrived, which adds the bytes
 *   to expect, and all those bytes have come. Bytes that come before thread 0 arrives make the
 *   count of bytes negative, but cannot end the phase.
 * - Each number has a place of its own, which is written once. st.async releases at the scope of
 *   the cluster when it counts its bytes, and the wait acquires at that scope.
 * - A block sends nothing to itself: it has its own numbers in registers, and older versions of the
 *   PTX ISA leave a st.async to the own block undefined.
 * - Nobody accesses the shared memory of a block that has ended. A block ends after its wait, when
 *   everything that other blocks send to it has come.
 */
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/sm90/grid.h"
#include "kernels/cuda/softmax/rows.cuh"
#include "kernels/cuda/softmax/softmax.h"

namespace softmax_clustered
{

using namespace softmax;

constexpr unsigned BLOCKS_MAX = 8; /* of a cluster: every device allows 8 */
constexpr unsigned VECTORS = 8;    /* of 16 bytes, of a thread */

/* The bytes of a row that a block keeps at most. */
template <unsigned THREADS> constexpr uint32_t PART_BYTES = THREADS *VECTORS * 16;
static_assert(PART_BYTES<256> == SOFTMAX_CLUSTERED_PART_BYTES, "the part of a block");
static_assert(BLOCKS_MAX == SOFTMAX_CLUSTERED_BLOCKS, "the blocks of a row");

/* Whether results are wider than elements, which takes more registers to store them. */
template <typename T, typename Out> constexpr bool WIDENS = sizeof(Out) > sizeof(T);
template <typename T, typename Out, unsigned THREADS> /* blocks on a multiprocessor */
constexpr unsigned RESIDENT = (WIDENS<T, Out> ? 768 : 1024) / THREADS;

/* How the blocks of a cluster wait for one another (PTX ISA: barrier.cluster 9.7.13.4, mbarrier
 * 9.7.13.15). */

/* Initialises a barrier for `arrivals` arrivals a phase, by one thread of each block. Other blocks
 * may use the barrier once they have called wait_for_blocks after arrive. */
static __device__ __forceinline__ void barrier_init(uint32_t barrier, uint32_t arrivals)
{
    ptx::mbarrier_init(barrier, arrivals);
    ptx::mbarrier_init_fence();
}

/* Tells the other blocks that this thread has come here. Orders nothing but the initialisation of
 * barriers. Every thread of the cluster calls arrive and then wait_for_blocks, once each. */
static __device__ __forceinline__ void arrive()
{
    asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}

/* Waits until every thread of the cluster has arrived. */
static __device__ __forceinline__ void wait_for_blocks()
{
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

/* Waits until other blocks of the cluster have completed a phase of a barrier of this block. The
 * calling thread then sees what those blocks stored before (ptx::cluster_store). For a phase that
 * this block completes itself, ptx::mbarrier_wait is enough. */
static __device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity)
{
    uint32_t done = 0;
    for (uint32_t tries = 1; !done; tries++) {
        asm volatile("{\n"
                     ".reg .pred p;\n"
                     "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;\n"
                     "}"
                     : "=r"(done)
                     : "r"(barrier), "r"(parity)
                     : "memory");
        if (tries == ptx::WAIT_TRIES_MAX) /* a fault of the kernel, as in ptx::mbarrier_wait */
            asm volatile("st.global.u32 [%0], %1;" ::"l"(0ull), "r"(tries) : "memory");
    }
}

struct arguments {
    struct softmax_problem problem;
    bool aligned_x, aligned_y; /* every row begins at a multiple of a vector */
    scaling<float> scale;
};

/* The numbers of the blocks of a cluster, by rank. */
struct exchange {
    uint64_t barrier;
    float top[BLOCKS_MAX]; /* the greatest score */
    float sum[BLOCKS_MAX]; /* of the exponentials, relative to that score */
};

/* Computes the greatest score `top`, in units of `factor`, and the sum of the row from those of the
 * parts. `top` and `sum` are those of this block's part, and become those of the row, in all
 * threads. */
static __device__ __forceinline__ void join_cluster(float factor, float &top, float &sum,
                                                    struct exchange &exchange)
{
    const uint32_t blocks = ptx::cluster_blocks(), rank = ptx::cluster_block_rank();
    const uint32_t barrier = ptx::shared_address(&exchange.barrier);
    wait_for_blocks();
    if (threadIdx.x == 0)
        ptx::mbarrier_arrive_expect(barrier, (blocks - 1) * (sizeof top + sizeof sum));
    if (threadIdx.x < blocks && threadIdx.x != rank) {
        ptx::cluster_store(ptx::shared_address(&exchange.top[rank]), top, barrier, threadIdx.x);
        ptx::cluster_store(ptx::shared_address(&exchange.sum[rank]), sum, barrier, threadIdx.x);
    }
    __syncwarp();
    barrier_wait(barrier, 0);
    const unsigned lane = threadIdx.x % BLOCKS_MAX;
    const bool there = lane < blocks, other = there && lane != rank;
    const float part_top = other ? exchange.top[lane] : there ? top : -CUDART_INF_F;
    const float part_sum = other ? exchange.sum[lane] : sum;
    top = part_top;
#pragma unroll
    for (unsigned half = BLOCKS_MAX / 2; half > 0; half /= 2)
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, half));
    sum = there ? part_sum * expf((part_top - top) * factor) : 0;
#pragma unroll
    for (unsigned half = BLOCKS_MAX / 2; half > 0; half /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, half);
}

template <typename T, typename Out, unsigned THREADS>
__global__ void __launch_bounds__(THREADS, (RESIDENT<T, Out, THREADS>))
    softmax_clustered_kernel(const __grid_constant__ struct arguments all)
{
    __shared__ struct exchange exchange;
    __shared__ float shared[THREADS / 32];
    const struct softmax_problem &p = all.problem;
    const uint32_t blocks = ptx::cluster_blocks();
    const uint64_t r = blockIdx.x / blocks;
    const scaling<float> &scale = all.scale;
    if (threadIdx.x == 0)
        barrier_init(ptx::shared_address(&exchange.barrier), 1);
    arrive();
    ptx::earlier_kernels_wait();
    /* The part of a block: a multiple of 64 elements, and so of vectors. */
    const uint32_t part = ((uint32_t)p.length + blocks * 64 - 1) / (blocks * 64) * 64;
    struct row<T, THREADS, VECTORS> row;
    row.first = ptx::cluster_block_rank() * part;
    row.end = min(row.first + part, (uint32_t)p.length);
    row.length = min(length_of(p, r), row.end);
    row.load((const T *)p.x + r * p.x_leading, all.aligned_x);
    const float own = join_threads<larger, THREADS>(row.most(scale.unit), shared);
    /* A part of minus infinity only, or of no elements, adds nothing. If all parts are such, `own -
     * top` is NaN, and so is the row. */
    const float base = own == -CUDART_INF_F ? 0 : own;
    float top = own;
    float sum = join_threads<added, THREADS>(row.total_of_exponentials(scale, base), shared);
    join_cluster(scale.factor, top, sum, exchange);
    Out *y = (Out *)p.y + r * p.y_leading;
    if (p.log)
        row.store_log_softmax(y, all.aligned_y, scale, top, sum);
    else
        row.store_softmax(y, all.aligned_y, scale, top, 1 / sum);
}

template <typename T, typename Out, unsigned THREADS>
static enum gemmd_error run_blocks(cudaStream_t stream, const struct arguments &all)
{
    const struct softmax_problem &p = all.problem;
    const uint32_t bytes = (uint32_t)p.length * sizeof(T);
    const uint32_t blocks = (bytes + PART_BYTES<THREADS> - 1) / PART_BYTES<THREADS>;
    const struct sm90_grid grid = {(const void *)softmax_clustered_kernel<T, Out, THREADS>,
                                   (uint32_t)p.rows * blocks, blocks, THREADS, 0};
    return cuda_error_code(sm90_grid_enqueue(&grid, &all, stream));
}

template <typename T, typename Out>
static enum gemmd_error run(cudaStream_t stream, const struct arguments &all)
{
    const uint32_t bytes = (uint32_t)all.problem.length * sizeof(T);
    const uint32_t parts = (bytes + PART_BYTES<256> - 1) / PART_BYTES<256>;
    if constexpr (!WIDENS<T, Out>) {
        if (parts % 2 == 0 || parts > BLOCKS_MAX)
            return run_blocks<T, Out, 512>(stream, all);
    }
    return run_blocks<T, Out, 256>(stream, all);
}

} // namespace softmax_clustered

enum gemmd_error softmax_clustered_launch(cudaStream_t stream,
                                          const struct softmax_problem *problem)
{
    using namespace softmax_clustered;
    const struct softmax_problem &p = *problem;
    const uint64_t in = p.dtype == GEMMD_F32 ? 4 : 2, out = p.out == GEMMD_F32 ? 4 : 2;
    const uint64_t group = 16 / in * out; /* bytes of Y for a vector of X */
    struct arguments all = {};
    all.problem = p;
    all.scale = scaling<float>(p.scale);
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
