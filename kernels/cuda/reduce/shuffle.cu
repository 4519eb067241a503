/*
 * reduce_shuffle - the serving kernel of reductions, in one launch.
 *
 * Rows (elements that are contiguous): 4, 8, 32 or 256 threads reduce a row, by its length. A
 * thread has VECTORS loads of 128 bits in flight, joins their elements as a tree in registers, and
 * adds the result to a pairwise tree over its loads (state.cuh). Warp shuffles join the threads.
 * With 2048 threads on a multiprocessor, 64 bytes in flight for each are 128 KiB, where the latency
 * of the memory (700 ns) times a multiprocessor's share of 3.35 TB/s needs 18 KiB. A long row is
 * divided into chunks of ROW_CHUNK_BYTES. Where rows are many, a block reduces the chunks of its
 * row one after another; where they are few, several blocks share a row.
 *
 * Columns (an axis before the last is reduced): a tile is 32 * COUNT neighbouring columns. A warp
 * reads the tile's elements of a row, each of the 8 warps of a block reads every eighth row, and
 * each thread keeps the trees of COUNT columns, which share one counter. The states of the warps
 * are joined in shared memory.
 *
 * Long columns are divided into chunks too, a block for each. The block that ends last joins the
 * states of all chunks of a row or tile, as a pairwise tree. Chunks, threads and trees depend on
 * the length only, so the bits do not depend on the other rows or columns, on how many blocks share
 * a row, or on which block ends last.
 *
 * A launch takes up to PROBLEMS problems of one kind, so that many small problems share one.
 */
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce/reduce.h"
#include "kernels/cuda/reduce/state.cuh"

