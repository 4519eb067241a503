/*
 * tensor.cuh - a warp's 32 x 32 part of a tile on tensor cores (mma.sync), from slabs in shared
 * memory.
 *
 * Tensor cores truncate when they add. They therefore sum only 16 elements of k at a time, starting
 * from zero. Each of these sums is added to the previous ones in f32, rounded to nearest, which
 * makes fewer roundings than a chain.
 *
 * f32 is multiplied in three products of TF32 (A. Markidis et al., "NVIDIA Tensor Core
 * Programmability, Performance & Precision", 2018; H. Ootomo and R. Yokota, "Recovering single
 * precision accuracy from Tensor Cores", 2022): x = high + low, where high is x rounded to TF32 and
 * low is the remainder, of which TF32 keeps all but one bit; low * low is omitted. Each product has
 * an error of 2^-23, which from TENSOR_K_MIN on is less than the roundings of a chain. Where an
 * operand or a sum is infinite, this gives NaN; these elements are then computed as chains.
 * Operands are multiplied by SCALE first, so that the remainder of the smallest number is not a
 * denormal of TF32. On Hopper f32 has a kernel of its own (wgmma.cuh).
 *
 * f64 has instructions of its own, which round like a chain of multiply-adds; their step is 4.
 *
 * f16 and bf16 products are exact. Their sums of a few products are truncated more coarsely than a
 * chain rounds, which is visible only if the result is f32.
 */
#ifndef KERNELS_CUDA_GROUPED_TENSOR_CUH
#define KERNELS_CUDA_GROUPED_TENSOR_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <type_traits>

#include "kernels/cuda/grouped/load.cuh"

namespace grouped
{

constexpr uint32_t TENSOR_K_MIN = 96; // the shortest k for results of f32

/* The shape of one instruction, and how many instructions cover a warp's part of the tile. */
constexpr uint32_t MMA_ROWS = 16, MMA_COLUMNS = 8, MMA_DEPTH_BYTES = 32;
constexpr uint32_t ROW_MMAS = WARP_TILE / MMA_ROWS, COLUMN_MMAS = WARP_TILE / MMA_COLUMNS;

/* ---- the instructions; fragments are as the PTX manual has them (9.7.14.5) ---- */

/* Four matrices of 8 rows of 16 bytes, the lane's address being a row of matrix lane / 8. */
static __device__ __forceinline__ void load_matrices(uint32_t address, uint32_t &r0, uint32_t &r1,
                                                     uint32_t &r2, uint32_t &r3)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
                 : "r"(address)
                 : "memory");
}

/* Loads matrices of 8 x 8 elements of 16 bits, each transposed. */
static __device__ __forceinline__ void load_transposed(uint32_t address, uint32_t &r0, uint32_t &r1,
                                                       uint32_t &r2, uint32_t &r3)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
                 : "r"(address)
                 : "memory");
}

static __device__ __forceinline__ uint32_t load_word_shared(uint32_t address)
{
    uint32_t value;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
    return value;
}

static __device__ __forceinline__ void multiply_tf32(float (&d)[4], const uint32_t (&a)[4],
                                                     const uint32_t (&b)[2])
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <typename In>
static __device__ __forceinline__ void multiply_16bit(float (&d)[4], const uint32_t (&a)[4],
                                                      const uint32_t (&b)[2])
{
    if constexpr (std::is_same<In, __half>::value)
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
            "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    else
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
            "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

static __device__ __forceinline__ void multiply_f64(double &d0, double &d1, double a, double b)
{
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(d0), "+d"(d1)
        : "d"(a), "d"(b));
}

/* ---- fragments of one step from a slab ---- */

/* MMA_ROWS rows of A of 16-bit elements from `row` on. */
template <typename In, bool along_k>
static __device__ __forceinline__ void load_a(uint32_t slab, uint32_t row, uint32_t step,
                                              uint32_t lane, uint32_t (&a)[4])
{
    if constexpr (along_k)
        load_matrices(slab + (row + lane % 16) * PITCH + step * MMA_DEPTH_BYTES + lane / 16 * 16,
                      a[0], a[1], a[2], a[3]);
    else
        load_transposed(slab + (step * 16 + lane / 16 * 8 + lane % 8) * LINE_PITCH<In> +
                            (row + lane / 8 % 2 * 8) * 2,
                        a[0], a[1], a[2], a[3]);
}

