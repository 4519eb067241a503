/*
 * gemm_one_row.cuh - f32 with precision full for one row: some warps decompose, others multiply.
 *
 * Each of GROUPS groups of three warps computes 16 columns of C. The copy engine fills a ring of
 * stages of 64 steps of k with the numbers of both operands. Two warps of a group decompose the
 * numbers of the group's columns of B into parts (parts.cuh), and one warp of the block decomposes
 * those of A. They write the parts to a second ring, of slots, in the order in which mma.sync takes
 * them. The third warp of a group multiplies: B is the left operand, and the right operand is the
 * row of A, eight times. Each product of a sum waits for the one before, so the warp that
 * multiplies has hardly any other instructions.
 *
 * The order of the products, and where sums begin, are those of sum_parts (gemm.cuh). mma.sync adds
 * 16 products as wgmma does (kernels/experiments/hardware.md), and so the bits are the same. The
 * order of the 16 steps of k within an instruction does not matter to the result.
 *
 * A warp that releases a stage or a slot computes the address of the barrier from values that it
 * loaded, or from sums of them, and a zero that the compiler does not know. So nobody overwrites
 * the memory before the loads are complete, however the compiler orders the instructions.
 */
#ifndef KERNELS_CUDA_SM90_GEMM_GEMM_ONE_ROW_CUH
#define KERNELS_CUDA_SM90_GEMM_GEMM_ONE_ROW_CUH

#include "kernels/cuda/move/parts.cuh"
#include "kernels/cuda/ptx_sm80.cuh"
#include "kernels/cuda/sm90/gemm/gemm.cuh"