namespace reduce_shuffle
{

using namespace reduce;
using vectors::vector;

constexpr unsigned THREADS = 256, WARPS = THREADS / 32, VECTORS = 4, PROBLEMS = 24;
constexpr uint64_t ROW_CHUNK_BYTES = 65536, COLUMN_CHUNK = 512;
/* Blocks share rows if there would be fewer blocks than this otherwise: four for each
 * multiprocessor of an H100. */
constexpr uint64_t ENOUGH_BLOCKS = 528;
/* A block that has a row to itself keeps the states of so many chunks at most. */
constexpr uint32_t CHUNKS_KEPT = THREADS;
/* A problem with so many bytes is computed in one launch with others (reduce_is_small). */
constexpr uint64_t SMALL_BYTES = 128 * 1024;

/* The parameters of a launch. */
struct problems {
    uint32_t count;
    uint32_t first_block[PROBLEMS];
    bool aligned[PROBLEMS]; /* rows begin at multiples of what a thread loads at once; rows over
                               which columns are reduced also consist of such multiples */
    struct reduce_problem list[PROBLEMS];
    /* If blocks share a row or a tile of columns, of one problem only: */
    uint32_t chunks_of_block; /* of a row; 0: a block has whole rows */
    void *partial;            /* states of chunks */
    uint32_t *arrived;        /* blocks that have ended, for each row or tile; zero at first */
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

/* Reads a state that another block has stored, from the L2 cache. */
template <typename State> static __device__ __forceinline__ State stored(const State *from)
{
    union words {
        State state;
        uint32_t word[sizeof(State) / 4];
        __device__ words()
        {
        }
    } read;
#pragma unroll
    for (unsigned i = 0; i < sizeof(State) / 4; i++)
        read.word[i] = __ldcg((const uint32_t *)(const void *)from + i);
    return read.state;
}

/* Reads a state as `stored` does if `there`, and returns `otherwise` if not. There is no branch
 * around the load, so that several loads of a thread are issued before the first is used. */
template <typename State>
static __device__ __forceinline__ State stored_if(bool there, const State *from, State otherwise)
{
    union words {
        State state;
        uint32_t word[sizeof(State) / 4];
        __device__ words()
        {
        }
    } read;
    read.state = otherwise;
#pragma unroll
    for (unsigned i = 0; i < sizeof(State) / 4; i++)
        asm volatile("{\n"
                     ".reg .pred is_there;\n"
                     "setp.ne.u32 is_there, %2, 0;\n"
                     "@is_there ld.global.cg.u32 %0, [%1];\n"
                     "}"
                     : "+r"(read.word[i])
                     : "l"((const uint32_t *)(const void *)from + i), "r"((uint32_t)there)
                     : "memory");
    return read.state;
}

/* Called by all threads of a block that has stored the state of its chunk. Returns whether this
 * block is the last one of a row or tile to do so; it then sees the states of all chunks. `arrived`
 * is the counter of the row or tile, zero at first. */
static __device__ bool arrives_last(uint32_t *arrived, uint32_t chunks)
{
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        last = atomicAdd(arrived, 1) == chunks - 1;
    __syncthreads();
    __threadfence();
    return last;
}

/* Joins the states of LANES neighbouring lanes. All of them get the result. */
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

/* The state of the elements that a thread loads at once: VECTORS vectors, `stride` elements apart,
 * from element `l` of X on. Elements from `end` on do not count. `first`: the place of X in its
 * row. */
template <typename T, typename Op>
static __device__ __forceinline__ typename Op::state
load_vectors(const T *x, uint32_t l, uint32_t end, unsigned stride, bool aligned, uint32_t first,
             enum reduce_op op)
{
    using V = vector<T>;
    constexpr unsigned W = V::WIDTH;
    V loaded[VECTORS];
#pragma unroll
    for (unsigned v = 0; v < VECTORS; v++) {
        const uint32_t at = l + v * stride;
        if (aligned && at + W <= end)
            loaded[v].bits = __ldcs((const typename V::line *)(x + at));
        else
#pragma unroll
            for (unsigned i = 0; i < W; i++)
                loaded[v].elements[i] = at + i < end ? x[at + i] : T(0.0f);
    }
    typename Op::state joined[VECTORS];
#pragma unroll
    for (unsigned v = 0; v < VECTORS; v++) {
        const uint32_t at = l + v * stride;
        joined[v] = Op::none();
        if (at >= end)
            continue;
        typename wide_of<T>::type wide[W];
#pragma unroll
        for (unsigned i = 0; i < W; i++)
            wide[i] = loaded[v][i];
        if (at + W > end) {
#pragma unroll
            for (unsigned i = 0; i < W; i++)
                wide[i] = at + i < end ? wide[i] : Op::neutral(op);
        }
        joined[v] = Op::several(wide, first + at, 1, op);
    }
#pragma unroll
    for (unsigned half = VECTORS / 2; half > 0; half /= 2)
#pragma unroll
        for (unsigned v = 0; v < half; v++)
            joined[v] = Op::both(joined[v], joined[v + half]);
    return joined[0];
}

/* Joins the states of all THREADS threads of a block. Only thread 0 gets the result. */
template <typename Op>
static __device__ __forceinline__ typename Op::state join_block(typename Op::state s,
                                                                typename Op::state *shared)
{
    s = join_lanes<Op, 32>(s);
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x < 32)
        s = join_lanes<Op, WARPS>(shared[threadIdx.x % WARPS]);
    return s;
}

/* The state of the elements that a thread reduces, one of EACH neighbouring threads that reduce the
 * first `end` elements of X, at most a chunk. `first`: the place of X in its row. */
template <typename T, typename O, unsigned EACH>
static __device__ __forceinline__ typename O::state
state_of_thread(const T *x, uint32_t end, bool aligned, uint32_t first, enum reduce_op op)
{
    constexpr unsigned STRIDE = EACH * vector<T>::WIDTH;
    counter<O, O::exact ? 1 : 3> states; /* a chunk is four times the loads of 256 threads */
    for (uint32_t l = threadIdx.x % EACH * vector<T>::WIDTH; l < end; l += VECTORS * STRIDE)
        states.add(load_vectors<T, O>(x, l, end, STRIDE, aligned, first, op));
    return states.total();
}

/* The least number of blocks that fit on a multiprocessor, which bounds a thread's registers; 0
 * leaves the number to the compiler. For sm_80 it would leave too few registers for elements of 8
 * and of 64 bits. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
template <typename T> constexpr int ROW_BLOCKS_AT_ONCE = sizeof(T) == 1 || sizeof(T) == 8 ? 2 : 0;
#else
template <typename T> constexpr int ROW_BLOCKS_AT_ONCE = 0;
#endif

/* Rows of one chunk at most, EACH threads for each. */
template <typename T, typename O, unsigned EACH>
__global__ void __launch_bounds__(THREADS, (ROW_BLOCKS_AT_ONCE<T>))
    reduce_shuffle_rows(const __grid_constant__ struct problems all)
{
    __shared__ typename O::state shared[WARPS];
    uint32_t block;
    const uint32_t number = problem_of_block(all, &block);
    const struct reduce_problem &p = all.list[number];
    const uint64_t row = (uint64_t)block * (THREADS / EACH) + threadIdx.x / EACH;
    const uint64_t rows = p.outer * p.mid;
    const T *x = (const T *)p.x + row / p.mid * p.outer_stride + row % p.mid * p.mid_stride;
    typename O::state s = state_of_thread<T, O, EACH>(x, row < rows ? (uint32_t)p.length : 0,
                                                      all.aligned[number], 0, p.op);
    if constexpr (EACH <= 32)
        s = join_lanes<O, EACH>(s);
    else
        s = join_block<O>(s, shared);
    if (threadIdx.x % EACH == 0 && row < rows)
        O::finish(p, s, place_of(p, row));
}

/* Rows of several chunks. A block reduces all chunks of a row, or all.chunks_of_block of them. */
template <typename T, typename O>
__global__ void __launch_bounds__(THREADS, sizeof(T) == 8 ? 2 : 4)
    reduce_shuffle_long_rows(const __grid_constant__ struct problems all)
{
    using State = typename O::state;
    constexpr uint32_t CHUNK = ROW_CHUNK_BYTES / sizeof(T);
    /* Two lists of states of warps, used in turn, so that a chunk needs one barrier only. */
    __shared__ State shared[2][WARPS], kept[CHUNKS_KEPT];
    uint32_t block;
    const uint32_t number = problem_of_block(all, &block);
    const struct reduce_problem &p = all.list[number];
    const uint32_t chunks = (uint32_t)((p.length + CHUNK - 1) / CHUNK);
    const bool is_shared = all.chunks_of_block > 0;
    const uint32_t each = is_shared ? all.chunks_of_block : chunks;
    const uint32_t blocks_of_row = (chunks + each - 1) / each;
    const uint32_t row = block / blocks_of_row, first = block % blocks_of_row * each;
    const uint32_t last = first + each < chunks ? first + each : chunks;
    const T *x = (const T *)p.x + row / p.mid * p.outer_stride + row % p.mid * p.mid_stride;
    State *states = is_shared ? (State *)all.partial + (uint64_t)row * chunks : kept;
    for (uint32_t chunk = first; chunk < last; chunk++) {
        const uint64_t begin = (uint64_t)chunk * CHUNK, left = p.length - begin;
        const State s = join_block<O>(
            state_of_thread<T, O, THREADS>(x + begin, left < CHUNK ? (uint32_t)left : CHUNK,
                                           all.aligned[number], (uint32_t)begin, p.op),
            shared[chunk % 2]);
        if (threadIdx.x == 0)
            states[chunk] = s;
    }
    if (is_shared && !arrives_last(all.arrived + row, blocks_of_row))
        return;
    __syncthreads();
    counter<O, O::exact ? 1 : 10> joined;
    for (uint32_t i = threadIdx.x; i < chunks; i += THREADS)
        joined.add(is_shared ? stored(&states[i]) : kept[i]);
    const State s = join_block<O>(joined.total(), shared[chunks % 2]);
    if (threadIdx.x == 0)
        O::finish(p, s, place_of(p, row));
}

/* ---- columns ---- */

/* COUNT: the columns of a thread, fewer where states take more registers. States of integers need
 * no tree, and so few registers. A thread loads STEPS * ROWS rows of its columns before it uses the
 * first: 16 elements or more, and up to 64 bytes. ALIGNED: see load_columns. */
template <typename T, typename O, bool ALIGNED> struct columns_of {
    static constexpr unsigned STATE_BYTES = sizeof(typename O::state);
    static constexpr unsigned COUNT = std::is_integral<T>::value || STATE_BYTES <= 4 ? 4
                                      : STATE_BYTES <= 8                             ? 2
                                                                                     : 1;
    static constexpr unsigned TILE = 32 * COUNT, ROWS = 4;
    /* of ROWS rows, at once; elements of 8 bits that are loaded one by one take 32 registers */
    static constexpr unsigned STEPS = sizeof(T) >= 4 ? 1 : sizeof(T) == 1 && ALIGNED ? 4 : 2;
};

/* The states of a thread's COUNT columns as one state, so that one counter makes the trees of all.
 */
template <typename O, unsigned COUNT> struct together {
    struct state {
        typename O::state of[COUNT];
    };
    static __device__ __forceinline__ state none()
    {
        state s;
#pragma unroll
        for (unsigned c = 0; c < COUNT; c++)
            s.of[c] = O::none();
        return s;
    }
    static __device__ __forceinline__ state both(const state &a, const state &b)
    {
        state s;
#pragma unroll
        for (unsigned c = 0; c < COUNT; c++)
            s.of[c] = O::both(a.of[c], b.of[c]);
        return s;
    }
};

template <typename T, unsigned COUNT> struct __align__(COUNT * sizeof(T)) group
{
    T elements[COUNT];
};

/* The type by which a group is read in one load of 4, 8 or 16 bytes. */
template <unsigned BYTES> struct words_of {
    using type = uint32_t;
};
template <> struct words_of<8> {
    using type = uint2;
};
template <> struct words_of<16> {
    using type = uint4;
};
template <typename T, unsigned COUNT>
static __device__ __forceinline__ void load_group(const T *x, group<T, COUNT> &to)
{
    using words = typename words_of<sizeof(group<T, COUNT>)>::type;
    const words loaded = __ldcs((const words *)x);
    memcpy(&to, &loaded, sizeof to);
}

/* Loads the elements of LINES rows, every WARPS-th from `row` on, in COUNT columns from `x` on, of
 * which `there` exist. Rows from `end` on are not read. ALIGNED: rows are aligned and consist of
 * whole groups, and the columns are neighbours. Otherwise the columns are 32 apart, so that each
 * load of a warp reads neighbouring elements. There is one condition around all loads. With a
 * condition around each, the compiler would unpack 16-bit elements within it, and so wait for each
 * load before it issues the next. */
template <bool ALIGNED, typename T, unsigned COUNT, unsigned LINES>
static __device__ __forceinline__ void load_columns(const T *x, uint64_t stride, uint32_t row,
                                                    uint32_t end, uint32_t there,
                                                    group<T, COUNT> (&to)[LINES])
{
    const bool every_row = row + (LINES - 1) * WARPS < end;
    if (!ALIGNED && every_row && there == COUNT) {
#pragma unroll
        for (unsigned r = 0; r < LINES; r++)
#pragma unroll
            for (unsigned c = 0; c < COUNT; c++)
                to[r].elements[c] = x[(row + r * WARPS) * stride + c * 32];
    } else if (!ALIGNED) {
#pragma unroll
        for (unsigned r = 0; r < LINES; r++)
#pragma unroll
            for (unsigned c = 0; c < COUNT; c++)
                if (row + r * WARPS < end && c < there)
                    to[r].elements[c] = x[(row + r * WARPS) * stride + c * 32];
    } else if (there > 0 && every_row) {
#pragma unroll
        for (unsigned r = 0; r < LINES; r++)
            load_group(x + (row + r * WARPS) * stride, to[r]);
    } else if (there > 0) {
#pragma unroll
        for (unsigned r = 0; r < LINES; r++)
            if (row + r * WARPS < end)
                load_group(x + (row + r * WARPS) * stride, to[r]);
    }
}

/* Operations that see once for all rows that a thread loads whether squares are in range. */
template <typename O>
constexpr bool sees_range =
    std::is_same<O, scaled_squares>::value || std::is_same<O, joined_squares>::value;

/* The state of the elements of ROWS rows, WARPS rows apart, in each of COUNT columns. Rows from
 * `left` on do not count. */
template <typename O, typename T, unsigned COUNT, unsigned ROWS>
static __device__ __forceinline__ typename together<O, COUNT>::state
state_of_rows(const group<T, COUNT> rows[ROWS], uint32_t left, uint32_t place, enum reduce_op op)
{
    static_assert(ROWS == 4, "two pairs");
    using Together = together<O, COUNT>;
    if constexpr (O::exact) {
        typename Together::state s;
#pragma unroll
        for (unsigned c = 0; c < COUNT; c++) {
            typename wide_of<T>::type wide[ROWS];
#pragma unroll
            for (unsigned r = 0; r < ROWS; r++)
                wide[r] = r * WARPS < left ? widen(rows[r].elements[c]) : O::neutral(op);
            s.of[c] = O::several(wide, place, WARPS, op);
        }
        return s;
    } else if constexpr (sees_range<O>) { /* the order of sums is the same as below */
        typename Together::state s;
#pragma unroll
        for (unsigned c = 0; c < COUNT; c++) {
            typename wide_of<T>::type wide[ROWS];
#pragma unroll
            for (unsigned r = 0; r < ROWS; r++)
                wide[r % 2 * 2 + r / 2] =
                    r * WARPS < left ? widen(rows[r].elements[c]) : O::neutral(op);
            s.of[c] = O::several(wide, place, WARPS, op);
        }
        return s;
    } else {
        typename Together::state s[ROWS];
#pragma unroll
        for (unsigned r = 0; r < ROWS; r++)
#pragma unroll
            for (unsigned c = 0; c < COUNT; c++)
                s[r].of[c] = r * WARPS < left
                                 ? O::one(widen(rows[r].elements[c]), place + r * WARPS, op)
                                 : O::none();
        return Together::both(Together::both(s[0], s[1]), Together::both(s[2], s[3]));
    }
}

/* Joins the states that the warps have stored for each column. The result is in shared[0]. */
template <typename O, unsigned TILE>
static __device__ void join_warps(typename O::state (*shared)[TILE])
{
    for (unsigned half = WARPS / 2; half > 0; half /= 2) {
        __syncthreads();
        for (unsigned i = threadIdx.x; i < half * TILE; i += THREADS)
            shared[i / TILE][i % TILE] =
                O::both(shared[i / TILE][i % TILE], shared[i / TILE + half][i % TILE]);
    }
    __syncthreads();
}

/* Joins the states of a tile's chunks, which are in `partial`. The result is in shared[0]. Each
 * warp takes every WARPS-th chunk, with one column for each lane, and loads AHEAD states before it
 * uses the first. The AHEAD states are joined as the tree that a counter makes of single states;
 * states of no elements take the place of chunks that do not exist. */
template <typename O, unsigned TILE>
static __device__ void join_chunks(const typename O::state *partial, uint32_t chunks,
                                   typename O::state (*shared)[TILE])
{
    using State = typename O::state;
    constexpr unsigned LEVELS = sizeof(State) > 4 ? 4 : 5, AHEAD = 1 << LEVELS;
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll 1
    for (unsigned c = lane; c < TILE; c += 32) {
        counter<O, O::exact ? 1 : 10 - LEVELS> joined;
#pragma unroll 1
        for (uint32_t i = warp; i < chunks; i += AHEAD * WARPS) {
            const State *from = partial + (uint64_t)i * TILE + c;
            State some[AHEAD];
#pragma unroll
            for (unsigned a = 0; a < AHEAD; a++)
                some[a] = stored_if(i + a * WARPS < chunks, from + a * WARPS * TILE, O::none());
#pragma unroll
            for (unsigned width = 1; width < AHEAD; width *= 2)
#pragma unroll
                for (unsigned a = 0; a < AHEAD; a += 2 * width)
                    some[a] = O::both(some[a], some[a + width]);
            joined.add(some[0]);
        }
        shared[warp][c] = joined.total();
    }
    join_warps<O, TILE>(shared);
}

/* Blocks that fit on a multiprocessor, for columns of 16-bit types: if all loads are of groups, and
 * if each element is loaded into a register of its own. More blocks would leave too few registers
 * for a thread; code for sm_80 needs more than code for sm_90. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr int GROUP_BLOCKS = 3, ELEMENT_BLOCKS = 2;
#else
constexpr int GROUP_BLOCKS = 4, ELEMENT_BLOCKS = 3;
#endif

template <typename T, bool ALIGNED>
constexpr int BLOCKS = sizeof(T) == 4   ? 3
                       : sizeof(T) != 2 ? 2
                       : ALIGNED        ? GROUP_BLOCKS
                                        : ELEMENT_BLOCKS;

template <typename T, typename O, bool ALIGNED>
__global__ void __launch_bounds__(THREADS, (BLOCKS<T, ALIGNED>))
    reduce_shuffle_columns(const __grid_constant__ struct problems all)
{
    using State = typename O::state;
    using Columns = columns_of<T, O, ALIGNED>;
    constexpr unsigned COUNT = Columns::COUNT, TILE = Columns::TILE;
    constexpr unsigned ROWS = Columns::ROWS, STEPS = Columns::STEPS, LINES = STEPS * ROWS;
    using Together = together<O, COUNT>;
    __shared__ State shared[WARPS][TILE];
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    uint32_t block;
    const uint32_t number = problem_of_block(all, &block);
    const struct reduce_problem &p = all.list[number];
    /* 32 bits, because there are fewer than 2^31 blocks (reduce_kernels.c). */
    const uint32_t chunks = (uint32_t)((p.length + COLUMN_CHUNK - 1) / COLUMN_CHUNK);
    const uint32_t tiles = (uint32_t)((p.width + TILE - 1) / TILE), mid = (uint32_t)p.mid;
    /* Blocks that run at the same time have neighbouring chunks of one tile, or, where tiles are
     * few, all tiles of some chunks, so that they read whole rows of X. */
    const bool few_tiles = tiles < chunks;
    const uint32_t row = block / tiles / chunks, of_row = block % (tiles * chunks);
    const uint32_t tile = few_tiles ? of_row % tiles : of_row / chunks;
    const uint32_t chunk = few_tiles ? of_row / tiles : of_row % chunks;
    const uint32_t place = row * tiles + tile;
    /* A thread's columns: the first, and the distance from one to the next (load_columns). */
    constexpr unsigned APART = ALIGNED ? 1 : 32;
    const unsigned first_of_lane = lane * (ALIGNED ? COUNT : 1);
    const uint64_t column = (uint64_t)tile * TILE + first_of_lane;
    const uint64_t first = (uint64_t)chunk * COLUMN_CHUNK, left = p.length - first;
    const uint32_t end = (uint32_t)(left < COLUMN_CHUNK ? left : COLUMN_CHUNK); /* of the chunk */
    const uint64_t columns = column < p.width ? (p.width - column + APART - 1) / APART : 0;
    const uint32_t there = columns < COUNT ? (uint32_t)columns : COUNT;
    const T *x = (const T *)p.x + row / mid * p.outer_stride + row % mid * p.mid_stride +
                 first * p.length_stride + column;
    counter<Together, O::exact ? 1 : 5> states; /* 16 steps of 8 warps and 4 rows are a chunk */
    for (uint32_t l = warp; l < end; l += WARPS * LINES) {
        group<T, COUNT> loaded[LINES];
        load_columns<ALIGNED>(x, p.length_stride, l, end, there, loaded);
#pragma unroll
        for (unsigned step = 0; step < STEPS; step++) {
            const uint32_t at = l + step * ROWS * WARPS;
            if (at < end)
                states.add(state_of_rows<O, T, COUNT, ROWS>(loaded + step * ROWS, end - at,
                                                            (uint32_t)first + at, p.op));
        }
    }
    const typename Together::state total = states.total();
#pragma unroll
    for (unsigned c = 0; c < COUNT; c++)
        shared[warp][first_of_lane + c * APART] = total.of[c];
    join_warps<O, TILE>(shared);
    if (chunks > 1) {
        State *partial = (State *)all.partial + (uint64_t)place * chunks * TILE;
        for (unsigned c = threadIdx.x; c < TILE; c += THREADS)
            partial[(uint64_t)chunk * TILE + c] = shared[0][c];
        if (!arrives_last(all.arrived + place, chunks))
            return;
        join_chunks<O, TILE>(partial, chunks, shared);
    }
    const uint64_t first_column = (uint64_t)tile * TILE;
    for (unsigned c = threadIdx.x; c < TILE && first_column + c < p.width; c += THREADS)
        O::finish(p, shared[0][c], place_of(p, row * p.width + first_column + c));
}

