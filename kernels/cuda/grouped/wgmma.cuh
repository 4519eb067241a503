/*
 * wgmma.cuh - a tile of f32 on Hopper's tensor cores (wgmma), from slabs in shared memory.
 *
 * As in tensor.cuh, f32 is multiplied in three products of TF32, 16 elements of k at a time
 * starting from zero. Of each 16, the products of the low parts come first, so that only two
 * instructions truncate the large sums. A warp has 16 rows and all columns. The warp decomposes its
 * rows of A in registers, each element once. All warps together decompose B once, into shared
 * memory, in the layout that the tensor core reads: for each column lines of 16 k, the high parts
 * and then the low ones, in swizzled pieces of 16 bytes.
 *
 * A block spends most of its time waiting, which other blocks on the same multiprocessor fill. Five
 * blocks fit if a thread has at most 96 registers, so few values are kept from slab to slab. A copy
 * that is known to be complete is issued without the number of its bytes.
 */
#ifndef KERNELS_CUDA_GROUPED_WGMMA_CUH
#define KERNELS_CUDA_GROUPED_WGMMA_CUH

#include "kernels/cuda/grouped/load.cuh"
#include "kernels/cuda/grouped/tensor.cuh"
#include "kernels/cuda/ptx.cuh"

namespace grouped
{

constexpr uint32_t WIDE_K_MIN = 48; // the shortest k for results of f32

constexpr uint32_t STEP_BYTES = GROUPED_PARTS_BYTES / 2; // both parts of 16 k of B
constexpr uint32_t LOW = 64;                             // a line's low parts, behind the high ones
static_assert(STEP_BYTES == TILE * 128, "16 k of 64 columns, twice");

/* d = a * b, plus d if `more`; 64 x 8 by 8 x 64. */
static __device__ __forceinline__ void multiply_wide(float (&d)[32], const uint32_t (&a)[4],
                                                     uint64_t b, uint32_t more)
{
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,"
        "%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, "
        "{%32,%33,%34,%35}, %36, p, 1, 1;\n}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
          "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
          "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(more));
}

/* The same for 32 columns: 64 x 8 by 8 x 32. */
static __device__ __forceinline__ void multiply_narrow(float (&d)[32], const uint32_t (&a)[4],
                                                       uint64_t b, uint32_t more)
{
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %21, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k8.f32.tf32.tf32 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,"
        "%11,%12,%13,%14,%15}, {%16,%17,%18,%19}, %20, p, 1, 1;\n}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
          "+f"(d[14]), "+f"(d[15])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(more));
}

template <bool WIDE>
static __device__ __forceinline__ void multiply_columns(float (&d)[32], const uint32_t (&a)[4],
                                                        uint64_t b, uint32_t more)
{
    if constexpr (WIDE)
        multiply_wide(d, a, b, more);
    else
        multiply_narrow(d, a, b, more);
}

static __device__ __forceinline__ void products_begin()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

static __device__ __forceinline__ void products_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

static __device__ __forceinline__ void products_wait(float (&d)[32])
{
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
    for (uint32_t i = 0; i < 32; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}

static __device__ __forceinline__ void store_word_shared(uint32_t address, uint32_t value)
{
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

static __device__ __forceinline__ void store_piece_shared(uint32_t address, const uint32_t *v)
{
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v[0]), "r"(v[1]),
                 "r"(v[2]), "r"(v[3])
                 : "memory");
}

/* A thread's share in decomposing B: 8 elements of each 16 k, from a slab to both parts. If B lies
 * across k the thread has 8 k of one column, and if B lies along k 4 k of each of two columns. */
