/*
 * reduce_shuffle - the serving kernel of reductions of f32, f16 and bf16, in one launch.
 *
 * Rows (elements that are contiguous): 8, 32 or 256 threads reduce a row, by its length. A thread
 * has VECTORS loads of 128 bits in flight, joins their elements as a tree in registers, and adds
 * the result to a pairwise tree over its loads (state.cuh). Warp shuffles join the threads. With
 * 2048 threads on a multiprocessor, 64 bytes in flight for each are 128 KiB, where the latency of
 * the memory (700 ns) times a multiprocessor's share of 3.35 TB/s needs 18 KiB.
 *
 * Columns (an axis before the last is reduced): a warp reads 32 * COLUMNS neighbouring elements of
 * a row, 8 warps of a block read every eighth row, and each thread keeps COLUMNS trees. Shared
 * memory joins the warps.
 *
 * Long reductions are divided into chunks, each of which a block reduces. The block that ends last
 * joins the states of all chunks, in their order, as a pairwise tree. Chunks, threads and trees
 * depend on the length only, so the bits do not depend on the other rows or columns, or on which
 * block ends last.
 *
 * A launch takes up to PROBLEMS problems of one kind, so that many small problems share one.
 */
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce/chunks.cuh"
#include "kernels/cuda/reduce/reduce.h"
#include "kernels/cuda/reduce/state.cuh"

namespace reduce_shuffle
{

using namespace reduce;
using vectors::vector;

constexpr unsigned THREADS = 256, WARPS = THREADS / 32, VECTORS = 4, PROBLEMS = 24;
constexpr uint64_t ROW_CHUNK = 131072, COLUMN_CHUNK = 512;

struct problems {
    uint32_t count;
    uint32_t first_block[PROBLEMS];
    bool aligned[PROBLEMS]; /* every row begins at a multiple of 16 bytes */
    struct reduce_problem list[PROBLEMS];
    void *partial;     /* states of chunks; one problem only */
    uint32_t *arrived; /* chunks that have ended, for each row or tile; zero at first */
};

/* The problem of this block, and the number of the block in the problem. */
static __device__ __forceinline__ uint32_t problem_of_block(const struct problems &all,
                                                            uint32_t *block)
{
    uint32_t number = all.count - 1;
    while (number > 0 && all.first_block[number] > blockIdx.x)
        number--;
    *block = blockIdx.x - all.first_block[number];
    return number;
}

template <typename State> static __device__ __forceinline__ State shuffled(State s, unsigned mask)
{
    static_assert(sizeof(State) % 4 == 0, "words");
    union words {
        State state;
        uint32_t word[sizeof(State) / 4];
        __device__ words()
        {
        }
    } mine, other;
    mine.state = s;
#pragma unroll
    for (unsigned i = 0; i < sizeof(State) / 4; i++)
        other.word[i] = __shfl_xor_sync(0xffffffffu, mine.word[i], mask);
    return other.state;
}

/* Joins the states of `threads` neighbouring threads (at most 32), in all of them. */
template <typename Op, unsigned LANES>
static __device__ __forceinline__ typename Op::state join_lanes(typename Op::state s)
{
#pragma unroll
    for (unsigned half = LANES / 2; half > 0; half /= 2) {
        const typename Op::state other = shuffled(s, half);
        s = (threadIdx.x & half) == 0 ? Op::both(s, other) : Op::both(other, s);
    }
    return s;
}

/* ---- rows ---- */

/* The state of the elements that a thread loads at once: VECTORS vectors, `stride` elements apart.
 * Elements from `end` on do not count. */
template <typename T, typename Op>
static __device__ __forceinline__ typename Op::state
load_vectors(const T *x, uint64_t l, uint64_t end, unsigned stride, bool aligned, enum reduce_op op)
{
    using V = vector<T>;
    constexpr unsigned W = V::WIDTH;
    V loaded[VECTORS];
#pragma unroll
    for (unsigned v = 0; v < VECTORS; v++) {
        const uint64_t at = l + v * stride;
        if (aligned && at + W <= end)
            loaded[v].bits = __ldcs((const uint4 *)(x + at));
        else
#pragma unroll
            for (unsigned i = 0; i < W; i++)
                loaded[v].elements[i] = at + i < end ? x[at + i] : T(0.0f);
    }
    typename Op::state joined[VECTORS];
#pragma unroll
    for (unsigned v = 0; v < VECTORS; v++) {
        const uint64_t at = l + v * stride;
        joined[v] = Op::none();
        if (at >= end)
            continue;
        float wide[W];
#pragma unroll
        for (unsigned i = 0; i < W; i++)
            wide[i] = loaded[v][i];
        if (at + W > end) {
#pragma unroll
            for (unsigned i = 0; i < W; i++)
                wide[i] = at + i < end ? wide[i] : Op::neutral(op);
        }
        joined[v] = Op::several(wide, (uint32_t)at, op);
    }
#pragma unroll
    for (unsigned half = VECTORS / 2; half > 0; half /= 2)
#pragma unroll
        for (unsigned v = 0; v < half; v++)
            joined[v] = Op::both(joined[v], joined[v + half]);
    return joined[0];
}

/* Joins the states of a block of 256 threads, in thread 0. */
template <typename Op>
static __device__ typename Op::state join_block(typename Op::state s, typename Op::state *shared)
{
    s = join_lanes<Op, 32>(s);
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x < 32)
        s = join_lanes<Op, WARPS>(shared[threadIdx.x % WARPS]);
    return s;
}