/* ---- launches ---- */

/* What the problems of a launch have in common. */
struct kind {
    enum gemmd_dtype dtype;
    enum reduce_op op; /* the first of those that have the same struct (with_operation) */
    unsigned each;     /* threads for a row; 0: columns are reduced */
    bool long_rows;    /* rows have several chunks */
    unsigned bytes;    /* of an element */
    unsigned columns;  /* of a thread */
    unsigned state_bytes;
};

static struct kind kind_of(const struct reduce_problem &p)
{
    struct kind kind = {};
    kind.dtype = p.dtype;
    kind.op = p.op == REDUCE_MEAN                           ? REDUCE_SUM
              : p.op == REDUCE_MIN || p.op == REDUCE_ARGMAX ? REDUCE_MAX
                                                            : p.op;
    with_types(p, [&](auto element, auto operation) {
        using T = decltype(element);
        using O = decltype(operation);
        kind.bytes = sizeof(T);
        kind.columns = columns_of<T, O, true>::COUNT;
        kind.state_bytes = sizeof(typename O::state);
        return GEMMD_OK;
    });
    const uint64_t bytes = p.length * kind.bytes;
    if (p.length_stride == 1 && p.width == 1) {
        kind.each = bytes <= 256 ? 4 : bytes <= 1024 ? 8 : bytes <= 8192 ? 32 : THREADS;
        kind.long_rows = bytes > ROW_CHUNK_BYTES;
    }
    return kind;
}

