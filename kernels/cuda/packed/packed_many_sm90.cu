/*
 * packed on Hopper for many rows: one block on a multiprocessor computes tiles of 128 rows and 128
 * columns, one after another. A warp copies op(A) by TMA, and weights, scales and zero points by
 * bulk copies, to a ring of stages of 128 steps of k. Two warpgroups multiply, each for 64 of the
 * columns and apart from the other, so that one adds or stores its sums while the tensor cores
 * multiply for the other. While they multiply a stage, the warpgroup unpacks the weights of the
 * next.
 *
 * The sums have the order of packed.h.
 */
#include "kernels/cuda/packed/packed.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/sm90/ring.cuh"
#include "kernels/cuda/sm90/wgmma.cuh"

namespace packed
{

enum { MANY_ROWS = PACKED_MANY_ROWS, CONSUMERS = 2, GROUP_THREADS = 128 };
enum { CONSUMER_THREADS = CONSUMERS * GROUP_THREADS };
enum { MANY_STAGES = 3 };
enum { GROUPS_MAX = UNIT / 16 };            /* of a unit */
enum { SUMS_PITCH = TILE / CONSUMERS + 4 }; /* floats from row to row of a warpgroup's sums */
enum { SECTION = 16 };                      /* tiles of rows that share the L2 */
enum { PRODUCER_REGISTERS = 40, CONSUMER_REGISTERS = 232 };

/* A stage, and what is behind the ring: the sums of a tile, and barriers. */
template <int BITS> struct many_parts {
    static constexpr unsigned BLOCKS = UNIT * BITS / 256; /* of a warp's columns */
    static constexpr unsigned STRIP = BLOCKS * PACKED_BLOCK_BYTES;
    static constexpr unsigned BOX = MANY_ROWS * LINE; /* 64 steps */
    static constexpr unsigned WEIGHTS = LINES * BOX;
    static constexpr unsigned SCALES = WEIGHTS + TILE / PACKED_COLUMNS * STRIP;
    static constexpr unsigned ZEROS = SCALES + PIECES * TILE * 4;
    static constexpr unsigned STAGE = (ZEROS + PIECES * TILE + 1023) / 1024 * 1024;
    static constexpr unsigned SUMS = MANY_STAGES * STAGE;
    static constexpr unsigned BARRIERS = SUMS + CONSUMERS * MANY_ROWS * SUMS_PITCH * 4;
    static constexpr unsigned SHARED = BARRIERS + 2 * MANY_STAGES * 8;
    static_assert(GROUPS_MAX * TILE * 2 <= PIECES * TILE * 4, "scales of bf16 for each 16 steps");
};

/* The tiles of a product in the order in which blocks take them: SECTION tiles of rows for each
 * tile of columns. */
struct tile_order {
    unsigned rows, columns;

    __device__ __forceinline__ void find(unsigned tile, unsigned *row, unsigned *column) const
    {
        const unsigned first = tile / (SECTION * columns) * SECTION;
        const unsigned in_section = min((unsigned)SECTION, rows - first);
        const unsigned at = tile - first * columns;
        *row = first + at % in_section;
        *column = at / in_section;
    }
};

/* Sizes of what belongs to groups. */
struct group_sizes {
    unsigned in_unit, columns, scale_bytes;
    bool whole; /* one group has all k */