template <bool along_k> struct columns {
    uint32_t from[along_k ? 1 : 4], to; // the first ones, in the slab and in the parts
    bool there;

    __device__ __forceinline__ columns(uint32_t parts, const struct source &s)
    {
        const uint32_t thread = grouped::thread(), lane = thread % 32;
        if constexpr (along_k) {
            const uint32_t column = thread / 32 * 16 + lane / 4; // and the eighth after it
            from[0] = column * PITCH + lane % 4 * 4 + shift_of(s, column);
            to = parts + column * 128 + lane % 4 * 4 + lane / 4 * 16;
            there = true;
        } else {
            const uint32_t column = thread % TILE, eight = thread / TILE;
#pragma unroll
            for (uint32_t k = 0; k < 4; k++)
                from[k] = (eight * 8 + k) * LINE_PITCH<float> + column * 4 + shift_of(s, k);
            to = parts + column * 128 + (eight * 2 ^ column % 8) * 16;
            there = column < s.extent;
        }
    }

    __device__ __forceinline__ void decompose_step(uint32_t slab, uint32_t step) const
    {
        uint32_t x[8], high[8], low[8]; // all loads before their first use
        if constexpr (along_k) {
#pragma unroll
            for (uint32_t i = 0; i < 8; i++)
                x[i] = load_word_shared(slab + from[0] + step * 16 * 4 + i / 4 * 8 * PITCH +
                                        i % 4 * 16);
            decompose(x, high, low);
#pragma unroll
            for (uint32_t i = 0; i < 8; i++) {
                const uint32_t address = (to ^ i % 4 * 16) + i / 4 * 8 * 128 + step * STEP_BYTES;
                store_word_shared(address, high[i]);
                store_word_shared(address ^ LOW, low[i]);
            }
        } else if (there) {
#pragma unroll
            for (uint32_t i = 0; i < 8; i++)
                x[i] = load_word_shared(slab + from[i % 4] +
                                        (step * 16 + i / 4 * 4) * LINE_PITCH<float>);
            decompose(x, high, low);
#pragma unroll
            for (uint32_t i = 0; i < 2; i++) {
                const uint32_t address = (to ^ i * 16) + step * STEP_BYTES;
                store_piece_shared(address, high + 4 * i);
                store_piece_shared(address ^ LOW, low + 4 * i);
            }
        }
    }
};

/* Decomposes a slab of B, or its first 16 k only. The parts may be multiplied after the next
 * barrier.
 */
template <bool along_k>
static __device__ __forceinline__ void decompose_b(uint32_t parts, uint32_t slab,
                                                   const struct source &s, bool both_steps)
{
    const columns<along_k> columns(parts, s);
    columns.decompose_step(slab, 0);
    if (both_steps)
        columns.decompose_step(slab, 1);
    ptx::fence_async_proxy();
}

/* The warp's rows of A for 16 k, and their products with B. */
struct rows16 {
    uint32_t high[2][4], low[2][4];

    /* `from` is the lane's first element of the step. */
    template <bool along_k> __device__ __forceinline__ void load(uint32_t from)
    {
        constexpr uint32_t pitch = LINE_PITCH<float>;
        constexpr uint32_t down = along_k ? 8 * PITCH : 8 * 4;
        constexpr uint32_t on = along_k ? 4 * 4 : 4 * pitch;
#pragma unroll
        for (uint32_t half = 0; half < 2; half++) {
            uint32_t x[4];
#pragma unroll
            for (uint32_t i = 0; i < 4; i++)
                x[i] = load_word_shared(from + (2 * half + i / 2) * on + i % 2 * down);
            decompose(x, high[half], low[half]);
        }
        settle(high);
        settle(low);
    }

    /* The lane's first element in a slab. */
    template <bool along_k> static __device__ __forceinline__ uint32_t first(const struct source &s)
    {
        const uint32_t warp = thread() / 32, lane = thread() % 32, row = warp * 16 + lane / 4;
        if constexpr (along_k)
            return row * PITCH + lane % 4 * 4 + shift_of(s, warp);
        else
            return lane % 4 * LINE_PITCH<float> + row * 4 + shift_of(s, lane % 4);
    }

    /* Computes the values here, before the code that follows. */
    static __device__ __forceinline__ void settle(uint32_t (&x)[2][4])
    {
#pragma unroll
        for (uint32_t i = 0; i < 8; i++)
            asm volatile("" : "+r"(x[i / 4][i % 4])::"memory");
    }

    template <bool WIDE> __device__ __forceinline__ void multiply(float (&d)[32], uint64_t b)
    {
        constexpr uint64_t next = 32 >> 4, rest = LOW >> 4;
        products_begin();
        multiply_columns<WIDE>(d, low[0], b, 0);
        multiply_columns<WIDE>(d, high[0], b + rest, 1);
        multiply_columns<WIDE>(d, low[1], b + next, 1);
        multiply_columns<WIDE>(d, high[1], b + next + rest, 1);
        multiply_columns<WIDE>(d, high[0], b, 1);
        multiply_columns<WIDE>(d, high[1], b + next, 1);
        products_commit();
    }
};

/* A block's sums: 16 rows and 64 columns a warp. */
struct wide_sums {
    static constexpr bool EXACT_RANGE = false;
    static constexpr uint32_t PART_ROWS = 16, PART_COLUMNS = TILE;
    float sums[32];

    __device__ __forceinline__ wide_sums()
    {
#pragma unroll
        for (uint32_t i = 0; i < 32; i++)
            sums[i] = 0;
    }

    template <bool WIDE> __device__ __forceinline__ void add(const float (&d)[32])
    {
#pragma unroll
        for (uint32_t i = 0; i < (WIDE ? 32 : 16); i++)
            sums[i] += d[i];
    }

