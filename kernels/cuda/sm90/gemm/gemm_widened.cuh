/*
 * gemm_widened.cuh - f8_e4m3 with precision full for few rows: the numbers are widened to f16 in
 * shared memory and on their way into the tensor core's registers.
 *
 * A product of few rows takes as long as reading B. To widen B in memory first would read 1 byte,
 * write 2 and read 2 for each element; here 1 byte is read once.
 *
 * A block computes 64 columns and all rows of C, of which there are up to 64. The copy engine fills
 * a ring of stages of 128 steps of k with the bytes of both operands. Two teams of four warps widen
 * stages of B in turn into a second ring, so that it is the right operand of the tensor core. The
 * left operand is A: each of the four warps of the consumer loads 16 rows, half a stage ahead, and
 * widens them in registers.
 *
 * An instruction multiplies 16 steps of k, whose order within the instruction does not matter to
 * the result. In both operands, steps 4q and 4q + 1 take places 2q and 2q + 1, and steps 4q + 2 and
 * 4q + 3 places 8 + 2q and 9 + 2q. The numbers of a lane then lie in four neighbouring bytes of A.
 *
 * Widening is exact, and the sums have the order and the chains of the f16 kernels of gemm.cuh, and
 * so their bits.
 */
#ifndef KERNELS_CUDA_SM90_GEMM_GEMM_WIDENED_CUH
#define KERNELS_CUDA_SM90_GEMM_GEMM_WIDENED_CUH

#include "kernels/cuda/ptx_sm80.cuh"
#include "kernels/cuda/sm90/gemm/gemm.cuh"
#include "kernels/cuda/sm90/gemm/widen.cuh"