static bool same_kind(const struct kind &a, const struct kind &b)
{
    return a.dtype == b.dtype && a.op == b.op && a.each == b.each && a.long_rows == b.long_rows;
}

static bool is_aligned(const struct reduce_problem &p, const struct kind &kind)
{
    const uint64_t together = kind.each != 0 ? 16 / kind.bytes : kind.columns;
    return (uintptr_t)p.x % (together * kind.bytes) == 0 && p.outer_stride % together == 0 &&
           p.mid_stride % together == 0 &&
           (kind.each != 0 || (p.length_stride % together == 0 && p.width % together == 0));
}

static bool all_aligned(const struct problems &all)
{
    for (uint32_t i = 0; i < all.count; i++)
        if (!all.aligned[i])
            return false;
    return true;
}

/* The number of rows or of tiles of columns. */
static uint64_t places_of(const struct reduce_problem &p, const struct kind &kind)
{
    const uint64_t rows = p.outer * p.mid, tile = 32 * kind.columns;
    return kind.each != 0 ? rows : rows * ((p.width + tile - 1) / tile);
}

static uint64_t chunks_of(const struct reduce_problem &p, const struct kind &kind)
{
    const uint64_t chunk = kind.each == 0 ? COLUMN_CHUNK : ROW_CHUNK_BYTES / kind.bytes;
    return (p.length + chunk - 1) / chunk;
}