/* Twice MMA_COLUMNS columns of B from `column` on. */
template <typename In, bool along_k>
static __device__ __forceinline__ void load_b(uint32_t slab, uint32_t column, uint32_t step,
                                              uint32_t lane, uint32_t (&b0)[2], uint32_t (&b1)[2])
{
    if constexpr (along_k)
        load_matrices(slab + (column + lane / 16 * 8 + lane % 8) * PITCH + step * MMA_DEPTH_BYTES +
                          lane / 8 % 2 * 16,
                      b0[0], b0[1], b1[0], b1[1]);
    else
        load_transposed(slab + (step * 16 + lane % 16) * LINE_PITCH<In> +
                            (column + lane / 16 * 8) * 2,
                        b0[0], b0[1], b1[0], b1[1]);
}

constexpr float SCALE = 0x1p24f;

/* x * SCALE rounded to TF32 (ties away from zero), and the rest. Tensor cores do not look at the
 * last 13 bits of an operand. */
template <uint32_t COUNT>
static __device__ __forceinline__ void decompose(const uint32_t (&x)[COUNT],
                                                 uint32_t (&high)[COUNT], uint32_t (&low)[COUNT])
{
#pragma unroll
    for (uint32_t i = 0; i < COUNT; i++) {
        const float scaled = __uint_as_float(x[i]) * SCALE;
        high[i] = (__float_as_uint(scaled) + 0x1000) & 0xffffe000;
        low[i] = __float_as_uint(scaled - __uint_as_float(high[i]));
    }
}

static __device__ __forceinline__ void add_all(float (&sums)[COLUMN_MMAS][4],
                                               const float (&d)[COLUMN_MMAS][4])
{
#pragma unroll
    for (uint32_t j = 0; j < COLUMN_MMAS; j++)
#pragma unroll
        for (uint32_t x = 0; x < 4; x++)
            sums[j][x] += d[j][x];
}

/* ---- the part ---- */

template <bool a_along_k, bool b_along_k, typename In>
static __device__ __forceinline__ void multiply_steps(float (&sums)[ROW_MMAS][COLUMN_MMAS][4],
                                                      uint32_t slab, const struct part &part,
                                                      uint32_t steps)
{
    const uint32_t lane = thread() % 32;
#pragma unroll 1
    for (uint32_t step = 0; step < steps; step++) {
        uint32_t a[ROW_MMAS][4], b[COLUMN_MMAS][2];
#pragma unroll
        for (uint32_t i = 0; i < ROW_MMAS; i++)
            load_a<In, a_along_k>(slab, part.row + i * MMA_ROWS, step, lane, a[i]);
#pragma unroll
        for (uint32_t j = 0; j < COLUMN_MMAS; j += 2)
            load_b<In, b_along_k>(slab + OPERAND_BYTES, part.column + j * MMA_COLUMNS, step, lane,
                                  b[j], b[j + 1]);
#pragma unroll
        for (uint32_t i = 0; i < ROW_MMAS; i++) {
            if (i * MMA_ROWS >= part.rows)
                break;
            float d[COLUMN_MMAS][4] = {};
#pragma unroll
            for (uint32_t j = 0; j < COLUMN_MMAS; j++)
                multiply_16bit<In>(d[j], a[i], b[j]);
            add_all(sums[i], d);
        }
    }
}

/* A lane's share of 32 rows (or columns) of a 4-byte operand: one row of each of four groups of 8,
 * and two elements of each step of 8 k. at: addresses in shared memory. */
template <bool along_k> struct words {
    uint32_t at[along_k ? 4 : 1];

    __device__ __forceinline__ words(uint32_t slab, const struct source &s, uint32_t first,
                                     uint32_t lane)
    {
        const uint32_t k = lane % 4, across = first + lane / 4;
        if constexpr (along_k) {
#pragma unroll
            for (uint32_t i = 0; i < 4; i++)
                at[i] = slab + (across + 8 * i) * PITCH + k * 4 + shift_of(s, across + 8 * i);
        } else {
            at[0] = slab + k * LINE_PITCH<float> + across * 4 + shift_of(s, k);
        }
    }

    /* [group][k, k + 4] */
    __device__ __forceinline__ void load(uint32_t step, uint32_t (&x)[4][2]) const
    {
        constexpr uint32_t pitch = LINE_PITCH<float>;
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t from = along_k ? at[along_k ? i : 0] + step * MMA_DEPTH_BYTES
                                          : at[0] + step * 8 * pitch + i * 8 * 4;
            x[i][0] = load_word_shared(from);
            x[i][1] = load_word_shared(from + (along_k ? 4 * 4 : 4 * pitch));
        }
    }
};