template <typename T, template <typename> class Op, unsigned EACH>
__global__ void __launch_bounds__(THREADS)
    reduce_shuffle_rows(const __grid_constant__ struct problems all)
{
    using O = Op<float>;
    using State = typename O::state;
    constexpr unsigned STRIDE = EACH * vector<T>::WIDTH;
    __shared__ State shared[WARPS];
    uint32_t block;
    const uint32_t number = problem_of_block(all, &block);
    const struct reduce_problem &p = all.list[number];
    const uint64_t chunks = EACH < THREADS ? 1 : (p.length + ROW_CHUNK - 1) / ROW_CHUNK;
    const uint64_t task = (uint64_t)block * (THREADS / EACH) + threadIdx.x / EACH;
    const uint64_t row = task / chunks, chunk = task % chunks, rows = p.outer * p.mid;
    const uint64_t end = row >= rows ? 0
                         : (chunk + 1) * ROW_CHUNK < p.length && EACH == THREADS
                             ? (chunk + 1) * ROW_CHUNK
                             : p.length;
    const T *x = (const T *)p.x + row / p.mid * p.outer_stride + row % p.mid * p.mid_stride;
    counter<O, O::exact ? 1 : 6>
        states; /* 64 steps of 256 threads and 16 elements are more than a chunk */
    for (uint64_t l = chunk * ROW_CHUNK; l < end; l += VECTORS * STRIDE)
        states.add(load_vectors<T, O>(x, l + threadIdx.x % EACH * vector<T>::WIDTH, end, STRIDE,
                                      all.aligned[number], p.op));
    State s = states.total();
    if constexpr (EACH <= 32)
        s = join_lanes<O, EACH>(s);
    else
        s = join_block<O>(s, shared);
    if (chunks > 1) {
        State *partial = (State *)all.partial + row * chunks;
        if (threadIdx.x == 0)
            partial[chunk] = s;
        if (!arrives_last(all.arrived + row, (uint32_t)chunks))
            return;
        counter<O, O::exact ? 1 : 10> joined;
        for (uint64_t i = threadIdx.x; i < chunks; i += THREADS)
            joined.add(stored(&partial[i]));
        __syncthreads();
        s = join_block<O>(joined.total(), shared);
    }
    if (threadIdx.x % EACH == 0 && row < rows)
        finish<float>(p, s, p.y, row / p.y_width * p.y_leading + row % p.y_width);
}