namespace sm90
{

/* A configuration. STAGES: of the ring of numbers. YK: whether the lines of B run along k. One
 * block has a multiprocessor to itself if GROUPS is more than 1, because of its shared memory or
 * its registers. */
template <uint32_t GROUPS_, uint32_t STAGES_, bool YK_> struct one_row {
    static constexpr uint32_t GROUPS = GROUPS_, STAGES = STAGES_;
    static constexpr bool YK = YK_;
    static constexpr uint32_t GROUP_COLUMNS = 16, COLUMNS = GROUPS * GROUP_COLUMNS;
    static constexpr uint32_t STAGE_K = PROMOTE_PARTS_K, BOX_K = 32, BOXES = STAGE_K / BOX_K;
    static constexpr uint32_t STEPS = BOX_K / 16; /* instructions along a box */
    static constexpr uint32_t PARTS = f32_parts::PARTS;
    /* Bytes of numbers in a stage. B lies in boxes: for each 32 steps of k, or for each group. */
    static constexpr uint32_t B_BYTES = COLUMNS * STAGE_K * 4, A_BYTES = STAGE_K * 4;
    static constexpr uint32_t B_BOXES = YK ? BOXES : GROUPS, B_BOX = B_BYTES / B_BOXES;
    /* Bytes of parts in a slot: of a part of one instruction, of a group, and of A for a quarter of
     * the lanes. */
    static constexpr uint32_t PART_BYTES = 512, GROUP_BYTES = BOXES * STEPS * PARTS * PART_BYTES;
    static constexpr uint32_t QUARTER_BYTES = PARTS * STEPS * 2 * 4;
    static constexpr uint32_t SLOT_BYTES = GROUPS * GROUP_BYTES + BOXES * 4 * QUARTER_BYTES;
    static constexpr uint32_t SLOTS = GROUPS > 3 ? 2 : 3;
    static constexpr uint32_t SPLITTERS = 2 * GROUPS + 1; /* warps that decompose */
    static constexpr int THREADS = 32 * (GROUPS + SPLITTERS + 1);
    /* Whether the parts of two boxes fit in the registers of a warp that multiplies. */
    static constexpr bool TWO_BOXES = THREADS <= 512;
    static constexpr uint32_t SHARED_BYTES = 1024 + GROUPS * PANEL_BYTES +
                                             STAGES * (B_BYTES + A_BYTES + 16) +
                                             SLOTS * (SLOT_BYTES + 16 * GROUPS + 8);
    static_assert(BOXES == 2 && STEPS == 2, "a splitter of B has a box, a lane of A's a pair");
    static_assert(SHARED_BYTES <= SHARED_BYTES_MAX, "they fit");
};

/* Shared memory: the panels of the results, the stages of B, those of A, the slots, and the
 * barriers. */
template <class C> struct one_row_memory {
    uint32_t panels;

    __device__ __forceinline__ uint32_t b(uint32_t stage) const
    {
        return panels + C::GROUPS * PANEL_BYTES + stage * C::B_BYTES;
    }
    __device__ __forceinline__ uint32_t a(uint32_t stage) const
    {
        return b(C::STAGES) + stage * C::A_BYTES;
    }
    __device__ __forceinline__ uint32_t b_parts(uint32_t slot, uint32_t group) const
    {
        return a(C::STAGES) + slot * C::SLOT_BYTES + group * C::GROUP_BYTES;
    }
    __device__ __forceinline__ uint32_t a_parts(uint32_t slot) const
    {
        return b_parts(slot, C::GROUPS);
    }
    /* Of stages: the numbers have arrived, and all splitters have read them. */
    __device__ __forceinline__ uint32_t full(uint32_t stage) const
    {
        return b_parts(C::SLOTS, 0) + 8 * stage;
    }
    __device__ __forceinline__ uint32_t empty(uint32_t stage) const
    {
        return full(C::STAGES) + 8 * stage;
    }
    /* Of slots: the parts of the group and those of A are there; the group has read its parts; all
     * groups have read those of A. */
    __device__ __forceinline__ uint32_t ready(uint32_t slot, uint32_t group) const
    {
        return empty(C::STAGES) + 8 * (slot * C::GROUPS + group);
    }
    __device__ __forceinline__ uint32_t used(uint32_t slot, uint32_t group) const
    {
        return ready(C::SLOTS, 0) + 8 * (slot * C::GROUPS + group);
    }
    __device__ __forceinline__ uint32_t a_used(uint32_t slot) const
    {
        return used(C::SLOTS, 0) + 8 * slot;
    }
};

/* Called by one thread: fills the ring of stages, after a prefetch of the first stages of B. */
template <class C>
__device__ __forceinline__ void copy_numbers(const sm90_arguments &p, const one_row_memory<C> &s,
                                             uint32_t stages, int32_t column, int32_t batch)
{
    constexpr int32_t DX = C::YK ? C::BOX_K : C::GROUP_COLUMNS; /* from box to box */
    ring<C::STAGES> at(0);
    /* Nothing depends on the prefetch, so B may still be written meanwhile. */
    for (uint32_t i = 0; i < C::STAGES && i < stages; i++) {
        const int32_t k = (int32_t)(i * C::STAGE_K);
#pragma unroll
        for (int32_t box = 0; box < (int32_t)C::B_BOXES; box++) {
            ptx::tensor_prefetch(&p.y, (C::YK ? k : column) + box * DX, C::YK ? column : k, batch);
        }
    }
    ptx::earlier_kernels_wait();
    for (uint32_t i = 0; i < stages; i++) { /* behind the end of k, zeros */
        const uint32_t full = s.full(at.stage);
        const int32_t k = (int32_t)(i * C::STAGE_K);
        ptx::mbarrier_wait(s.empty(at.stage), at.parity ^ 1);
        ptx::mbarrier_arrive_expect(full, C::B_BYTES + p.x_bytes);
#pragma unroll
        for (int32_t box = 0; box < (int32_t)C::B_BOXES; box++) {
            ptx::tensor_load_once(s.b(at.stage) + (uint32_t)box * C::B_BOX, &p.y, full,
                                  (C::YK ? k : column) + box * DX, C::YK ? column : k, batch);
        }
        ptx::tensor_load(s.a(at.stage), &p.x, full, k, 0, batch);
        at.advance();
    }
    ptx::later_kernels_allow();
}

/* The first of four steps of k, of 16, of the lanes of quarter `q`, where the lines of B run along
 * columns: the others are 2, 8 and 10 further. Lines of the four quarters then lie in different
 * banks. */
__device__ __forceinline__ uint32_t first_step(uint32_t q)
{
    return q % 2 + q / 2 * 4;
}

/* Loads a lane's numbers of B for instruction `step`, 0 to 3, of a stage: of columns lane / 4 and 8
 * further, four steps of k each. */
template <class C>
__device__ __forceinline__ void load_columns(uint32_t b, uint32_t group, uint32_t step,
                                             uint32_t lane, float (&v)[2][4])
{
    const uint32_t line = lane / 4, q = lane % 4;
#pragma unroll
    for (uint32_t high = 0; high < 2; high++) {
        if constexpr (C::YK) {
            const uint32_t column = group * C::GROUP_COLUMNS + line + 8 * high;
            const uint32_t piece = 4 * (step % C::STEPS) + q;
            const uint4 u = ptx::load_shared_4(b + step / C::STEPS * C::B_BOX + column * 128 +
                                               ((piece ^ line) << 4));
            memcpy(v[high], &u, sizeof u);
        } else {
            const uint32_t piece = line / 4 + 2 * high;
#pragma unroll
            for (uint32_t j = 0; j < 4; j++) {
                const uint32_t k = 16 * step + first_step(q) + j % 2 * 2 + j / 2 * 8;
                v[high][j] = __uint_as_float(ptx::load_shared(
                    b + group * C::B_BOX + k * 64 + ((piece ^ k / 2 % 4) << 4) + line % 4 * 4));
            }
        }
    }
}

/* The code of a splitter of B: decomposes the numbers of a group in box `box` of each stage. `zero`
 * is 0. */
template <class C>
__device__ __forceinline__ void split_b(const one_row_memory<C> &s, uint32_t stages, uint32_t group,
                                        uint32_t box, uint32_t lane, uint32_t zero)
{
    ring<C::STAGES> at(0);
    ring<C::SLOTS> slot(0);
    for (uint32_t stage = 0; stage < stages; stage++) {
        float v[C::STEPS][2][4];
        ptx::mbarrier_wait(s.full(at.stage), at.parity);
#pragma unroll
        for (uint32_t i = 0; i < C::STEPS; i++) {
            load_columns<C>(s.b(at.stage), group, box * C::STEPS + i, lane, v[i]);
        }
        uint32_t loaded = 0;
#pragma unroll
        for (uint32_t i = 0; i < C::STEPS * 8; i++) {
            loaded |= __float_as_uint(v[i / 8][i / 4 % 2][i % 4]);
        }
        const uint32_t done = s.empty(at.stage) + (loaded & zero);
        __syncwarp();
        if (lane == 0) {
            ptx::mbarrier_arrive(done);
        }
        uint32_t parts[C::STEPS][4][C::PARTS]; /* as mma.sync takes its left operand */
#pragma unroll
        for (uint32_t i = 0; i < C::STEPS; i++) {
#pragma unroll
            for (uint32_t j = 0; j < 4; j++) {
                f32_parts::decompose(v[i][j % 2][j / 2 * 2], v[i][j % 2][j / 2 * 2 + 1],
                                     parts[i][j]);
            }
        }
        ptx::mbarrier_wait(s.used(slot.stage, group), slot.parity ^ 1);
#pragma unroll
        for (uint32_t i = 0; i < C::STEPS; i++) {
#pragma unroll
            for (uint32_t part = 0; part < C::PARTS; part++) {
                ptx::store_shared_4(
                    s.b_parts(slot.stage, group) +
                        ((box * C::STEPS + i) * C::PARTS + part) * C::PART_BYTES + lane * 16,
                    parts[i][0][part], parts[i][1][part], parts[i][2][part], parts[i][3][part]);
            }
        }
        __syncwarp();
        if (lane == 0) {
            ptx::mbarrier_arrive(s.ready(slot.stage, group));
        }
        at.advance();
        slot.advance();
    }
}

/* The code of the splitter of A, whose lanes have a pair of each stage. */
template <class C>
__device__ __forceinline__ void split_a(const one_row_memory<C> &s, uint32_t stages, uint32_t lane)
{
    ring<C::STAGES> at(0);
    ring<C::SLOTS> slot(0);
    const uint32_t step = lane / 8, q = lane / 2 % 4, half = lane % 2;
    const uint32_t k = C::YK ? 2 * lane : 16 * step + first_step(q) + 8 * half;
    const uint32_t to =
        (step / C::STEPS * 4 + q) * C::QUARTER_BYTES + (step % C::STEPS * 2 + half) * 4;
    for (uint32_t stage = 0; stage < stages; stage++) {
        ptx::mbarrier_wait(s.full(at.stage), at.parity);
        const uint32_t from = s.a(at.stage) + k * 4;
        const float low = __uint_as_float(ptx::load_shared(from));
        const float high = __uint_as_float(ptx::load_shared(from + (C::YK ? 4 : 8)));
        uint32_t parts[C::PARTS];
        f32_parts::decompose(low, high, parts);
        ptx::mbarrier_wait(s.a_used(slot.stage), slot.parity ^ 1);
#pragma unroll
        for (uint32_t part = 0; part < C::PARTS; part++) {
            ptx::store_shared(s.a_parts(slot.stage) + to + part * 16, parts[part]);
        }
        __syncwarp();
        if (lane == 0) {
            ptx::mbarrier_arrive(s.empty(at.stage));
        }
        if (lane < C::GROUPS) {
            ptx::mbarrier_arrive(s.ready(slot.stage, lane));
        }
        at.advance();
        slot.advance();
    }
}

/* A lane's parts of a box, as mma.sync takes them. */
template <class C> struct box_parts {
    uint32_t b[C::PARTS][C::STEPS][4], a[C::PARTS][C::STEPS][2];
};

/* Where a lane's parts of box 0 of a slot are. */
struct lane_parts {
    uint32_t b, a;
};

template <class C>
__device__ __forceinline__ void load_b(lane_parts from, uint32_t box, uint32_t part,
                                       box_parts<C> &parts)
{
#pragma unroll
    for (uint32_t i = 0; i < C::STEPS; i++) {
        const uint4 u =
            ptx::load_shared_4(from.b + ((box * C::STEPS + i) * C::PARTS + part) * C::PART_BYTES);
        memcpy(parts.b[part][i], &u, sizeof u);
    }
}

template <class C>
__device__ __forceinline__ void load_a(lane_parts from, uint32_t box, uint32_t part,
                                       box_parts<C> &parts)
{
    const uint4 u = ptx::load_shared_4(from.a + box * 4 * C::QUARTER_BYTES + part * 16);
    memcpy(parts.a[part], &u, sizeof u);
}

template <class C>
__device__ __forceinline__ void load_box(lane_parts from, uint32_t box, box_parts<C> &parts)
{
#pragma unroll
    for (uint32_t part = 0; part < C::PARTS; part++) {
        load_b<C>(from, box, part, parts);
        load_a<C>(from, box, part, parts);
    }
}

/* sums += one part of A times one part of B, over a box. */
template <class C>
__device__ __forceinline__ void multiply_part(const box_parts<C> &parts, int a_part, int b_part,
                                              float (&sums)[4])
{
#pragma unroll
    for (uint32_t i = 0; i < C::STEPS; i++) {
        ptx_sm80::multiply_add<__nv_bfloat16>(sums, parts.b[b_part][i], parts.a[a_part][i][0],
                                              parts.a[a_part][i][1]);
    }
}

/* The products of a box, in the order of multiply_parts (gemm.cuh), and the loads of the next one:
 * box `box` at `from`. With room for two boxes, all loads come first and have the time of the
 * products. Without it, a part of the next box takes the place of a part that has been
 * multiplied. Returns a sum that contains all parts of the box. */
template <class C>
__device__ __forceinline__ float multiply_box(lane_parts from, uint32_t box, box_parts<C> &parts,
                                              box_parts<C> &next, float (&large)[4],
                                              float (&small)[4])
{
    if constexpr (C::TWO_BOXES) {
        load_box<C>(from, box, next);
        __syncwarp(); /* The compiler would otherwise move loads between the products. */
    }
    multiply_part<C>(parts, 0, 2, small);
    if constexpr (!C::TWO_BOXES) {
        load_b<C>(from, box, 2, parts);
    }
    multiply_part<C>(parts, 0, 0, large);
    multiply_part<C>(parts, 2, 0, small);
    if constexpr (!C::TWO_BOXES) {
        load_a<C>(from, box, 2, parts);
    }
    multiply_part<C>(parts, 1, 1, small);
    const float sum = small[0];
    multiply_part<C>(parts, 0, 1, small);
    if constexpr (!C::TWO_BOXES) {
        load_a<C>(from, box, 0, parts);
        load_b<C>(from, box, 1, parts);
    }
    multiply_part<C>(parts, 1, 0, small);
    if constexpr (!C::TWO_BOXES) {
        load_b<C>(from, box, 0, parts);
        load_a<C>(from, box, 1, parts);
    }
    return sum;
}

/* The code of a warp that multiplies: the sums of its group's columns, as mma.sync leaves them.
 * `zero` is 0. */
template <class C>
__device__ __forceinline__ void multiply_group(const one_row_memory<C> &s, uint32_t stages,
                                               uint32_t group, uint32_t lane, uint32_t zero,
                                               float (&d)[4])
{
    ring<C::SLOTS> slot(0);
    float small[4] = {};
    box_parts<C> even, second;
    box_parts<C> &odd = C::TWO_BOXES ? second : even;
    const lane_parts first = {s.b_parts(0, group) + lane * 16,
                              s.a_parts(0) + lane % 4 * C::QUARTER_BYTES};
    lane_parts from = first;
    ptx::mbarrier_wait(s.ready(0, group), 0);
    load_box<C>(from, 0, even);
    for (uint32_t i = 1; i <= stages; i++) {
        float large[4] = {};
        const uint32_t now = slot.stage;
        slot.advance();
        const uint32_t next = s.ready(slot.stage, group);
        const bool is_ready = i >= stages || ptx::mbarrier_test_wait(next, slot.parity);
        multiply_box<C>(from, 1, even, odd, large, small);
        if (!is_ready) {
            ptx::mbarrier_wait(next, slot.parity);
        }
        from.b = first.b + slot.stage * C::SLOT_BYTES;
        from.a = first.a + slot.stage * C::SLOT_BYTES;
        /* Behind the last stage, parts that are not used. */
        const float sum = multiply_box<C>(from, 0, odd, even, large, small);
        const uint32_t done =
            (lane == 0 ? s.used(now, group) : s.a_used(now)) + (__float_as_uint(sum) & zero);
        __syncwarp();
        if (lane < 2) {
            ptx::mbarrier_arrive(done);
        }
#pragma unroll
        for (int j = 0; j < 4; j++) {
            d[j] += large[j];
        }
    }
#pragma unroll
    for (int j = 0; j < 4; j++) {
        d[j] = (d[j] + small[j]) * PARTS_SCALE;
    }
}

template <class C>
__global__ void __launch_bounds__(C::THREADS, 1)
    sm90_gemm_one_row(const __grid_constant__ sm90_arguments p)
{
    extern __shared__ unsigned char shared_memory[];
    const one_row_memory<C> s = {(ptx::shared_address(shared_memory) + 1023) & ~1023u};
    const uint32_t warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    const tile t = tile_at(p, blockIdx.x);
    const uint32_t column = t.column * C::COLUMNS;
    const uint32_t stages = (p.k_tiles + C::BOXES - 1) / C::BOXES;
    const uint32_t zero = p.tile_rows - 1; /* there is one row */
    if (threadIdx.x == 0) {
        ptx::tensor_map_prefetch(&p.x);
        ptx::tensor_map_prefetch(&p.y);
        for (uint32_t i = 0; i < C::STAGES; i++) {
            ptx::mbarrier_init(s.full(i), 1);
            ptx::mbarrier_init(s.empty(i), C::SPLITTERS);
        }
        for (uint32_t i = 0; i < C::SLOTS; i++) {
            for (uint32_t group = 0; group < C::GROUPS; group++) {
                ptx::mbarrier_init(s.ready(i, group), 3);
                ptx::mbarrier_init(s.used(i, group), 1);
            }
            ptx::mbarrier_init(s.a_used(i), C::GROUPS);
        }
        ptx::mbarrier_init_fence();
    }
    __syncthreads();
    if (warp < C::GROUPS) {
        ptx::earlier_kernels_wait();
        float d[4] = {};
        multiply_group<C>(s, stages, warp, lane, zero, d);
        const uint32_t panel = s.panels + warp * PANEL_BYTES;
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) {
            const uint32_t c = lane / 4 + j / 2 * 8, row = lane % 4 * 2 + j % 2;
            ptx::store_shared(panel + row * 128 + ((c / 4 ^ row) << 4) + c % 4 * 4,
                              __float_as_uint(d[j]));
        }
        __syncwarp();
        finish_chunk<F32, C::GROUP_COLUMNS>(p, panel, lane, t.batch, 0,
                                            column + warp * C::GROUP_COLUMNS);
    } else if (warp < 3 * C::GROUPS) {
        const uint32_t i = warp - C::GROUPS;
        split_b<C>(s, stages, i / 2, i % 2, lane, zero);
    } else if (warp == 3 * C::GROUPS) {
        split_a<C>(s, stages, lane);
    } else if (lane == 0) {
        copy_numbers<C>(p, s, stages, (int32_t)column, (int32_t)t.batch);
    }
}

} // namespace sm90

#endif
