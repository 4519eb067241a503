/*
 * grouped_wgmma.cuh - a tile of f32 on Hopper's tensor cores (wgmma), from slabs in shared memory.
 *
 * As in grouped_tensor.cuh, f32 is multiplied in three products of TF32, 16 elements of k at a time
 * from zero; of each 16, the products of rests come first, so that only two instructions cut off
 * what counts. Here a warp has 16 rows and all columns: it takes A from its slab and splits it in
 * registers, each element once, while B is split once by all into shared memory, as the tensor core
 * reads it: lines of 32 k for each column, in swizzled pieces of 16 bytes, both parts.
 */
#ifndef KERNELS_CUDA_GROUPED_WGMMA_CUH
#define KERNELS_CUDA_GROUPED_WGMMA_CUH

#include "kernels/cuda/grouped_load.cuh"
#include "kernels/cuda/grouped_tensor.cuh"
#include "kernels/cuda/ptx.cuh"

namespace grouped
{

constexpr uint32_t WIDE_K_MIN = 48; // where the result is f32

constexpr uint32_t PART_BYTES = GROUPED_SPLIT_BYTES / 2; // high or low of B
static_assert(PART_BYTES == TILE * 128, "32 k of 64 columns");

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

/* The same of 32 columns. */
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

static __device__ __forceinline__ void store_piece_shared(uint32_t address, const uint32_t (&v)[4])
{
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v[0]), "r"(v[1]),
                 "r"(v[2]), "r"(v[3])
                 : "memory");
}

/* Both parts of the first 16 * steps k of B: `slab` to `parts`. What lies across k is read by
 * columns, a thread having 16 k of one; what lies along k in fours of k of 8 columns a warp. */
static __device__ __forceinline__ void split_across(uint32_t parts, uint32_t slab,
                                                    const struct source &s, uint32_t steps)
{
    const uint32_t thread = grouped::thread(), column = thread % TILE, step = thread / TILE;
    constexpr uint32_t pitch = LINE_PITCH<float>;
    if (step >= steps || column >= s.extent)
        return;
    const uint32_t from = slab + step * 16 * pitch + column * 4;
    const uint32_t begin = (uint32_t)(uintptr_t)s.start, ld = (uint32_t)s.ld;
    uint32_t at[4];
#pragma unroll
    for (uint32_t k = 0; k < 4; k++)
        at[k] = from + k * pitch + (begin + k * ld) % 16;
    const uint32_t to = parts + column * 128 + (step * 4 ^ column % 8) * 16;
    uint32_t x[4][4]; // all loads before their first use
#pragma unroll
    for (uint32_t piece = 0; piece < 4; piece++)
#pragma unroll
        for (uint32_t k = 0; k < 4; k++)
            x[piece][k] = load_word_shared(at[k] + piece * 4 * pitch);
#pragma unroll
    for (uint32_t piece = 0; piece < 4; piece++) {
        uint32_t high[4], low[4];
        split(x[piece], high, low);
        store_piece_shared(to ^ piece * 16, high);
        store_piece_shared((to ^ piece * 16) + PART_BYTES, low);
    }
}

