/*
 * flash_mma - attention on the tensor cores of sm_80 and newer: mma.sync of 16x8x16, operands of
 * f16 or bf16, sums in f32.
 *
 * A block of four warps computes TILE_M queries of one head. Q stays in shared memory. Tiles of
 * TILE_N keys of K and V pass through one buffer each, by cp.async: V is copied while K is
 * multiplied, and the next K is copied during the softmax and the product with V. Each warp has 16
 * or 32 rows, whose scores never leave its registers, because a fragment of sums has the layout of
 * a fragment of left operands. Two blocks fit on a multiprocessor, so that the softmax of one
 * overlaps with the products of the other.
 *
 * Rows may have any alignment. Rows that do not start at multiples of 16 bytes are read element by
 * element.
 *
 * General problems (attention_flash_mma_is_general) have kernels of their own. A row starts with
 * its sink as the largest score, whose weight is the total. The tiles of a head are those of its
 * ragged entries, one after another. An entry has a tile more than its rows fill at most, so that
 * the number of its first tile follows from where its rows begin; the last tile may be without
 * rows.
 *
 * After T. Dao, "FlashAttention-2: faster attention with better parallelism and work partitioning"
 * (2023). On an H100 the expected speed is half that of flash_wgmma.
 */
#include "kernels/cuda/attention/flash_mma.h"

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/attention/group.cuh"
#include "kernels/cuda/attention/mma.cuh"
#include "kernels/cuda/launch.cuh"