/* f32, two steps at a time. */
template <bool a_along_k, bool b_along_k>
static __device__ __forceinline__ void
multiply_f32(float (&sums)[ROW_MMAS][COLUMN_MMAS][4], uint32_t slab,
             const struct source (&operands)[2], const struct part &part, uint32_t pairs)
{
    const uint32_t lane = thread() % 32;
    words<a_along_k> a(slab, operands[0], part.row, lane);
    words<b_along_k> b(slab + OPERAND_BYTES, operands[1], part.column, lane);
#pragma unroll 1
    for (uint32_t pair = 0; pair < pairs; pair++) {
        float d[ROW_MMAS][COLUMN_MMAS][4] = {};
#pragma unroll
        for (uint32_t half = 0; half < 2; half++) {
            uint32_t x[4][2], high_b[4][2], low_b[4][2];
            b.load(2 * pair + half, x);
#pragma unroll
            for (uint32_t j = 0; j < COLUMN_MMAS; j++)
                decompose(x[j], high_b[j], low_b[j]);
            a.load(2 * pair + half, x);
#pragma unroll
            for (uint32_t i = 0; i < ROW_MMAS; i++) {
                const uint32_t whole[4] = {x[2 * i][0], x[2 * i + 1][0], x[2 * i][1],
                                           x[2 * i + 1][1]};
                uint32_t high[4], low[4];
                if (i * MMA_ROWS >= part.rows)
                    break;
                decompose(whole, high, low);
#pragma unroll
                for (uint32_t j = 0; j < COLUMN_MMAS; j++)
                    multiply_tf32(d[i][j], low, high_b[j]);
#pragma unroll
                for (uint32_t j = 0; j < COLUMN_MMAS; j++)
                    multiply_tf32(d[i][j], high, low_b[j]);
#pragma unroll
                for (uint32_t j = 0; j < COLUMN_MMAS; j++)
                    multiply_tf32(d[i][j], high, high_b[j]);
            }
        }
#pragma unroll
        for (uint32_t i = 0; i < ROW_MMAS; i++)
            add_all(sums[i], d[i]);
    }
}

/* The loads for f64, four times 8 x 8. */
template <bool a_along_k, bool b_along_k>
static __device__ __forceinline__ void multiply_steps_f64(double (&sums)[4][4][2], const char *slab,
                                                          const struct part &part, uint32_t steps)
{
    const uint32_t lane = thread() % 32, line = lane % 4, across = lane / 4;
    constexpr uint32_t pitch = LINE_PITCH<double>;
    const char *a = slab + (a_along_k ? (part.row + across) * PITCH + line * 8
                                      : line * pitch + (part.row + across) * 8);
    const char *b = slab + OPERAND_BYTES +
                    (b_along_k ? (part.column + across) * PITCH + line * 8
                               : line * pitch + (part.column + across) * 8);
#pragma unroll 1
    for (uint32_t step = 0; step < steps; step++) {
        double x[4], y[4];
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            x[i] = *(const double *)(a + (a_along_k ? 8 * PITCH : 8 * 8) * i);
            y[i] = *(const double *)(b + (b_along_k ? 8 * PITCH : 8 * 8) * i);
        }
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
#pragma unroll
            for (uint32_t j = 0; j < 4; j++)
                multiply_f64(sums[i][j][0], sums[i][j][1], x[i], y[j]);
        a += a_along_k ? MMA_DEPTH_BYTES : 4 * pitch;
        b += b_along_k ? MMA_DEPTH_BYTES : 4 * pitch;
    }
}