static __device__ __forceinline__ void split_along(uint32_t parts, uint32_t slab,
                                                   const struct source &s, uint32_t steps)
{
    const uint32_t thread = grouped::thread(), lane = thread % 32;
    const uint32_t column = thread / 32 * 16 + lane / 4; // and the eighth after it
    const uint32_t from = slab + column * PITCH + lane % 4 * 4 + shift_of(s, column);
    const uint32_t to = parts + column * 128 + lane % 4 * 4 + lane / 4 * 16;
#pragma unroll
    for (uint32_t step = 0; step < 2; step++) {
        if (step >= steps)
            return;
        uint32_t x[2][4];
#pragma unroll
        for (uint32_t i = 0; i < 2; i++)
#pragma unroll
            for (uint32_t piece = 0; piece < 4; piece++)
                x[i][piece] = load_word_shared(from + i * 8 * PITCH + (step * 4 + piece) * 16);
#pragma unroll
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t high[4], low[4];
            split(x[i], high, low);
#pragma unroll
            for (uint32_t piece = 0; piece < 4; piece++) {
                const uint32_t address = (to ^ (step * 4 + piece) * 16) + i * 8 * 128;
                store_word_shared(address, high[piece]);
                store_word_shared(address + PART_BYTES, low[piece]);
            }
        }
    }
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
            split(x, high[half], low[half]);
        }
        settle(high);
        settle(low);
    }

    /* What is computed of them is computed before what follows. */
    static __device__ __forceinline__ void settle(uint32_t (&x)[2][4])
    {
#pragma unroll
        for (uint32_t i = 0; i < 8; i++)
            asm volatile("" : "+r"(x[i / 4][i % 4])::"memory");
    }

    template <bool WIDE> __device__ __forceinline__ void multiply(float (&d)[32], uint64_t b)
    {
        constexpr uint64_t next = 32 >> 4, rest = PART_BYTES >> 4;
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
    static constexpr uint32_t FILL = 16;
    static constexpr uint32_t SLABS = GROUPED_SPLIT_SLABS;
    static constexpr bool EXACT_RANGE = false, SHIFTED = true, TOGETHER = true;
    float sums[32];

    __device__ __forceinline__ wide_sums()
    {
#pragma unroll
        for (uint32_t i = 0; i < 32; i++)
            sums[i] = 0;
    }

    template <bool a_along_k, bool WIDE>
    __device__ __forceinline__ void add_as(uint32_t a, uint32_t parts, uint32_t steps)
    {
        constexpr uint32_t step_bytes = a_along_k ? 16 * 4 : 16 * LINE_PITCH<float>;
        uint64_t b = (uint64_t)(parts & 0x3FFFF) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
        float d[32];
        struct rows16 rows;
#pragma unroll
        for (uint32_t step = 0; step < 2; step++) {
            if (step >= steps)
                break;
            rows.template load<a_along_k>(a + step * step_bytes);
            rows.template multiply<WIDE>(d, b + 4 * step);
            products_wait(d);
            add_sums<WIDE>(d);
        }
    }

    template <bool WIDE> __device__ __forceinline__ void add_sums(const float (&d)[32])
    {
#pragma unroll
        for (uint32_t i = 0; i < (WIDE ? 32 : 16); i++)
            sums[i] += d[i];
    }

    /* Adds the first `depth` elements of k of a slab. By all threads. */
    __device__ __forceinline__ void add(const char *slab, const struct source (&operands)[2],
                                        const char *parts_place, uint32_t depth)
    {
        const uint32_t steps = (depth + FILL - 1) / FILL;
        const uint32_t from = (uint32_t)__cvta_generic_to_shared(slab);
        const uint32_t parts = (uint32_t)__cvta_generic_to_shared(parts_place);
        if (operands[1].along_k)
            split_along(parts, from + OPERAND_BYTES, operands[1], steps);
        else
            split_across(parts, from + OPERAND_BYTES, operands[1], steps);
        ptx::fence_async_proxy();
        __syncthreads();
        const uint32_t thread = grouped::thread(), lane = thread % 32;
        const uint32_t row = thread / 32 * 16 + lane / 4, k = lane % 4;
        const bool wide = operands[1].extent > WARP_TILE;
        if (operands[0].along_k) {
            const uint32_t a = from + row * PITCH + k * 4 + shift_of(operands[0], row);
            if (wide)
                add_as<true, true>(a, parts, steps);
            else
                add_as<true, false>(a, parts, steps);
        } else {
            const uint32_t a = from + k * LINE_PITCH<float> + row * 4 + shift_of(operands[0], k);
            if (wide)
                add_as<false, true>(a, parts, steps);
            else
                add_as<false, false>(a, parts, steps);
        }
    }
};

/* Half of a warp's columns, as grouped_finish.cuh takes them. */
template <uint32_t HALF> struct wide_half {
    static constexpr bool EXACT_RANGE = false;
    const float (&sums)[32];

    __device__ __forceinline__ struct part part_of(const struct source (&operands)[2]) const
    {
        struct part part = {};
        part.row = thread() / 32 * 16;
        part.column = HALF * WARP_TILE;
        part.rows = clip(operands[0].extent, part.row, 16);
        part.columns = clip(operands[1].extent, part.column, WARP_TILE);
        return part;
    }

    __device__ __forceinline__ void put(float *values, uint32_t pitch, const struct part &) const
    {
        constexpr float unscale = 1 / (SCALE * SCALE);
        const uint32_t lane = thread() % 32;
        float *to = values + lane / 4 * pitch + lane % 4 * 2;
#pragma unroll
        for (uint32_t j = 0; j < 4; j++)
#pragma unroll
            for (uint32_t down = 0; down < 2; down++) {
                const uint32_t i = 16 * HALF + 4 * j + 2 * down;
                *(float2 *)(to + down * 8 * pitch + j * 8) =
                    make_float2(sums[i] * unscale, sums[i + 1] * unscale);
            }
    }

    __device__ __forceinline__ bool all_finite() const
    {
        bool finite = true;
#pragma unroll
        for (uint32_t i = 0; i < 16; i++)
            finite = finite && isfinite(sums[16 * HALF + i]);
        return finite;
    }
};

} // namespace grouped

#endif