/* The chunks of a long row that each block reduces. Small problems (reduce_is_small) have all
 * chunks of a row in one block, because they have no workspace. */
static uint64_t chunks_of_block(const struct reduce_problem &p, const struct kind &kind)
{
    const uint64_t chunks = chunks_of(p, kind), rows = places_of(p, kind);
    const bool is_small = rows * p.length * kind.bytes <= SMALL_BYTES;
    if (chunks <= CHUNKS_KEPT && (is_small || rows >= ENOUGH_BLOCKS))
        return chunks;
    const uint64_t blocks = rows >= ENOUGH_BLOCKS ? 1 : (ENOUGH_BLOCKS + rows - 1) / rows;
    return chunks <= blocks ? 1 : (chunks + blocks - 1) / blocks;
}

/* Whether blocks share a row or tile, and so need a workspace. */
static bool is_shared(const struct reduce_problem &p, const struct kind &kind)
{
    const uint64_t chunks = chunks_of(p, kind);
    return chunks > 1 &&
           (kind.each == 0 || chunks > CHUNKS_KEPT || chunks_of_block(p, kind) < chunks);
}

static uint64_t blocks_of(const struct reduce_problem &p, const struct kind &kind)
{
    const uint64_t places = places_of(p, kind), chunks = chunks_of(p, kind);
    if (kind.each != 0 && kind.each < THREADS)
        return (places + THREADS / kind.each - 1) / (THREADS / kind.each);
    const uint64_t each = kind.long_rows ? chunks_of_block(p, kind) : 1;
    return places * ((chunks + each - 1) / each);
}