/* ---- columns ---- */

template <typename State> struct columns_of {
    static constexpr unsigned COUNT = sizeof(State) > 4 ? 2 : 4;
};

/* Joins the states of the warps of a block, for the columns of each lane, in warp 0. */
template <typename O, unsigned COUNT>
static __device__ void join_warps(typename O::state (&s)[COUNT],
                                  typename O::state (*shared)[32 * COUNT])
{
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    __syncthreads();
#pragma unroll
    for (unsigned c = 0; c < COUNT; c++)
        shared[warp][lane * COUNT + c] = s[c];
    for (unsigned half = WARPS / 2; half > 0; half /= 2) {
        __syncthreads();
#pragma unroll
        for (unsigned c = 0; c < COUNT && warp < half; c++)
            shared[warp][lane * COUNT + c] =
                O::both(shared[warp][lane * COUNT + c], shared[warp + half][lane * COUNT + c]);
    }
    __syncthreads();
#pragma unroll
    for (unsigned c = 0; c < COUNT; c++)
        s[c] = shared[0][lane * COUNT + c];
}

/* The elements of a row in COUNT columns from `column` on; those beyond the width are not read. */
template <typename T, unsigned COUNT>
static __device__ __forceinline__ void load_columns(const T *row, uint64_t column, uint64_t width,
                                                    bool aligned, T (&to)[COUNT])
{
    struct __align__(COUNT * sizeof(T)) group
    {
        T elements[COUNT];
    };
    if (aligned && column + COUNT <= width) {
        const group all = *(const group *)(row + column);
#pragma unroll
        for (unsigned c = 0; c < COUNT; c++)
            to[c] = all.elements[c];
        return;
    }
#pragma unroll
    for (unsigned c = 0; c < COUNT; c++)
        if (column + c < width)
            to[c] = row[column + c];
}

template <typename T, template <typename> class Op>
__global__ void __launch_bounds__(THREADS)
    reduce_shuffle_columns(const __grid_constant__ struct problems all)
{
    using O = Op<float>;
    using State = typename O::state;
    constexpr unsigned COUNT = columns_of<State>::COUNT, TILE = 32 * COUNT, ROWS = 4;
    __shared__ State shared[WARPS][TILE];
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    uint32_t block;
    const uint32_t number = problem_of_block(all, &block);
    const struct reduce_problem &p = all.list[number];
    const uint64_t chunks = (p.length + COLUMN_CHUNK - 1) / COLUMN_CHUNK;
    const uint64_t tiles = (p.width + TILE - 1) / TILE;
    const uint64_t place = block / chunks, chunk = block % chunks;
    const uint64_t tile = place % tiles, row = place / tiles, column = tile * TILE + lane * COUNT;
    const T *x = (const T *)p.x + row / p.mid * p.outer_stride + row % p.mid * p.mid_stride;
    const uint64_t first = chunk * COLUMN_CHUNK,
                   end = first + COLUMN_CHUNK < p.length ? first + COLUMN_CHUNK : p.length;
    counter<O, O::exact ? 1 : 5> states[COUNT]; /* 16 steps of 8 warps and 4 rows are a chunk */
    for (uint64_t l = first + warp; l < end; l += WARPS * ROWS) {
        T loaded[ROWS][COUNT];
#pragma unroll
        for (unsigned r = 0; r < ROWS; r++)
            if (l + r * WARPS < end)
                load_columns<T, COUNT>(x + (l + r * WARPS) * p.length_stride, column, p.width,
                                       all.aligned[number], loaded[r]);
#pragma unroll
        for (unsigned c = 0; c < COUNT; c++) {
            State s[ROWS];
#pragma unroll
            for (unsigned r = 0; r < ROWS; r++)
                s[r] = l + r * WARPS < end
                           ? O::one(widen(loaded[r][c]), (uint32_t)(l + r * WARPS), p.op)
                           : O::none();
            states[c].add(O::both(O::both(s[0], s[1]), O::both(s[2], s[3])));
        }
    }
    State s[COUNT];
#pragma unroll
    for (unsigned c = 0; c < COUNT; c++)
        s[c] = states[c].total();
    join_warps<O, COUNT>(s, shared);
    if (chunks > 1) {
        State *partial = (State *)all.partial + place * chunks * TILE;
        if (warp == 0)
#pragma unroll
            for (unsigned c = 0; c < COUNT; c++)
                partial[chunk * TILE + lane * COUNT + c] = s[c];
        if (!arrives_last(all.arrived + place, (uint32_t)chunks))
            return;
        counter<O, O::exact ? 1 : (sizeof(State) > 4) ? 6 : 10> joined[COUNT];
        for (uint64_t i = warp; i < chunks; i += WARPS)
#pragma unroll
            for (unsigned c = 0; c < COUNT; c++)
                joined[c].add(stored(&partial[i * TILE + lane * COUNT + c]));
#pragma unroll
        for (unsigned c = 0; c < COUNT; c++)
            s[c] = joined[c].total();
        join_warps<O, COUNT>(s, shared);
    }
#pragma unroll
    for (unsigned c = 0; c < COUNT && warp == 0; c++)
        if (column + c < p.width) {
            const uint64_t i = row * p.width + column + c;
            finish<float>(p, s[c], p.y, i / p.y_width * p.y_leading + i % p.y_width);
        }
}