namespace sm90
{

/* A configuration. YK: whether the lines of B run along k. PROMOTED: chains of PROMOTE_K are added
 * in f32, for results of f32. */
template <bool YK_, bool PROMOTED_> struct widened {
    static constexpr int ROWS = 64, COLUMNS = 64; /* of C in a block */
    static constexpr int BLOCKS = 2;              /* blocks that share a multiprocessor */
    static constexpr bool YK = YK_, PROMOTED = PROMOTED_;
    static constexpr uint32_t TEAMS = 2, TEAM_THREADS = 128; /* that widen stages of B in turn */
    /* HALF_STEPS: wgmmas of half a stage. */
    static constexpr uint32_t STAGE_K = 128, HALF_STEPS = 4, CHAIN_STAGES = PROMOTE_K / STAGE_K;
    static constexpr uint32_t Y_BYTES = COLUMNS * STAGE_K, X_BYTES = ROWS * STAGE_K;
    static constexpr uint32_t PIECES = Y_BYTES / 16 / TEAM_THREADS; /* of 16 bytes, of a thread */
    /* The second ring has WIDES places of WIDE_BYTES, for widened B. ROOM is the shared memory of a
     * block. */
    static constexpr uint32_t WIDES = 2, WIDE_BYTES = 2 * Y_BYTES;
    static constexpr uint32_t LINE_BYTES = 128; /* of widened B */
    static constexpr uint32_t BARRIER_BYTES = 512;
    static constexpr uint32_t ROOM = (SHARED_BYTES_MAX + 1024) / BLOCKS - 1024;
    static constexpr uint32_t OTHER_BYTES = 1024 + BARRIER_BYTES + WIDES * WIDE_BYTES;
    static constexpr uint32_t STAGES = (ROOM - OTHER_BYTES) / (Y_BYTES + X_BYTES);
    static constexpr uint32_t SHARED_BYTES = STAGES * (Y_BYTES + X_BYTES) + OTHER_BYTES;
    static constexpr int THREADS = 128 + TEAMS * TEAM_THREADS + 32;
    /* A launch gives each thread 72 registers, which are too few for the consumer. */
    static constexpr uint32_t CONSUMER_REGISTERS = 136, TEAM_REGISTERS = 40;
    /* A team does not wait for every use of a buffer. A wait names only the parity of a use
     * (gemm.cuh), so the team must know that the use before has been reached: a team that begins
     * stage i has waited until the consumer had read stage i - TEAMS - WIDES. */
    static_assert(WIDES >= TEAMS && STAGES >= TEAMS + WIDES, "too few stages fit");
    static_assert(16 * (STAGES + WIDES) <= BARRIER_BYTES, "a full and an empty barrier each");
    static_assert(STAGES * Y_BYTES >= 64 * COLUMNS * 4, "sums are staged there");
};

/* Shared memory: the places of widened B, the stages of A, those of B, and the barriers. */
template <class C> struct widened_memory {
    uint32_t base;

    __device__ __forceinline__ uint32_t wide(uint32_t place) const
    {
        return base + place * C::WIDE_BYTES;
    }
    __device__ __forceinline__ uint32_t x(uint32_t stage) const
    {
        return wide(C::WIDES) + stage * C::X_BYTES;
    }
    __device__ __forceinline__ uint32_t y(uint32_t stage) const
    {
        return x(C::STAGES) + stage * C::Y_BYTES;
    }
    __device__ __forceinline__ uint32_t full(uint32_t stage) const
    {
        return y(C::STAGES) + 8 * stage;
    }
    __device__ __forceinline__ uint32_t empty(uint32_t stage) const
    {
        return full(C::STAGES) + 8 * stage;
    }
    __device__ __forceinline__ uint32_t wide_full(uint32_t place) const
    {
        return empty(C::STAGES) + 8 * place;
    }
    __device__ __forceinline__ uint32_t wide_empty(uint32_t place) const
    {
        return wide_full(C::WIDES) + 8 * place;
    }
};

/* Called by one thread: fills the ring, after a prefetch of the first stages of B. Rows of A that
 * do not exist are left as they are, or zeros, and only affect sums that are not stored. */
template <class C>
__device__ __forceinline__ void copy_in(const sm90_arguments &p, const widened_memory<C> &s,
                                        int32_t column, int32_t batch)
{
    ring<C::STAGES> at(0);
    /* Nothing depends on the prefetch, so B may still be written meanwhile. */
    for (uint32_t i = 0; i * gridDim.x * C::Y_BYTES < p.y_ahead_bytes; i++) {
        const int32_t k = (int32_t)(i * C::STAGE_K);
        ptx::tensor_prefetch(&p.y, C::YK ? k : column, C::YK ? column : k, batch);
    }
    ptx::argument_fetch(p.k_tiles);
    ptx::earlier_kernels_wait();
    for (uint32_t i = 0; i < p.k_tiles; i++) {
        const uint32_t full = s.full(at.stage);
        ptx::mbarrier_wait(s.empty(at.stage), at.parity ^ 1);
        ptx::mbarrier_arrive_expect(full, C::Y_BYTES + p.x_bytes);
        const int32_t k = (int32_t)(i * C::STAGE_K);
        ptx::tensor_load_once(s.y(at.stage), &p.y, full, C::YK ? k : column, C::YK ? column : k,
                              batch);
        ptx::tensor_load(s.x(at.stage), &p.x, full, k, 0, batch);
        at.advance();
    }
}

/* The offset of the first 16 bytes of a team's thread in a stage of B (from), and the offset to
 * which the first 16 of their 32 widened bytes go (to). The other 16 go to the offset with bit 4
 * inverted. The next pieces of the thread follow in steps of FROM_STEP and TO_STEP. Eight
 * neighbouring threads use all banks when they load and when they store. */
template <class C> struct piece_of_thread {
    static constexpr uint32_t FROM_STEP = 16 * C::TEAM_THREADS;
    static constexpr uint32_t TO_STEP = C::YK ? FROM_STEP : 2 * FROM_STEP;
    uint32_t from, to;

    __device__ __forceinline__ explicit piece_of_thread(uint32_t thread)
    {
        const uint32_t of_eight = thread % 8, eight = thread / 8;
        if constexpr (C::YK) { /* lines of 128 bytes along k, swizzled; widened: two halves of k */
            const uint32_t piece = of_eight % 4, half = eight / 4 % 2;
            const uint32_t in_8 = eight % 4 ^ (of_eight / 4 * 5), line = eight / 8 * 8 + in_8;
            from = line * 128 + (((4 * half + piece) ^ in_8) << 4);
            to = half * C::Y_BYTES + line * 128 + ((2 * piece ^ in_8) << 4);
        } else { /* a line is one k */
            const uint32_t piece = thread % 4, k = thread / 4;
            const uint32_t place = k / 16 * 16 + k / 2 % 2 * 8 + k / 4 % 4 * 2 + k % 2;
            from = k * C::COLUMNS + 16 * piece;
            to = place * C::LINE_BYTES + ((2 * piece ^ place % 8) << 4);
        }
    }
};

/* Stores 16 numbers of B as f16, at `to` and at `to` with bit 4 inverted. */
template <class C> __device__ __forceinline__ void store_widened(uint32_t to, const uint4 &v)
{
    const uint32_t words[4] = {v.x, v.y, v.z, v.w};
    uint32_t low[4], high[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        widen_four(words[i], low[i], high[i]);
    }
    if constexpr (C::YK) { /* by their places among 16 steps of k */
        ptx::store_shared_4(to, low[0], low[1], low[2], low[3]);
        ptx::store_shared_4(to ^ 16, high[0], high[1], high[2], high[3]);
    } else {
        ptx::store_shared_4(to, low[0], high[0], low[1], high[1]);
        ptx::store_shared_4(to ^ 16, low[2], high[2], low[3], high[3]);
    }
}

/* Called by all threads of team `team`, which widens stages of B in turn with the other team.
 * `thread`: the number of the thread in its team. */
template <class C>
__device__ __forceinline__ void widen_columns(const sm90_arguments &p, const widened_memory<C> &s,
                                              uint32_t team, uint32_t thread, uint32_t lane)
{
    using piece = piece_of_thread<C>;
    const piece mine(thread);
    ring<C::STAGES> at(team);
    ring<C::WIDES> to(team);
    for (uint32_t i = team; i < p.k_tiles; i += C::TEAMS) {
        uint4 v[C::PIECES];
        ptx::mbarrier_wait(s.full(at.stage), at.parity);
#pragma unroll
        for (uint32_t j = 0; j < C::PIECES; j++) {
            v[j] = ptx::load_shared_4(s.y(at.stage) + mine.from + j * piece::FROM_STEP);
        }
        ptx::mbarrier_wait(s.wide_empty(to.stage), to.parity ^ 1);
#pragma unroll
        for (uint32_t j = 0; j < C::PIECES; j++) {
            store_widened<C>(s.wide(to.stage) + mine.to + j * piece::TO_STEP, v[j]);
        }
        ptx::fence_async_proxy();
        __syncwarp();
        if (lane == 0) {
            ptx::mbarrier_arrive(s.wide_full(to.stage));
            ptx::mbarrier_arrive(s.empty(at.stage));
        }
#pragma unroll
        for (uint32_t j = 0; j < C::TEAMS; j++) {
            at.advance();
            to.advance();
        }
    }
}

/* The left operand of the instructions of half a stage: x of wgmma_registers for each. */
template <class C> using half_stage = uint32_t[C::HALF_STEPS][4];

/* A warp's 16 rows of A in half a stage, as ldmatrix loads them: of two instructions each, rows
 * l/4 and l/4 + 8 of the first, then of the second, four bytes. Zeros for a warp without rows. */
struct raw_half {
    uint32_t v[2][4];
};

/* Loads half a stage of A: `half` is 0 or 1, `lane_offset` is raw_offset's. */
template <class C>
__device__ __forceinline__ void load_raw(uint32_t x, uint32_t half, uint32_t lane_offset,
                                         bool has_rows, raw_half &raw)
{
    const uint32_t at = x + lane_offset, step = half * C::HALF_STEPS;
    if (has_rows) {
#pragma unroll
        for (uint32_t j = 0; j < 2; j++) {
            ptx_sm80::load_matrices(raw.v[j], at ^ (step + 2 * j) << 4);
        }
    }
}

/* The offset, in a stage of A, of the line whose address a lane gives to ldmatrix. */
__device__ __forceinline__ uint32_t raw_offset(uint32_t warp, uint32_t lane)
{
    return (warp * 16 + lane / 8 % 2 * 8 + lane % 8) * 128 + ((lane / 16 ^ lane % 8) << 4);
}

template <class C> __device__ __forceinline__ void widen_raw(const raw_half &raw, half_stage<C> &x)
{
#pragma unroll
    for (uint32_t i = 0; i < C::HALF_STEPS; i++) {
#pragma unroll
        for (uint32_t high = 0; high < 2; high++) {
            widen_four(raw.v[i / 2][i % 2 * 2 + high], x[i][high], x[i][2 + high]);
        }
    }
}

/* The descriptor of widened B for the first instruction of half a stage, and the step to the next.
 */
template <class C> constexpr uint64_t wide_step = (C::YK ? 32 : 16 * C::LINE_BYTES) >> 4;
template <class C> __device__ __forceinline__ uint64_t wide_descriptor(uint32_t wide, uint32_t half)
{
    const uint64_t stride = 8 * C::LINE_BYTES, swizzle = 1;
    const uint32_t address = wide + half * C::Y_BYTES;
    return (uint64_t)((address & 0x3FFFF) >> 4) | (uint64_t)1 << 16 | (stride >> 4) << 32 |
           swizzle << 62;
}

/* Issues the products of half a stage; `fresh`: they begin a sum. */
template <class C>
__device__ __forceinline__ void multiply_rows(uint32_t wide, uint32_t half, const half_stage<C> &x,
                                              float (&d)[C::COLUMNS / 2], bool fresh)
{
    const uint64_t right = wide_descriptor<C>(wide, half);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < (int)C::HALF_STEPS; i++) {
        wgmma_registers<F16, C::YK>(d, x[i], right + i * wide_step<C>, fresh && i == 0 ? 0 : 1);
    }
    wgmma_commit();
}