/* The bytes of the states of all chunks. */
static uint64_t state_bytes_of(const struct reduce_problem &p, const struct kind &kind)
{
    const uint64_t states = kind.each != 0 ? 1 : 32 * kind.columns;
    return is_shared(p, kind) ? places_of(p, kind) * chunks_of(p, kind) * states * kind.state_bytes
                              : 0;
}

template <typename T, typename O>
static enum gemmd_error start(cudaStream_t stream, const struct kind &kind, unsigned blocks,
                              const struct problems &all)
{
    const dim3 grid(blocks), block(THREADS);
    switch (kind.each) {
    case 0:
        return all_aligned(all)
                   ? launch(reduce_shuffle_columns<T, O, true>, grid, block, stream, all)
                   : launch(reduce_shuffle_columns<T, O, false>, grid, block, stream, all);
    case 4:
        return launch(reduce_shuffle_rows<T, O, 4>, grid, block, stream, all);
    case 8:
        return launch(reduce_shuffle_rows<T, O, 8>, grid, block, stream, all);
    case 32:
        return launch(reduce_shuffle_rows<T, O, 32>, grid, block, stream, all);
    default:
        return kind.long_rows
                   ? launch(reduce_shuffle_long_rows<T, O>, grid, block, stream, all)
                   : launch(reduce_shuffle_rows<T, O, THREADS>, grid, block, stream, all);
    }
}