/* ---- launches ---- */

/* What the problems of a launch have in common. */
struct kind {
    enum gemmd_dtype dtype;
    int state;     /* 0: sums, 1: squares, 2: most, 3: logsumexp */
    unsigned each; /* threads for a row; 0: columns */
};

static bool is_row(const struct reduce_problem &p)
{
    return p.length_stride == 1 && p.width == 1;
}

static struct kind kind_of(const struct reduce_problem &p)
{
    const unsigned size = p.dtype == GEMMD_F32 ? 4 : 2;
    const uint64_t bytes = p.length * size;
    const int state = p.op <= REDUCE_MEAN        ? 0
                      : p.op == REDUCE_NORM2     ? 1
                      : p.op == REDUCE_LOGSUMEXP ? 3
                                                 : 2;
    return {p.dtype, state, !is_row(p) ? 0 : bytes <= 1024 ? 8u : bytes <= 8192 ? 32u : THREADS};
}

static bool same_kind(const struct kind &a, const struct kind &b)
{
    return a.dtype == b.dtype && a.state == b.state && a.each == b.each;
}

static uint64_t tile_of(int state)
{
    return state >= 2 ? 64 : 128;
}

/* Rows or tiles of columns; each has `chunks` blocks, or a part of one. */
static uint64_t places_of(const struct reduce_problem &p, const struct kind &kind)
{
    const uint64_t rows = p.outer * p.mid;
    return kind.each != 0 ? rows
                          : rows * ((p.width + tile_of(kind.state) - 1) / tile_of(kind.state));
}

static uint64_t blocks_of(const struct reduce_problem &p, const struct kind &kind)
{
    const uint64_t places = places_of(p, kind);
    if (kind.each != 0 && kind.each < THREADS)
        return (places + THREADS / kind.each - 1) / (THREADS / kind.each);
    return places * reduce_shuffle_chunks(p.length, kind.each != 0);
}

static bool is_aligned(const struct reduce_problem &p)
{
    const uint64_t size = p.dtype == GEMMD_F32 ? 4 : 2;
    return (uintptr_t)p.x % 16 == 0 && p.outer_stride * size % 16 == 0 &&
           p.mid_stride * size % 16 == 0 && (is_row(p) || p.length_stride * size % 16 == 0);
}