    __device__ __forceinline__ group_sizes(const packed_layout &layout, bool is_short)
    {
        whole = !is_short && layout.group == layout.k;
        in_unit = whole ? 1 : UNIT / (unsigned)layout.group;
        columns = ((unsigned)layout.n + PACKED_COLUMNS - 1) / PACKED_COLUMNS * PACKED_COLUMNS;
        scale_bytes = layout.scale_dtype == GEMMD_F32 ? 4 : 2;
    }
};

/* What a warp copies of a unit to a stage: a thread op(A), eight the weights of 16 columns each,
 * and eight a group's scales and zero points each. */
template <class W> struct unit_copies {
    using S = many_parts<W::BITS>;
    const gemm_problem &p;
    const CUtensorMap *map;
    const group_sizes sizes;
    unsigned blocks, groups; /* along k */

    __device__ __forceinline__ unit_copies(const gemm_problem &problem, const CUtensorMap *rows)
        : p(problem), map(rows), sizes(problem.packed, W::SHORT)
    {
        blocks = ((unsigned)p.packed.k + 256 / W::BITS - 1) / (256 / W::BITS);
        groups = sizes.whole ? 1 : (unsigned)(p.packed.k / p.packed.group);
    }

    __device__ __forceinline__ void start(unsigned row0, unsigned column0, unsigned unit,
                                          uint32_t stage, uint32_t full) const
    {
        const unsigned lane = threadIdx.x % 32, at = lane % 8;
        const unsigned first = sizes.whole ? 0 : unit * sizes.in_unit;
        const unsigned count = min(sizes.in_unit, groups - first);
        const unsigned columns = min((unsigned)TILE, sizes.columns - column0);
        const unsigned strips = columns / PACKED_COLUMNS;
        const unsigned strip_bytes =
            min((unsigned)S::BLOCKS, blocks - unit * S::BLOCKS) * PACKED_BLOCK_BYTES;
        const unsigned scale_bytes = columns * sizes.scale_bytes;
        const bool zeros = W::INTEGER && p.packed.has_zeros;
        if (lane == 0) {
            ptx::mbarrier_arrive_expect(full, LINES * S::BOX + strips * strip_bytes +
                                                  count * (scale_bytes + (zeros ? columns : 0)));
#pragma unroll
            for (unsigned i = 0; i < LINES; i++)
                ptx::tensor_load(stage + i * S::BOX, map, full, (int)(unit * UNIT + i * (LINE / 2)),
                                 (int)row0, 0);
        }
        __syncwarp();
        if (lane / 8 == 1 && at < strips) {
            const uint64_t block =
                (uint64_t)(column0 / PACKED_COLUMNS + at) * blocks + unit * S::BLOCKS;
            ptx::bulk_load(stage + S::WEIGHTS + at * S::STRIP,
                           (const char *)p.b + block * PACKED_BLOCK_BYTES, strip_bytes, full);
        }
        if (lane / 8 == 2 && at < count) {
            const uint64_t value = (uint64_t)(first + at) * sizes.columns + column0;
            ptx::bulk_load(stage + S::SCALES + at * TILE * sizes.scale_bytes,
                           (const char *)p.b + p.packed.scale_offset + value * sizes.scale_bytes,
                           scale_bytes, full);
            if (zeros)
                ptx::bulk_load(stage + S::ZEROS + at * TILE,
                               (const char *)p.b + p.packed.zero_offset + value, columns, full);
        }
    }
};

/* The weights of a unit as left operands of its products, and the scales of its spans. */
template <typename T, class W, int SPAN> struct unit_weights {
    enum { PRODUCTS = UNIT / 16, SPANS = UNIT / SPAN };
    uint32_t a[PRODUCTS][4];
    float scale[SPANS][2];
};

/* What a thread of a consumer reads of a stage. */
template <typename T, class W, int SPAN> struct stage_reads {
    using S = many_parts<W::BITS>;
    static constexpr unsigned IN_BLOCK = 256 / W::BITS / 16; /* products */
    const packed_layout &layout;
    unsigned strip, scales, zeros; /* of the warp, and of the thread's first column */
    unsigned scale_pitch, group_shift, blocks;

    __device__ __forceinline__ explicit stage_reads(const gemm_problem &p) : layout(p.packed)
    {
        const group_sizes sizes(layout, W::SHORT);
        const unsigned warp = threadIdx.x / 32,
                       column = warp * PACKED_COLUMNS + threadIdx.x % 32 / 4;
        strip = S::WEIGHTS + warp * S::STRIP + threadIdx.x % 32 * 16;
        scales = S::SCALES + column * sizes.scale_bytes;
        zeros = S::ZEROS + column;
        scale_pitch = TILE * sizes.scale_bytes;
        group_shift = sizes.whole ? 31 : 31 - __clz((unsigned)layout.group);
        blocks = ((unsigned)layout.k + 256 / W::BITS - 1) / (256 / W::BITS);
    }

    /* A warp reads the places of a block in the order of their addresses, so that no two meet in a
     * bank, and its threads then exchange them. Blocks beyond k are 0. */
    __device__ __forceinline__ void take(uint32_t stage, unsigned unit, group_values<T, W> &values,
                                         unit_weights<T, W, SPAN> &to) const
    {
        const unsigned lane = threadIdx.x % 32, place = lane % 4 * 8 + lane / 4;
        uint32_t words[S::BLOCKS][4];
#pragma unroll
        for (unsigned i = 0; i < S::BLOCKS; i++) {
            load_16(words[i], stage + strip + i * PACKED_BLOCK_BYTES);
#pragma unroll
            for (unsigned j = 0; j < 4; j++)
                words[i][j] =
                    __shfl_sync(~0u, unit * S::BLOCKS + i < blocks ? words[i][j] : 0, place);
        }
#pragma unroll
        for (unsigned i = 0; i < UNIT / 16; i++) {
            const unsigned group = i * 16 >> group_shift;
            if (i % (SPAN / 16) == 0) {
                values.load(layout, stage + scales + group * scale_pitch,
                            stage + zeros + group * TILE);
                to.scale[i / (SPAN / 16)][0] = values.scale[0];
                to.scale[i / (SPAN / 16)][1] = values.scale[1];
            }
            if constexpr (W::SCALED)
                values.load_of_mma(stage + scales + group * scale_pitch, 0);
            unpack(words[i / IN_BLOCK], i % IN_BLOCK, values.of_weights, to.a[i]);
        }
    }
};

using many_sums = sums<MANY_ROWS / ROWS_OF_MMA>;

/* Starts the products of span number `span`. */
template <typename T, class W, int SPAN>
static __device__ __forceinline__ void
multiply_span(uint32_t rows, unsigned span, unit_weights<T, W, SPAN> &weights, many_sums &sums)
{
    constexpr sm90::element E = std::is_same<T, __half>::value ? sm90::F16 : sm90::BF16;
#pragma unroll
    for (unsigned i = 0; i < SPAN / 16; i++)
        sm90::pin(weights.a[span * (SPAN / 16) + i]);
    sm90::wgmma_fence();
#pragma unroll
    for (unsigned i = 0; i < SPAN / 16; i++) {
        const unsigned product = span * (SPAN / 16) + i;
        sm90::wgmma_registers<E, true>(
            sums.part, weights.a[product],
            sm90::tile_descriptor<true, LINE>(rows + product / 4 * many_parts<W::BITS>::BOX) +
                product % 4 * sm90::descriptor_k_step<true>,
            i != 0);
    }
    sm90::wgmma_commit();
}

/* Stores four columns of a row of C. */
template <typename Out>
static __device__ __forceinline__ void store_4(const epilogue<Out> &e, bool wide, uint64_t row,
                                               uint64_t column, uint64_t n, const float4 &of)
{
    const float sum[4] = {of.x, of.y, of.z, of.w};
    if (!wide || column + 4 > n) {
        for (unsigned j = 0; j < 4 && column + j < n; j++)
            e.store(0, row, column + j, sum[j]);
        return;
    }
    struct alignas(4 * sizeof(Out)) four {
        Out of[4];
    } result;
#pragma unroll
    for (unsigned j = 0; j < 4; j++)
        narrow(activate<float>(
                   e.act, e.before_act(sum[j],
                                       e.c0 != nullptr ? widen(e.c0[row * e.ldc0 + column + j]) : 0,
                                       e.bias != nullptr ? widen(e.bias[column + j]) : 0)),
               &result.of[j]);
    *(four *)&e.c[row * e.ldc + column] = result;
}

/* Stores the sums of a warpgroup, whose first column is column0. */
template <typename Out>
static __device__ __forceinline__ void store_sums(const gemm_problem &p, uint64_t row0,
                                                  uint64_t column0, const float *sums)
{
    enum { IN_ROW = TILE / CONSUMERS / 4 };
    const epilogue<Out> e(p.alpha, p.beta, p.act, p.bias, p.beta != 0 ? p.c0 : nullptr, p.c, p.ldc0,
                          p.ldc);
    const bool wide = ((uintptr_t)p.c | p.ldc * sizeof(Out)) % (4 * sizeof(Out)) == 0;
    const unsigned thread = threadIdx.x % GROUP_THREADS, at = thread % IN_ROW * 4;
    if (column0 + at >= p.n)
        return;
    for (unsigned i = thread / IN_ROW; i < MANY_ROWS && row0 + i < p.m; i += GROUP_THREADS / IN_ROW)
        store_4(e, wide, row0 + i, column0 + at, p.n, *(const float4 *)&sums[i * SUMS_PITCH + at]);
}

template <typename T, class W, int SPAN>
__global__ void __launch_bounds__(CONSUMER_THREADS + GROUP_THREADS, 1)
    packed_many_kernel(const __grid_constant__ gemm_problem p,
                       const __grid_constant__ CUtensorMap map, const division division,
                       const tile_order order)
{
    using S = many_parts<W::BITS>;
    extern __shared__ __align__(1024) char memory[];
    const uint32_t shared = ptx::shared_address(memory);
    const uint32_t full = shared + S::BARRIERS, empty = full + MANY_STAGES * 8;
    const unsigned tiles = order.rows * order.columns;

    for (unsigned i = threadIdx.x; i < MANY_STAGES * (S::STAGE - S::SCALES) / 4; i += blockDim.x) {
        const unsigned each = (S::STAGE - S::SCALES) / 4; /* scales that k does not have are 0 */
        ((uint32_t *)(memory + i / each * S::STAGE + S::SCALES))[i % each] = 0;
    }
    if (threadIdx.x == 0) {
        for (unsigned i = 0; i < MANY_STAGES; i++) {
            ptx::mbarrier_init(full + i * 8, 1);
            ptx::mbarrier_init(empty + i * 8, CONSUMER_THREADS / 32);
        }
        ptx::mbarrier_init_fence();
    }
    ptx::fence_async_proxy();
    __syncthreads();

    if (threadIdx.x >= CONSUMER_THREADS) {
        ptx::registers_give<PRODUCER_REGISTERS>();
        if (threadIdx.x % GROUP_THREADS >= 32)
            return;
        const unit_copies<W> copies(p, &map);
        sm90::ring<MANY_STAGES> at(0);
        for (unsigned tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            unsigned row, column;
            order.find(tile, &row, &column);
            for (unsigned unit = 0; unit < division.units; unit++) {
                ptx::mbarrier_wait(empty + at.stage * 8, at.parity ^ 1);
                copies.start(row * MANY_ROWS, column * TILE, unit, shared + at.stage * S::STAGE,
                             full + at.stage * 8);
                at.advance();
            }
        }
        return;
    }

    ptx::registers_take<CONSUMER_REGISTERS>();
    const unsigned lane = threadIdx.x % 32, consumer = threadIdx.x / GROUP_THREADS;
    const stage_reads<T, W, SPAN> reads(p);
    float *const sums_place = (float *)(memory + S::SUMS) + consumer * MANY_ROWS * SUMS_PITCH;
    float *const totals = sums_place + threadIdx.x % GROUP_THREADS;
    sm90::ring<MANY_STAGES> at(0);
    group_values<T, W> values(p.packed);

    for (unsigned tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        unsigned row, column, slice_left = division.each;
        order.find(tile, &row, &column);
        many_sums sums = {};
        bool first_slice = true;
        unit_weights<T, W, SPAN> even, odd;
        ptx::mbarrier_wait(full + at.stage * 8, at.parity);
        reads.take(shared + at.stage * S::STAGE, 0, values, even);

        /* Multiplies a unit, and unpacks the next one. */
        const auto multiply = [&](unsigned unit, unit_weights<T, W, SPAN> &now,
                                  unit_weights<T, W, SPAN> &next) {
            const unsigned stage = at.stage;
            const bool last = unit + 1 == division.units;
            multiply_span(shared + stage * S::STAGE, 0, now, sums);
            at.advance();
            if (!last) {
                ptx::mbarrier_wait(full + at.stage * 8, at.parity);
                reads.take(shared + at.stage * S::STAGE, unit + 1, values, next);
            }
#pragma unroll
            for (unsigned span = 0; span < UNIT / SPAN; span++) {
                if (span > 0)
                    multiply_span(shared + stage * S::STAGE, span, now, sums);
                sm90::wgmma_wait<0>();
                sm90::pin(sums.part);
                if (span + 1 == UNIT / SPAN && lane == 0)
                    ptx::mbarrier_arrive(empty + stage * 8);
                add_scaled(sums, now.scale[span]);
            }
            if (--slice_left > 0 && !last)
                return;
            slice_left = division.each;
#pragma unroll
            for (unsigned i = 0; i < MANY_ROWS / 2; i++) {
                const float total = (first_slice ? 0 : totals[i * GROUP_THREADS]) + sums.slice[i];
                if (!last)
                    totals[i * GROUP_THREADS] = total;
                sums.slice[i] = last ? total : 0;
            }
            first_slice = false;
        };
        for (unsigned unit = 0; unit < division.units; unit += 2) {
            multiply(unit, even, odd);
            if (unit + 1 < division.units)
                multiply(unit + 1, odd, even);
        }
        ptx::barrier_sync(1 + consumer, GROUP_THREADS); /* all have read their totals */
        put_sums<MANY_ROWS / ROWS_OF_MMA, SUMS_PITCH>(
            sums_place + threadIdx.x % GROUP_THREADS / 32 * PACKED_COLUMNS, sums.slice);
        ptx::barrier_sync(1 + consumer, GROUP_THREADS);
        const uint64_t row0 = (uint64_t)row * MANY_ROWS;
        const uint64_t column0 = (uint64_t)column * TILE + consumer * (TILE / CONSUMERS);
        if (p.out == GEMMD_F32)
            store_sums<float>(p, row0, column0, sums_place);
        else
            store_sums<T>(p, row0, column0, sums_place);
        ptx::barrier_sync(1 + consumer, GROUP_THREADS);
    }
}

template <class Kind>
static constexpr auto many_kernel =
    packed_many_kernel<typename Kind::type, typename Kind::weights, Kind::SPAN>;

} // namespace packed

cudaError_t packed_many_prepare(void)
{
    return packed::for_each_kind([](auto kind) {
        return packed::allow_memory(packed::many_kernel<decltype(kind)>,
                                    packed::many_parts<decltype(kind)::weights::BITS>::SHARED);
    });
}

enum gemmd_error packed_many_launch(cudaStream_t stream, const struct gemm_problem *problem,
                                    const CUtensorMap *rows, uint32_t multiprocessors)
{
    using namespace packed;
    const tile_order order = {grid_blocks_x(problem->m, MANY_ROWS),
                              grid_blocks_x(problem->n, TILE)};
    const unsigned tiles = order.rows * order.columns;
    const dim3 grid(tiles < multiprocessors ? tiles : multiprocessors);
    return with_kind(*problem, [&](auto kind) {
        return launch_with_memory(
            many_kernel<decltype(kind)>, grid, dim3(CONSUMER_THREADS + GROUP_THREADS),
            many_parts<decltype(kind)::weights::BITS>::SHARED, stream, *problem, *rows,
            divide(*problem, packed_slices(&problem->packed)), order);
    });
}