/* A warp's sums. */
template <typename In> struct tensor_sums {
    static constexpr uint32_t FILL = 16;
    static constexpr bool EXACT_RANGE = sizeof(In) != 4; // infinite sums of f32 come out as NaN
    static constexpr uint32_t PART_ROWS = WARP_TILE, PART_COLUMNS = WARP_TILE;
    static constexpr bool SHIFTED = sizeof(In) == 4;
    static constexpr uint32_t SLABS = grouped::SLABS;
    float sums[ROW_MMAS][COLUMN_MMAS][4];

    __device__ __forceinline__ tensor_sums()
    {
#pragma unroll
        for (uint32_t i = 0; i < ROW_MMAS; i++)
#pragma unroll
            for (uint32_t j = 0; j < COLUMN_MMAS; j++)
#pragma unroll
                for (uint32_t x = 0; x < 4; x++)
                    sums[i][j][x] = 0;
    }

    /* Adds the first `depth` elements of k of a slab. */
    __device__ __forceinline__ void add(const char *slab, const struct source (&operands)[2],
                                        const struct part &part, uint32_t depth)
    {
        const uint32_t steps = (depth + FILL - 1) / FILL;
        const uint32_t from = (uint32_t)__cvta_generic_to_shared(slab);
        if (part.a_along_k && part.b_along_k)
            add_as<true, true>(from, operands, part, steps);
        else if (part.a_along_k)
            add_as<true, false>(from, operands, part, steps);
        else if (part.b_along_k)
            add_as<false, true>(from, operands, part, steps);
        else
            add_as<false, false>(from, operands, part, steps);
    }

    template <bool a_along_k, bool b_along_k>
    __device__ __forceinline__ void add_as(uint32_t slab, const struct source (&operands)[2],
                                           const struct part &part, uint32_t steps)
    {
        if constexpr (sizeof(In) == 4)
            multiply_f32<a_along_k, b_along_k>(sums, slab, operands, part, steps);
        else
            multiply_steps<a_along_k, b_along_k, In>(sums, slab, part, steps);
    }

    /* Into [32][pitch]. */
    __device__ __forceinline__ void put(float *values, uint32_t pitch, const struct part &) const
    {
        constexpr float unscale = sizeof(In) == 4 ? 1 / (SCALE * SCALE) : 1;
        const uint32_t lane = thread() % 32;
#pragma unroll
        for (uint32_t i = 0; i < ROW_MMAS; i++)
#pragma unroll
            for (uint32_t j = 0; j < COLUMN_MMAS; j++) {
                float *to =
                    values + (i * MMA_ROWS + lane / 4) * pitch + j * MMA_COLUMNS + lane % 4 * 2;
                *(float2 *)to = make_float2(sums[i][j][0] * unscale, sums[i][j][1] * unscale);
                *(float2 *)(to + 8 * pitch) =
                    make_float2(sums[i][j][2] * unscale, sums[i][j][3] * unscale);
            }
    }

    /* Whether all sums of this lane are finite. */
    __device__ __forceinline__ bool all_finite() const
    {
        bool finite = true;
#pragma unroll
        for (uint32_t i = 0; i < ROW_MMAS; i++)
#pragma unroll
            for (uint32_t j = 0; j < COLUMN_MMAS; j++)
#pragma unroll
                for (uint32_t x = 0; x < 4; x++)
                    finite = finite && isfinite(sums[i][j][x]);
        return finite;
    }
};

template <> struct tensor_sums<double> {
    static constexpr uint32_t FILL = 4;
    static constexpr uint32_t SLABS = grouped::SLABS;
    static constexpr bool EXACT_RANGE = true, SHIFTED = false;
    static constexpr uint32_t PART_ROWS = WARP_TILE, PART_COLUMNS = WARP_TILE;
    double sums[4][4][2];

    __device__ __forceinline__ tensor_sums()
    {
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
#pragma unroll
            for (uint32_t j = 0; j < 4; j++)
                sums[i][j][0] = sums[i][j][1] = 0;
    }

    __device__ __forceinline__ void add(const char *slab, const struct source (&operands)[2],
                                        const struct part &part, uint32_t depth)
    {
        (void)operands;
        const uint32_t steps = (depth + FILL - 1) / FILL;
        if (part.a_along_k && part.b_along_k)
            multiply_steps_f64<true, true>(sums, slab, part, steps);
        else if (part.a_along_k)
            multiply_steps_f64<true, false>(sums, slab, part, steps);
        else if (part.b_along_k)
            multiply_steps_f64<false, true>(sums, slab, part, steps);
        else
            multiply_steps_f64<false, false>(sums, slab, part, steps);
    }

    __device__ __forceinline__ void put(double *values, uint32_t pitch, const struct part &) const
    {
        const uint32_t lane = thread() % 32;
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
#pragma unroll
            for (uint32_t j = 0; j < 4; j++)
                *(double2 *)(values + (i * 8 + lane / 4) * pitch + j * 8 + lane % 4 * 2) =
                    make_double2(sums[i][j][0], sums[i][j][1]);
    }
};

} // namespace grouped

#endif