/* What the consumer carries from one chain to the next: its positions, the stages that are left,
 * and the first half of the next stage. */
template <class C> struct rows_state {
    ring<C::STAGES> at;
    ring<C::WIDES> from;
    uint32_t left, lane_offset;
    bool has_rows;
    raw_half raw;
};

/* Waits for the next stage, if one is left, and loads its first half. */
template <class C>
__device__ __forceinline__ void begin_stage(const widened_memory<C> &s, rows_state<C> &state)
{
    if (state.left > 0) {
        ptx::mbarrier_wait(s.full(state.at.stage), state.at.parity);
        load_raw<C>(s.x(state.at.stage), 0, state.lane_offset, state.has_rows, state.raw);
    }
}

/* d = the sum over `stages` stages, one chain. */
template <class C>
__device__ __forceinline__ void sum_rows(const widened_memory<C> &s, uint32_t stages, uint32_t lane,
                                         rows_state<C> &state, float (&d)[C::COLUMNS / 2])
{
    half_stage<C> even, odd = {};
    uint32_t previous = 0;
    for (uint32_t i = 0; i < stages; i++) {
        const uint32_t stage = state.at.stage, place = state.from.stage;
        const uint32_t parity = state.from.parity;
        state.from.advance();
        widen_raw<C>(state.raw, even);
        load_raw<C>(s.x(stage), 1, state.lane_offset, state.has_rows, state.raw);
        ptx::mbarrier_wait(s.wide_full(place), parity);
        multiply_rows<C>(s.wide(place), 0, even, d, i == 0);
        wgmma_wait<1>();
        pin(odd);
        if (i > 0 && lane == 0) {
            ptx::mbarrier_arrive(s.wide_empty(previous));
        }
        widen_raw<C>(state.raw, odd);
        multiply_rows<C>(s.wide(place), 1, odd, d, false);
        if (lane == 0) {
            ptx::mbarrier_arrive(s.empty(stage)); /* the warp has loaded its rows */
        }
        state.at.advance();
        state.left--;
        begin_stage<C>(s, state);
        wgmma_wait<1>();
        pin(even);
        previous = place;
    }
    wgmma_wait<0>();
    pin(d);
    pin(odd);
    if (lane == 0) {
        ptx::mbarrier_arrive(s.wide_empty(previous));
    }
}