    /* Sums over all of k. Called by all threads. `memory` has the parts of a slab of B, then a slab
     * of B and two of A. The next slab of B is loaded before the products, not while they are in
     * flight, because they hold 80 registers. */
    template <bool a_along_k, bool b_along_k, bool WIDE>
    __device__ __forceinline__ void multiply_as(const struct source (&operands)[2],
                                                const uint32_t &k, char *memory)
    {
        constexpr uint32_t depth = DEPTH<float>;
        constexpr uint32_t step_bytes = a_along_k ? 16 * 4 : 16 * LINE_PITCH<float>;
        const uint32_t parts = (uint32_t)__cvta_generic_to_shared(memory);
        const uint32_t slab_b = parts + GROUPED_PARTS_BYTES, slabs_a = slab_b + OPERAND_BYTES;
        const uint64_t descriptor =
            (uint64_t)(parts & 0x3FFFF) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
        walk<a_along_k, true> a(operands[0]);
        walk<b_along_k, false> b(operands[1]);
        a.load(slabs_a, operands[0], k);
        b.load(slab_b, operands[1], k);
        copies_commit();
        if (k > depth)
            a.load(slabs_a + OPERAND_BYTES, operands[0], k - depth);
        copies_commit();
        const uint32_t first = rows16::first<a_along_k>(operands[0]);
        copies_wait<1>();
        uint32_t slab = slabs_a;
        int32_t left = (int32_t)k;
#pragma unroll 1
        while (true) {
            const uint32_t other = 2 * slabs_a + OPERAND_BYTES - slab;
            __syncthreads(); // the slabs are there, and what was before has been multiplied
            if ((uint32_t)left < k && left > (int32_t)depth)
                a.load(other, operands[0], (uint32_t)left - depth);
            decompose_b<b_along_k>(parts, slab_b, operands[1], left > 16);
            struct rows16 rows;
            rows.load<a_along_k>(slab + first);
            __syncthreads();
            if (left > (int32_t)depth)
                b.load(slab_b, operands[1], (uint32_t)left - depth);
            copies_commit();
            float d[32];
            rows.multiply<WIDE>(d, descriptor);
            products_wait(d);
            add<WIDE>(d);
            if (left > 16) {
                rows.load<a_along_k>(slab + first + step_bytes);
                rows.multiply<WIDE>(d, descriptor + (STEP_BYTES >> 4));
                products_wait(d);
                add<WIDE>(d);
            }
            left -= (int32_t)depth;
            if (left <= 0)
                break;
            copies_wait<0>();
            slab = other;
        }
        __syncthreads();
    }

    template <bool a_along_k, bool b_along_k>
    __device__ __forceinline__ void multiply_lying(const struct source (&operands)[2],
                                                   const uint32_t &k, char *memory)
    {
        if (operands[1].extent > WARP_TILE)
            multiply_as<a_along_k, b_along_k, true>(operands, k, memory);
        else
            multiply_as<a_along_k, b_along_k, false>(operands, k, memory);
    }

    __device__ __forceinline__ void multiply(const struct source (&operands)[2], const uint32_t &k,
                                             char *memory)
    {
        if (operands[0].along_k && operands[1].along_k)
            multiply_lying<true, true>(operands, k, memory);
        else if (operands[0].along_k)
            multiply_lying<true, false>(operands, k, memory);
        else if (operands[1].along_k)
            multiply_lying<false, true>(operands, k, memory);
        else
            multiply_lying<false, false>(operands, k, memory);
    }

    /* The part of the calling warp. */
    static __device__ __forceinline__ struct part part_of(const struct source (&operands)[2])
    {
        const uint32_t warp = thread() / 32, step = operands[0].along_k ? ROW_STEP : 1;
        struct part part = {};
        part.row_step = step;
        part.row = operands[0].along_k ? warp : warp * PART_ROWS;
        part.rows = (clip(operands[0].extent, part.row, PART_ROWS * step) + step - 1) / step;
        part.columns = operands[1].extent;
        return part;
    }

    /* Into [16][pitch]. */
    __device__ __forceinline__ void put(float *values, uint32_t pitch, const struct part &) const
    {
        constexpr float unscale = 1 / (SCALE * SCALE);
        const uint32_t lane = thread() % 32;
        float *to = values + lane / 4 * pitch + lane % 4 * 2;
#pragma unroll
        for (uint32_t i = 0; i < 32; i += 2)
            *(float2 *)(to + i / 2 % 2 * 8 * pitch + i / 4 * 8) =
                make_float2(sums[i] * unscale, sums[i + 1] * unscale);
    }

    /* Whether all sums of this lane are finite. */
    __device__ __forceinline__ bool all_finite() const
    {
        bool finite = true;
#pragma unroll
        for (uint32_t i = 0; i < 32; i++)
            finite = finite && isfinite(sums[i]);
        return finite;
    }
};

} // namespace grouped

#endif