namespace attention_flash_mma
{

using namespace flash;

template <class Arguments> struct arguments_with {
    Arguments a;
    uint32_t tile_rows;                /* tiles of a head */
    bool q_pieces, k_pieces, v_pieces; /* whether rows start at multiples of 16 bytes */
};

/* The parameters of a launch of plain problems. */
using arguments = arguments_with<attention_arguments>;

/* GENERAL: for general problems. */
template <typename Element_, int WIDTH_, bool GENERAL_> struct config {
    using Element = Element_;
    static constexpr bool GENERAL = GENERAL_;
    using Arguments = std::conditional_t<GENERAL, arguments_with<general_arguments>, arguments>;
    using Lengths = std::conditional_t<GENERAL, general_lengths, lengths>;
    static constexpr int WIDTH = WIDTH_;
    static constexpr int WARPS = 4, THREADS = 32 * WARPS;
    static constexpr int BLOCKS_16 = WIDTH <= 128 ? 2 : 1; /* a warp's, of 16 rows */
    static constexpr int TILE_M = WARPS * BLOCKS_16 * 16, TILE_N = WIDTH <= 128 ? 64 : 32;
    static constexpr uint32_t Q_BYTES = TILE_M * WIDTH * 2, K_BYTES = TILE_N * WIDTH * 2;
    static constexpr uint32_t SHARED_BYTES = Q_BYTES + 2 * K_BYTES;
    /* Whether there is a kernel for groups. At a width of 128 all registers are in use, and none is
     * left for the address of the problem. */
    static constexpr bool GROUPS = WIDTH != 128 && !GENERAL;
};

/* The state of a warp for 16 rows. */
template <class C> struct rows_16 {
    uint32_t row; /* this lane's first; the second is 8 further */
    softmax_row state[2];
    float o[C::WIDTH / 2];
};

/* s = Q * K^T for the warp's rows, from `first_row` of the tile on, and a tile of keys. */
template <class C>
static __device__ __forceinline__ void multiply_keys(const typename C::Arguments &p, uint32_t q,
                                                     uint32_t k, uint32_t first_row,
                                                     float (&s)[C::BLOCKS_16][C::TILE_N / 2])
{
#pragma unroll
    for (int m = 0; m < C::BLOCKS_16; m++)
#pragma unroll
        for (int j = 0; j < C::TILE_N / 2; j++)
            s[m][j] = 0;
#pragma unroll
    for (uint32_t c = 0; c < C::WIDTH; c += 16) {
        if (c >= p.a.d)
            break;
        uint32_t x[C::BLOCKS_16][4];
#pragma unroll
        for (int m = 0; m < C::BLOCKS_16; m++)
            load_left<C::WIDTH>(x[m], q, first_row + 16 * m, c);
#pragma unroll
        for (int j = 0; j < C::TILE_N / 16; j++) {
            uint32_t y[4];
            load_keys<C::WIDTH>(y, k, 16 * j, c);
#pragma unroll
            for (int m = 0; m < C::BLOCKS_16; m++) {
                multiply_add_at<typename C::Element>(s[m], 8 * j, x[m], y[0], y[1]);
                multiply_add_at<typename C::Element>(s[m], 8 * j + 4, x[m], y[2], y[3]);
            }
        }
    }
}

/* rows.o += weights * V for a tile of keys. */
template <class C>
static __device__ __forceinline__ void
multiply_values(const typename C::Arguments &p, uint32_t v,
                const float (&s)[C::BLOCKS_16][C::TILE_N / 2], rows_16<C> (&rows)[C::BLOCKS_16])
{
#pragma unroll
    for (int k = 0; k < C::TILE_N / 16; k++) {
        uint32_t weights[C::BLOCKS_16][4];
#pragma unroll
        for (int m = 0; m < C::BLOCKS_16; m++)
            weights_of<typename C::Element>(s[m], k, weights[m]);
#pragma unroll
        for (uint32_t c = 0; c < C::WIDTH; c += 16) {
            if (c >= p.a.dv)
                break;
            uint32_t y[4];
            load_values<C::WIDTH>(y, v, 16 * k, c);
#pragma unroll
            for (int m = 0; m < C::BLOCKS_16; m++) {
                multiply_add_at<typename C::Element>(rows[m].o, c / 2, weights[m], y[0], y[1]);
                multiply_add_at<typename C::Element>(rows[m].o, c / 2 + 4, weights[m], y[2], y[3]);
            }
        }
    }
}

/* The step of the online softmax: turns the scores of a tile of keys, from `key` on, into weights,
 * and multiplies the sums so far by the factor from the old maximum to the new one. All rows of the
 * warp see the keys in `all`; other keys are masked. */
template <class C>
static __device__ __forceinline__ void
softmax(const typename C::Arguments &p, const typename C::Lengths &n, uint32_t head, int32_t key,
        const span &all, float (&s)[C::TILE_N / 2], rows_16<C> &rows)
{
    if (p.a.general)
        score_all(p.a, s);
    if constexpr (C::GENERAL) {
        if (p.a.slopes != nullptr) {
            const float slope = p.a.slopes[head];
            const int32_t column = key + 2 * (int32_t)(threadIdx.x % 4);
            const int32_t position = (int32_t)rows.row + n.shift;
            add_bias<0>(s, slope, column - position);
            add_bias<1>(s, slope, column - position - 8);
        }
    }
    if (key < all.first || key + C::TILE_N > all.end) {
        const int32_t origin = key + 2 * (int32_t)(threadIdx.x % 4);
        const span keys[2] = {span_of(p.a, n, rows.row), span_of(p.a, n, rows.row + 8)};
        mask<0>(s, keys[0].first - origin, keys[0].end - origin);
        mask<1>(s, keys[1].first - origin, keys[1].end - origin);
    }
    const float factor[2] = {softmax_step<0>(s, rows.state[0], p.a.exponent_of_score),
                             softmax_step<1>(s, rows.state[1], p.a.exponent_of_score)};
#pragma unroll
    for (int j = 0; j < C::WIDTH / 2; j++)
        rows.o[j] *= factor[j / 2 % 2];
}

/* The number of the first tile of entry `entry` of a ragged problem, within a head. */
template <class C>
static __device__ __forceinline__ uint32_t ragged_first_tile(const general_arguments &a,
                                                             uint32_t entry)
{
    return (uint32_t)a.lens_q[entry] / C::TILE_M + entry;
}

/* The lengths of an entry, which are read anew for general problems: the loop over the keys has no
 * registers for them. */
static __device__ __forceinline__ const lengths &lengths_again(const attention_arguments &,
                                                               const lengths &n, uint32_t)
{
    return n;
}
static __device__ __forceinline__ general_lengths lengths_again(const general_arguments &a,
                                                                const general_lengths &,
                                                                uint32_t entry)
{
    asm volatile("" : "+r"(entry)); /* so that the compiler does not keep them */
    return lengths_of(a, entry);
}

/* Computes tile `index` of a problem, counted through all heads of all entries. With a causal mask
 * the tiles of a head that see the most keys come first. Called by a block. */
template <class C>
static __device__ __forceinline__ void compute(const typename C::Arguments &p, uint32_t index)
{
    extern __shared__ __align__(128) char shared[];
    const uint32_t number = index / p.tile_rows, rank = index % p.tile_rows;
    const uint32_t head = number % p.a.heads;
    uint32_t entry = number / p.a.heads, tile = p.a.causal ? p.tile_rows - 1 - rank : rank;
    if constexpr (C::GENERAL) {
        if (p.a.ragged) {
            entry = attention::ragged_entry(
                p.a.batch, tile, [&](uint32_t e) { return ragged_first_tile<C>(p.a, e); });
            tile -= ragged_first_tile<C>(p.a, entry);
        }
    }
    const uint32_t tile_row = tile * C::TILE_M;
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint32_t in_tile = warp * C::BLOCKS_16 * 16;
    const typename C::Lengths n = lengths_of(p.a, entry);

    rows_16<C> rows[C::BLOCKS_16];
#pragma unroll
    for (int m = 0; m < C::BLOCKS_16; m++) {
        rows_16<C> &r = rows[m];
        r.row = tile_row + in_tile + 16 * m + lane / 4;
        r.state[0] = r.state[1] = first_state(p.a, head);
#pragma unroll
        for (int j = 0; j < C::WIDTH / 2; j++)
            r.o[j] = 0;
    }

    /* The keys that any of the block's rows sees, and those that all of the warp's see. */
    span any = {0, 0}, all = {0, 0};
    if (tile_row < n.sq) {
        const uint32_t last = n.sq - 1, first_row = tile_row + in_tile;
        any = {span_of(p.a, n, tile_row).first,
               span_of(p.a, n, min(tile_row + C::TILE_M - 1, last)).end};
        all = {span_of(p.a, n, min(first_row + C::BLOCKS_16 * 16 - 1, last)).first,
               span_of(p.a, n, min(first_row, last)).end};
    }
    if (any.first < any.end) {
        const uint32_t q = ptx_sm80::shared_address(shared), k = q + C::Q_BYTES, v = k + C::K_BYTES;
        const uint32_t kv_head = head / p.a.group, apart = apart_of(p.a, entry);
        const uint32_t row = first_q_of(n) + tile_row, row_kv = first_kv_of(n);
        const uint16_t *from_k = row_at<uint16_t>(p.a.k, p.a.k_steps, apart, kv_head, row_kv);
        const uint16_t *from_v = row_at<uint16_t>(p.a.v, p.a.v_steps, apart, kv_head, row_kv);
        const auto copy_keys = [&](int32_t key) {
            copy_rows<C::WIDTH, C::TILE_N, C::THREADS>(k, from_k + key * p.a.k_steps.row,
                                                       p.a.k_steps.row, p.a.d, any.first - key,
                                                       any.end - key, p.k_pieces, threadIdx.x);
            ptx_sm80::copies_commit();
        };
        copy_rows<C::WIDTH, C::TILE_M, C::THREADS>(
            q, row_at<uint16_t>(p.a.q, p.a.q_steps, apart, head, row), p.a.q_steps.row, p.a.d, 0,
            (int32_t)(n.sq - tile_row), p.q_pieces, threadIdx.x);
        const int32_t first = any.first / C::TILE_N * C::TILE_N;
        int32_t key = (any.end - 1) / C::TILE_N * C::TILE_N;
        copy_keys(key);
#pragma unroll 1
        for (; key >= first; key -= C::TILE_N) {
            float s[C::BLOCKS_16][C::TILE_N / 2];
            ptx_sm80::copies_wait<0>();
            __syncthreads(); /* K is there, and nobody reads V any more */
            copy_rows<C::WIDTH, C::TILE_N, C::THREADS>(v, from_v + key * p.a.v_steps.row,
                                                       p.a.v_steps.row, p.a.dv, any.first - key,
                                                       any.end - key, p.v_pieces, threadIdx.x);
            ptx_sm80::copies_commit();
            multiply_keys<C>(p, q, k, in_tile, s);
            __syncthreads(); /* nobody reads K any more */
            if (key > first)
                copy_keys(key - C::TILE_N);
            else
                ptx_sm80::copies_commit();
#pragma unroll
            for (int m = 0; m < C::BLOCKS_16; m++)
                softmax<C>(p, lengths_again(p.a, n, entry), head, key, all, s[m], rows[m]);
            ptx_sm80::copies_wait<1>();
            __syncthreads(); /* V is there */
            multiply_values<C>(p, v, s, rows);
        }
    }
#pragma unroll
    for (int m = 0; m < C::BLOCKS_16; m++) {
        const rows_16<C> &r = rows[m];
        finish<typename C::Element>(p.a, lengths_again(p.a, n, entry), entry, head, r.row, r.state,
                                    r.o);
    }
}

/* Grid: the tiles. */
template <class C>
__global__ void __launch_bounds__(C::THREADS, 2)
    flash_mma_kernel(const __grid_constant__ typename C::Arguments p, uint32_t first)
{
    compute<C>(p, first + blockIdx.x);
}

/* Grid: the tiles of all problems. */
template <class C>
__global__ void __launch_bounds__(C::THREADS, 2)
    flash_mma_group_kernel(const __grid_constant__ attention_group::list<arguments> group)
{
    __shared__ arguments p;
    const uint32_t index = group.fetch<C::THREADS>(blockIdx.x, p);
    compute<C>(p, index);
}

static bool in_pieces(const struct attention_strides &strides, const void *data)
{
    return attention_aligned(&strides, PIECE_ELEMENTS) && (uintptr_t)data % 16 == 0;
}

/* Fills in what only general problems have. */
static void fill_rest(const struct attention_problem &, attention_arguments &)
{
}

static void fill_rest(const struct attention_problem &problem, general_arguments &a)
{
    const uint64_t none = UINT64_C(1) << 40; /* more than the distance of any key */
    a.slopes = problem.slopes;
    a.sinks = problem.sinks;
    a.left = (int64_t)(problem.windowed ? min(problem.window, none) : none);
    a.right = (int64_t)(problem.right_windowed ? min(problem.window_right, none) : none);
    if (problem.causal)
        a.right = 0;
    a.has_offset = problem.has_offset;
    a.offset = (int64_t)problem.offset;
    a.ragged = problem.ragged;
    if (problem.slopes != nullptr && !a.general) {
        const float log2_e = 1.44269504f;
        a.general = 1; /* the slopes are subtracted from scores */
        a.exponent_of_score = log2_e;
    }
}

/* The tiles of a head. */
template <class C> static uint64_t tile_rows_of(const struct attention_problem &p)
{
    return p.ragged ? p.sq / C::TILE_M + p.batch : (p.sq + C::TILE_M - 1) / C::TILE_M;
}

template <class C>
static typename C::Arguments arguments_of(const struct attention_problem &problem)
{
    typename C::Arguments p = {};
    attention_arguments_fill(&problem, &p.a);
    fill_rest(problem, p.a);
    p.tile_rows = (uint32_t)tile_rows_of<C>(problem);
    p.q_pieces = in_pieces(problem.q_strides, problem.q);
    p.k_pieces = in_pieces(problem.k_strides, problem.k);
    p.v_pieces = in_pieces(problem.v_strides, problem.v);
    return p;
}

template <class C> static uint64_t parts_of(const struct attention_problem &p)
{
    return tile_rows_of<C>(p) * attention_entries_apart(&p) * p.heads;
}

template <class C>
static enum gemmd_error run(cudaStream_t stream, const struct attention_problem &problem,
                            struct operation_range tiles)
{
    return launch_with_memory(flash_mma_kernel<C>, dim3((unsigned)tiles.count), dim3(C::THREADS),
                              C::SHARED_BYTES, stream, arguments_of<C>(problem),
                              (uint32_t)tiles.first);
}

template <class C>
static enum gemmd_error run_group(cudaStream_t stream, const struct attention_member members[],
                                  uint32_t count)
{
    if constexpr (!C::GROUPS) {
        enum gemmd_error code = GEMMD_OK;
        for (uint32_t i = 0; i < count && code == GEMMD_OK; i++)
            code = run<C>(stream, *members[i].problem, {0, parts_of<C>(*members[i].problem)});
        return code;
    } else {
        return attention_group::launch_all<arguments>(
            members, count,
            [](const struct attention_member &m) { return parts_of<C>(*m.problem); },
            [](const struct attention_member &m) { return arguments_of<C>(*m.problem); },
            [=](const attention_group::list<arguments> &group) {
                return launch_with_memory(flash_mma_group_kernel<C>, dim3(group.blocks),
                                          dim3(C::THREADS), C::SHARED_BYTES, stream, group);
            });
    }
}

template <class C> static cudaError_t prepare()
{
    cudaError_t error =
        cudaFuncSetAttribute((const void *)flash_mma_kernel<C>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize, (int)C::SHARED_BYTES);
    if constexpr (C::GROUPS)
        if (error == cudaSuccess)
            error = cudaFuncSetAttribute((const void *)flash_mma_group_kernel<C>,
                                         cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         (int)C::SHARED_BYTES);
    return error;
}

/* Calls `act` with the configuration for heads of `width`. */
template <typename Element, bool GENERAL, class Act>
static auto with_config(uint64_t width, const Act &act)
{
    return width <= 64    ? act(config<Element, 64, GENERAL>())
           : width <= 128 ? act(config<Element, 128, GENERAL>())
                          : act(config<Element, 256, GENERAL>());
}

template <typename Element>
static enum gemmd_error launch_alone(cudaStream_t stream, const struct attention_problem &problem,
                                     struct operation_range tiles)
{
    const auto run_with = [&](auto config) {
        return run<decltype(config)>(stream, problem, tiles);
    };
    const uint64_t width = max(problem.d, problem.dv);
    return attention_flash_mma_is_general(&problem) ? with_config<Element, true>(width, run_with)
                                                    : with_config<Element, false>(width, run_with);
}

template <typename Element>
static enum gemmd_error launch_group(cudaStream_t stream, const struct attention_member members[],
                                     uint32_t count)
{
    const struct attention_problem &any = *members[0].problem;
    return with_config<Element, false>(max(any.d, any.dv), [=](auto config) {
        return run_group<decltype(config)>(stream, members, count);
    });
}

template <typename Element> static cudaError_t prepare_type()
{
    cudaError_t error = cudaSuccess;
    const auto prepare_one = [](auto config) { return prepare<decltype(config)>(); };
    for (const uint64_t width : {64, 128, 256}) {
        if (error == cudaSuccess)
            error = with_config<Element, false>(width, prepare_one);
        if (error == cudaSuccess)
            error = with_config<Element, true>(width, prepare_one);
    }
    return error;
}

} // namespace attention_flash_mma