/* Writes a warp's sums to its panels of 16 rows and 32 columns of C (epilogue.cuh). */
template <class C>
__device__ __forceinline__ void stage_rows(uint32_t panels, uint32_t lane,
                                           const float (&d)[C::COLUMNS / 2])
{
#pragma unroll
    for (uint32_t i = 0; i < C::COLUMNS / 2; i += 2) {
        const uint32_t row = lane / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + 2 * (lane % 4);
        const uint32_t line = panels + column / 32 * PANEL_BYTES + row * 128;
        ptx::store_shared_2(line + ((column % 32 / 4 ^ (row % 8)) << 4) + column % 4 * 4,
                            __float_as_uint(d[i]), __float_as_uint(d[i + 1]));
    }
}

/* The epilogue of 16 rows and COLUMNS columns from their panels. The formulas are those that the
 * f16 kernels use for the same problem. */
template <class C>
__device__ __forceinline__ void finish_rows(const sm90_arguments &p, uint32_t panels, uint32_t lane,
                                            uint32_t batch, uint32_t row0, uint32_t column0)
{
    constexpr uint32_t LANES = C::COLUMNS / LANE_COLUMNS;
    const uint32_t column = column0 + LANE_COLUMNS * (lane % LANES);
    const uint32_t valid = column < p.n ? min(LANE_COLUMNS, p.n - column) : 0;
    const uint32_t piece = 2 * (lane % 4);
    const uint32_t panel = panels + lane % LANES / 4 * PANEL_BYTES;
    const bool in_place = !C::PROMOTED && p.in_place && !p.plain;
    float bias[LANE_COLUMNS] = {};
    if (p.bias) {
        load_floats(p.bias, column, p.out, valid == LANE_COLUMNS, valid, bias);
    }
#pragma unroll 1
    for (uint32_t r = lane / LANES; r < 16; r += 32 / LANES) {
        const uint32_t row = row0 + r;
        if (row >= p.m || valid == 0) {
            continue;
        }
        const uint32_t line = panel + r * 128;
        const uint4 d0 = ptx::load_shared_4(line + ((piece ^ (r % 8)) << 4));
        const uint4 d1 = ptx::load_shared_4(line + (((piece + 1) ^ (r % 8)) << 4));
        float v[LANE_COLUMNS];
        uint32_t bits[LANE_COLUMNS];
        memcpy(v, &d0, sizeof d0);
        memcpy(v + 4, &d1, sizeof d1);
        if (in_place) {
#pragma unroll
            for (uint32_t i = 0; i < LANE_COLUMNS; i++) {
                v[i] = fmaf(p.alpha, v[i], p.bias ? bias[i] : -0.0f);
            }
            activate_short((enum gemm_act)p.act, v);
        } else {
            finish_floats(p, (int64_t)batch * p.stride_c0 + (int64_t)row * p.ldc0 + column, valid,
                          bias, v);
        }
        memcpy(bits, v, sizeof v);
        store_columns(p, (int64_t)batch * p.stride_c + (int64_t)row * p.ldc + column, valid, bits);
    }
}