template <typename T, template <typename> class Op>
static enum gemmd_error start(cudaStream_t stream, const struct kind &kind, unsigned blocks,
                              const struct problems &all)
{
    switch (kind.each) {
    case 0:
        return launch(reduce_shuffle_columns<T, Op>, dim3(blocks), dim3(THREADS), stream, all);
    case 8:
        return launch(reduce_shuffle_rows<T, Op, 8>, dim3(blocks), dim3(THREADS), stream, all);
    case 32:
        return launch(reduce_shuffle_rows<T, Op, 32>, dim3(blocks), dim3(THREADS), stream, all);
    default:
        return launch(reduce_shuffle_rows<T, Op, THREADS>, dim3(blocks), dim3(THREADS), stream,
                      all);
    }
}

template <typename T>
static enum gemmd_error start_state(cudaStream_t stream, const struct kind &kind, unsigned blocks,
                                    const struct problems &all)
{
    switch (kind.state) {
    case 0:
        return start<T, sum>(stream, kind, blocks, all);
    case 1:
        return start<T, squares>(stream, kind, blocks, all);
    case 2:
        return start<T, most>(stream, kind, blocks, all);
    default:
        return start<T, logsumexp>(stream, kind, blocks, all);
    }
}

static enum gemmd_error start_kind(cudaStream_t stream, const struct kind &kind, uint64_t blocks,
                                   const struct problems &all)
{
    switch (kind.dtype) {
    case GEMMD_F32:
        return start_state<float>(stream, kind, (unsigned)blocks, all);
    case GEMMD_F16:
        return start_state<__half>(stream, kind, (unsigned)blocks, all);
    case GEMMD_BF16:
        return start_state<__nv_bfloat16>(stream, kind, (unsigned)blocks, all);
    default:
        return GEMMD_ERR_UNSUPPORTED;
    }
}

/* Sets where the chunks of a problem meet, and zeroes the counters. */
static cudaError_t prepare_chunks(cudaStream_t stream, const struct reduce_problem &p,
                                  const struct kind &kind, void *workspace, struct problems *all)
{
    const uint64_t chunks = reduce_shuffle_chunks(p.length, kind.each != 0);
    const uint64_t places = places_of(p, kind);
    if (chunks == 1)
        return cudaSuccess;
    const uint64_t states = places * chunks * (kind.each != 0 ? 1 : tile_of(kind.state));
    all->partial = workspace;
    all->arrived = (uint32_t *)((char *)workspace + states * REDUCE_STATE_BYTES);
    return cudaMemsetAsync(all->arrived, 0, places * sizeof *all->arrived, stream);
}

} // namespace reduce_shuffle

enum gemmd_error reduce_shuffle_launch(cudaStream_t stream, const struct operation_member members[],
                                       uint32_t count)
{
    using namespace reduce_shuffle;
    bool done[OPERATION_GROUP_MAX] = {};
    for (uint32_t i = 0; i < count; i++) {
        if (done[i])
            continue;
        const struct reduce_problem &like = *(const struct reduce_problem *)members[i].problem;
        const struct kind kind = kind_of(like);
        struct problems all = {};
        uint64_t blocks = 0;
        for (uint32_t j = i; j < count && all.count < PROBLEMS; j++) {
            const struct reduce_problem &p = *(const struct reduce_problem *)members[j].problem;
            if (done[j] || !same_kind(kind, kind_of(p)))
                continue;
            done[j] = true;
            all.list[all.count] = p;
            all.aligned[all.count] = is_aligned(p);
            all.first_block[all.count++] = (uint32_t)blocks;
            blocks += blocks_of(p, kind);
        }
        const cudaError_t error = prepare_chunks(stream, like, kind, members[i].workspace, &all);
        enum gemmd_error code = cuda_error_code((int)error);
        if (code == GEMMD_OK)
            code = start_kind(stream, kind, blocks, all);
        if (code != GEMMD_OK)
            return code;
    }
    return GEMMD_OK;
}