/* Sets where the chunks of a problem meet, and zeroes the counters. */
static cudaError_t prepare_chunks(cudaStream_t stream, const struct kind &kind, void *workspace,
                                  struct problems *all)
{
    const struct reduce_problem &p = all->list[0];
    if (!is_shared(p, kind))
        return cudaSuccess;
    all->chunks_of_block = kind.long_rows ? (uint32_t)chunks_of_block(p, kind) : 0;
    all->partial = workspace;
    all->arrived = (uint32_t *)((char *)workspace + state_bytes_of(p, kind));
    return cudaMemsetAsync(all->arrived, 0, places_of(p, kind) * sizeof *all->arrived, stream);
}

} // namespace reduce_shuffle

uint64_t reduce_shuffle_blocks(const struct reduce_problem *problem)
{
    return reduce_shuffle::blocks_of(*problem, reduce_shuffle::kind_of(*problem));
}

uint64_t reduce_shuffle_workspace(const struct reduce_problem *problem)
{
    using namespace reduce_shuffle;
    const struct kind kind = kind_of(*problem);
    const uint64_t states = state_bytes_of(*problem, kind);
    return states == 0 ? 0 : states + places_of(*problem, kind) * sizeof(uint32_t);
}

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
            all.aligned[all.count] = is_aligned(p, kind);
            all.first_block[all.count++] = (uint32_t)blocks;
            blocks += blocks_of(p, kind);
        }
        enum gemmd_error code =
            cuda_error_code((int)prepare_chunks(stream, kind, members[i].workspace, &all));
        if (code == GEMMD_OK)
            code = with_types(like, [&](auto element, auto operation) {
                return start<decltype(element), decltype(operation)>(stream, kind, (unsigned)blocks,
                                                                     all);
            });
        if (code != GEMMD_OK)
            return code;
    }
    return GEMMD_OK;
}