/* Called by the four warps of the consumer. */
template <class C>
__device__ __forceinline__ void multiply_all_rows(const sm90_arguments &p,
                                                  const widened_memory<C> &s, uint32_t warp,
                                                  uint32_t lane, uint32_t column, uint32_t batch)
{
    const bool has_rows = warp * 16 < p.m;
    rows_state<C> state = {ring<C::STAGES>(0),     ring<C::WIDES>(0), p.k_tiles,
                           raw_offset(warp, lane), has_rows,          {}};
    pin(state.lane_offset); /* the compiler would compute the offset again in the loop */
    float d[C::COLUMNS / 2];
    begin_stage<C>(s, state);
    if constexpr (C::PROMOTED) {
        sum_rows<C>(s, min(C::CHAIN_STAGES, state.left), lane, state, d);
        while (state.left > 0) {
            float part[C::COLUMNS / 2];
            sum_rows<C>(s, min(C::CHAIN_STAGES, state.left), lane, state, part);
#pragma unroll
            for (int i = 0; i < C::COLUMNS / 2; i++) {
                d[i] += part[i];
            }
        }
    } else {
        sum_rows<C>(s, p.k_tiles, lane, state, d);
    }
    if (has_rows) {
        /* All stages of B have been widened and none is copied any more. */
        const uint32_t panels = s.y(0) + warp * C::COLUMNS / 32 * PANEL_BYTES;
        stage_rows<C>(panels, lane, d);
        ptx::earlier_kernels_wait(); /* they may write C0 and a bias */
        __syncwarp();
        finish_rows<C>(p, panels, lane, batch, warp * 16, column);
    }
}

template <class C>
__global__ void __launch_bounds__(C::THREADS, C::BLOCKS)
    sm90_gemm_widened(const __grid_constant__ sm90_arguments p)
{
    extern __shared__ unsigned char shared_memory[];
    const widened_memory<C> s = {(ptx::shared_address(shared_memory) + 1023) & ~1023u};
    const uint32_t warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    const uint32_t batch = blockIdx.x / p.tile_columns;
    const uint32_t column = (blockIdx.x - batch * p.tile_columns) * C::COLUMNS;
    if (threadIdx.x == 0) {
        ptx::tensor_map_prefetch(&p.x);
        ptx::tensor_map_prefetch(&p.y);
        for (uint32_t i = 0; i < C::STAGES; i++) {
            ptx::mbarrier_init(s.full(i), 1);
            /* A team's warps have read B, and the consumer's A. */
            ptx::mbarrier_init(s.empty(i), 8);
        }
        for (uint32_t i = 0; i < C::WIDES; i++) {
            ptx::mbarrier_init(s.wide_full(i), 4);
            ptx::mbarrier_init(s.wide_empty(i), 4);
        }
        ptx::mbarrier_init_fence();
    }
    __syncthreads();
    if (p.y_ahead_bytes == 0) {
        ptx::later_kernels_allow();
    }
    if (warp < 4) {
        ptx::registers_take<C::CONSUMER_REGISTERS>();
        multiply_all_rows<C>(p, s, warp, lane, column, batch);
    } else if (warp < 4 + 4 * C::TEAMS) {
        ptx::registers_give<C::TEAM_REGISTERS>();
        widen_columns<C>(p, s, warp / 4 - 1, threadIdx.x % C::TEAM_THREADS, lane);
    } else if (lane == 0) {
        copy_in<C>(p, s, (int32_t)column, (int32_t)batch);
        /* The next kernel's blocks prefetch B while the last stages of this one are multiplied. */
        ptx::later_kernels_allow();
    }
}

} // namespace sm90

#endif