enum gemmd_error attention_flash_mma_prepare(void)
{
    cudaError_t error = attention_flash_mma::prepare_type<__half>();
    if (error == cudaSuccess)
        error = attention_flash_mma::prepare_type<__nv_bfloat16>();
    return cuda_error_code((int)error);
}

enum gemmd_error attention_flash_mma_launch(cudaStream_t stream,
                                            const struct attention_problem *problem,
                                            struct operation_range tiles)
{
    using namespace attention_flash_mma;
    return problem->dtype == GEMMD_F16 ? launch_alone<__half>(stream, *problem, tiles)
                                       : launch_alone<__nv_bfloat16>(stream, *problem, tiles);
}

uint64_t attention_flash_mma_tiles(const struct attention_problem *problem)
{
    using namespace attention_flash_mma;
    return with_config<__half, false>(max(problem->d, problem->dv), [&](auto config) {
        return parts_of<decltype(config)>(*problem);
    });
}

void attention_flash_mma_tile(const struct attention_problem *problem, uint32_t *queries,
                              uint32_t *keys)
{
    using namespace attention_flash_mma;
    with_config<__half, false>(max(problem->d, problem->dv), [&](auto config) {
        *queries = decltype(config)::TILE_M;
        *keys = decltype(config)::TILE_N;
    });
}

enum gemmd_error attention_flash_mma_launch_group(cudaStream_t stream,
                                                  const struct attention_member members[],
                                                  uint32_t count)
{
    using namespace attention_flash_mma;
    return members[0].problem->dtype == GEMMD_F16
               ? launch_group<__half>(stream, members, count)
               : launch_group<__nv_bfloat16>(stream, members, count);
}
