/*
 * packed.cuh - products with packed weights of 4 and 8 bits. A W says what they are (unpack.cuh).
 *
 * A block computes 128 columns of C for up to 128 rows. Each of its 8 warps has 16 columns. The
 * weights are the left operand of the tensor core's instruction, in registers, whose rows are the
 * columns of B, and the rows of op(A) are its right operand, in shared memory. The arrangement of
 * proto/packed.h gives each thread the weights of its own registers in 16 bytes, 4 or 2 steps of 16
 * of k. A Multiply says which instruction it is.
 *
 * Weights, scales, zero points and rows of op(A) are copied by cp.async to a ring of stages of 128
 * steps of k. What is beyond k is filled up with zeros, which change no sum. Rows of op(A) that
 * there are not keep the bytes that the shared memory has; no other row depends on them.
 *
 * A Join says which slices of k (packed.h) a block computes, and how the sums of the slices come
 * together. Marlin (Frantar et al., 2024) showed that weights arranged for the registers, unpacked
 * between cp.async and mma, reach the bandwidth of the memory up to 16 rows.
 */
#ifndef KERNELS_CUDA_PACKED_PACKED_CUH
#define KERNELS_CUDA_PACKED_PACKED_CUH

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/packed/packed.h"
#include "kernels/cuda/packed/unpack.cuh"
#include "kernels/cuda/ptx_sm80.cuh"

namespace packed
{

enum { WARPS = 8, THREADS = WARPS * 32, TILE = PACKED_TILE_COLUMNS, UNIT = PACKED_UNIT_STEPS };
enum { STAGES = 4, ROWS_OF_MMA = 8 };
enum { PIECE = 32, PIECES = UNIT / PIECE };    /* groups are multiples of a piece */
enum { LINE = 128, LINES = UNIT * 2 / LINE };  /* bytes of a row of op(A) that lie together */
enum { SCALE_PITCH = 64, ZERO_PITCH = 16 };    /* bytes for a group of a warp's columns */
enum { MMA_STEPS = 16, MMA_SCALE_PITCH = 32 }; /* and for the scales of bf16 of one instruction */
enum { SUM_PITCH = TILE + 4 };                 /* floats from row to row of a block's sums */

/* Loads from shared memory. */
static __device__ __forceinline__ void load_16(uint32_t (&to)[4], uint32_t from)
{
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
}
static __device__ __forceinline__ float load_float(uint32_t from)
{
    float value;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(from) : "memory");
    return value;
}
static __device__ __forceinline__ uint16_t load_2(uint32_t from)
{
    uint16_t value;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(value) : "r"(from) : "memory");
    return value;
}
static __device__ __forceinline__ uint32_t load_1(uint32_t from)
{
    uint32_t value;
    asm volatile("ld.shared.u8 %0, [%1];" : "=r"(value) : "r"(from) : "memory");
    return value;
}

/* Keeps the compiler from computing a value again where it is used. */
static __device__ __forceinline__ void keep(uint32_t &value)
{
    asm volatile("" : "+r"(value));
}

/* The parts of a stage: op(A), as LINES tiles of lines of 128 bytes, one a row, with the swizzle of
 * sm90/wgmma.cuh; and for each warp its weights, scales and zeros. */
template <int BITS, int MMAS> struct stage_parts {
    static constexpr unsigned ROWS = MMAS * ROWS_OF_MMA;
    static constexpr unsigned BLOCKS = UNIT * BITS / 256; /* of PACKED_BLOCK_BYTES */
    static constexpr unsigned WEIGHTS = ROWS * UNIT * 2;
    static constexpr unsigned SCALES = BLOCKS * PACKED_BLOCK_BYTES;
    static constexpr unsigned ZEROS = SCALES + PIECES * SCALE_PITCH;
    static constexpr unsigned OF_WARP = ZEROS + PIECES * ZERO_PITCH;
    static constexpr unsigned BYTES = (WEIGHTS + WARPS * OF_WARP + 1023) / 1024 * 1024;
    static constexpr unsigned SUMS = ROWS * SUM_PITCH * 4;
    static constexpr unsigned SHARED = STAGES * BYTES > SUMS ? STAGES *BYTES : SUMS;
};

/* How k is divided into slices (packed.h). `aligned`: the rows of op(A) start at multiples of 16
 * bytes and lie along k. */
struct division {
    unsigned slices, units, each;
    bool aligned;
};

/* Where a thread's place of a block of weights is in shared memory: neither the copies of places
 * that lie side by side nor the reads of a warp's registers meet in a bank. */
static __device__ __forceinline__ unsigned place_bytes(unsigned g, unsigned t)
{
    return (8 * t + (g ^ 2 * t)) * 16;
}

/* What a thread copies of its warp's weights, scales and zero points, unit by unit. */
template <class W, int MMAS> struct weight_copies {
    static constexpr unsigned BITS = W::BITS;
    using S = stage_parts<W::BITS, MMAS>;
    const char *weights; /* the thread's 16 bytes of the first block */
    const char *values;  /* the thread's 16 bytes of scales or zeros of the first group */
    unsigned pitch;      /* of values, from unit to unit */
    unsigned blocks;     /* of the last unit that are not beyond k */
    int steps;           /* of the last unit from the thread's group on that are not */
    unsigned to, values_to;

    /* From `unit` on. */
    __device__ __forceinline__ weight_copies(const gemm_problem &p, unsigned column, unsigned unit,
                                             unsigned units, uint32_t stage)
    {
        const packed_layout &layout = p.packed;
        const unsigned lane = threadIdx.x % 32;
        const unsigned part = lane % 8, of_group = lane / 8;
        const unsigned columns =
            ((unsigned)layout.n + PACKED_COLUMNS - 1) / PACKED_COLUMNS * PACKED_COLUMNS;
        const unsigned all = ((unsigned)layout.k + 256 / BITS - 1) / (256 / BITS);
        const unsigned scale_bytes = layout.scale_dtype == GEMMD_F32 ? 4 : 2;
        const bool whole = !W::SHORT && layout.group == layout.k; /* one group has all k */
        const unsigned group_steps = whole ? (unsigned)UNIT : (unsigned)layout.group;
        const unsigned in_unit = UNIT / group_steps;
        blocks = all - (units - 1) * S::BLOCKS;
        steps = (int)(unsigned)layout.k - (int)((units - 1) * UNIT + of_group * group_steps);
        weights =
            (const char *)p.b +
            ((uint64_t)(column / PACKED_COLUMNS) * all + unit * S::BLOCKS) * PACKED_BLOCK_BYTES +
            lane * 16;
        to = stage + place_bytes(lane % 8, lane / 8);
        values_to = stage;
        values = nullptr;
        keep(to);
        if constexpr (W::SCALED) { /* every instruction has scales of its own */
            const unsigned mma = lane / 2, row_bytes = columns * 2;
            if (mma >= UNIT / MMA_STEPS)
                return;
            steps = (int)(unsigned)layout.k - (int)((units - 1) * UNIT + mma * MMA_STEPS);
            values = (const char *)p.b + layout.scale_offset +
                     (uint64_t)(unit * in_unit + mma * MMA_STEPS / group_steps) * row_bytes +
                     (uint64_t)column * 2 + lane % 2 * 16;
            pitch = in_unit * row_bytes;
            values_to += S::SCALES + mma * MMA_SCALE_PITCH + lane % 2 * 16;
            keep(values_to);
            return;
        }
        if (of_group >= in_unit)
            return;
        unsigned group_bytes = 0; /* from group to group */
        if (part < scale_bytes) { /* 16 columns have scale_bytes pieces of 16 bytes */
            values = (const char *)p.b + layout.scale_offset + (uint64_t)column * scale_bytes +
                     part * 16;
            group_bytes = columns * scale_bytes;
            values_to += S::SCALES + of_group * SCALE_PITCH + part * 16;
        } else if (part == 4 && layout.has_zeros) {
            values = (const char *)p.b + layout.zero_offset + column;
            group_bytes = columns;
            values_to += S::ZEROS + of_group * ZERO_PITCH;
        }
        pitch = whole ? 0 : in_unit * group_bytes;
        if (!whole && values != nullptr)
            values += (uint64_t)(unit * in_unit + of_group) * group_bytes;
        keep(values_to);
    }

    /* Copies the next unit to a stage `at` bytes from the first. WHOLE: no part of the unit is
     * beyond k. */
    template <bool WHOLE> __device__ __forceinline__ void next(uint32_t at)
    {
        /* No hint for the cache: ptxas 13.0 makes an illegal instruction of a copy with a hint
         * whose address has a uniform register. */
        const uint32_t place = to + at;
#pragma unroll
        for (unsigned i = 0; i < S::BLOCKS; i++)
            if constexpr (WHOLE)
                ptx_sm80::copy_16(place + i * PACKED_BLOCK_BYTES, weights + i * PACKED_BLOCK_BYTES);
            else
                ptx_sm80::copy_16(place + i * PACKED_BLOCK_BYTES, weights + i * PACKED_BLOCK_BYTES,
                                  i < blocks ? 16 : 0);
        if (values != nullptr) {
            if constexpr (WHOLE)
                ptx_sm80::copy_16(at + values_to, values);
            else
                ptx_sm80::copy_16(at + values_to, values, steps > 0 ? 16 : 0);
            values += pitch;
        }
        weights += S::BLOCKS * PACKED_BLOCK_BYTES;
    }
};

/* What a thread copies of the rows of op(A) from row0 on: pieces of 16 bytes in the same place of
 * every 16th row. */
template <typename T, int MMAS> struct row_copies {
    static constexpr unsigned IN_ROW = UNIT / 8, EACH = THREADS / IN_ROW;
    const T *from; /* the thread's piece of its first row */
    uint64_t down; /* from row to row of the thread, in elements */
    unsigned rows; /* of the block, from the thread's first row on */
    unsigned to;

    __device__ __forceinline__ row_copies(const gemm_problem &p, uint64_t row0, unsigned unit,
                                          uint32_t stage)
    {
        const unsigned row = threadIdx.x / IN_ROW, piece = threadIdx.x % IN_ROW;
        const unsigned at = unit * UNIT + piece * 8;
        rows = (unsigned)min((uint64_t)(MMAS * ROWS_OF_MMA), p.m - row0);
        rows = row < rows ? rows - row : 0;
        from = (const T *)p.a + (p.transa ? at * p.lda + row0 + row : (row0 + row) * p.lda + at);
        down = (p.transa ? 1 : p.lda) * EACH;
        to = stage + piece / 8 * (MMAS * ROWS_OF_MMA * LINE) + row * LINE +
             (piece % 8 ^ row % 8) * 16;
        keep(to);
    }

    /* Copies the next unit, whose rows start at multiples of 16 bytes, to a stage `at` bytes
     * from the first. */
    __device__ __forceinline__ void next(uint32_t at)
    {
#pragma unroll
        for (unsigned i = 0; i < (MMAS * ROWS_OF_MMA + EACH - 1) / EACH; i++)
            if (i * EACH < rows)
                ptx_sm80::copy_16(at + to + i * EACH * LINE, from + i * down);
        from += UNIT;
    }

    /* The same for any rows, and for a unit that ends beyond k. `place` is the thread's first piece
     * in the stage. */
    __device__ __forceinline__ void next_elements(const gemm_problem &p, unsigned unit, char *place)
    {
        const uint64_t along = p.transa ? p.lda : 1;
        const int left = (int)(unsigned)p.k - (int)(unit * UNIT + threadIdx.x % IN_ROW * 8);
        for (unsigned i = 0; i * EACH < rows; i++)
            for (int j = 0; j < 8; j++)
                ((T *)(place + i * EACH * LINE))[j] =
                    j < left ? from[i * down + (unsigned)j * along] : T(0.0f);
        from += UNIT * along;
    }
};

/* A thread's sums: of the products of a span of k, and of a slice. Element 4 * i + 2 * h + e is of
 * row 8 * i + 2 * (lane % 4) + e and of column lane / 4 + 8 * h of the warp's. */
template <int MMAS> struct sums {
    float part[MMAS * 4], slice[MMAS * 4];
};

/* The scales and zero points of a group for a thread's two columns. */
template <typename T, class W> struct group_values {
    float scale[2];
    changes<T, W> of_weights;

    __device__ __forceinline__ explicit group_values(const packed_layout &layout)
    {
        if constexpr (W::INTEGER) {
            of_weights.set(0, layout.zero);
            of_weights.set(1, layout.zero);
        }
    }

    /* `scales` and `zero_bytes` are the addresses of the thread's first column. */
    __device__ __forceinline__ void load(const packed_layout &layout, uint32_t scales,
                                         uint32_t zero_bytes)
    {
        if constexpr (W::SCALED) {
            scale[0] = scale[1] = 1;
            return;
        }
        if (layout.scale_dtype == GEMMD_F32) {
            scale[0] = load_float(scales);
            scale[1] = load_float(scales + 8 * 4);
        } else {
            const uint16_t low = load_2(scales), high = load_2(scales + 8 * 2);
            const bool half = layout.scale_dtype == GEMMD_F16;
            scale[0] =
                half ? __half2float(__ushort_as_half(low)) : __uint_as_float((uint32_t)low << 16);
            scale[1] =
                half ? __half2float(__ushort_as_half(high)) : __uint_as_float((uint32_t)high << 16);
        }
        if constexpr (W::INTEGER)
            if (layout.has_zeros) {
                of_weights.set(0, layout.zero + (int)load_1(zero_bytes));
                of_weights.set(1, layout.zero + (int)load_1(zero_bytes + 8));
            }
    }

    /* The same for instruction `mma` of a unit, if weights are multiplied by their scales. */
    __device__ __forceinline__ void load_of_mma(uint32_t scales, unsigned mma)
    {
        if constexpr (W::SCALED) {
            of_weights.set(0, load_2(scales + mma * MMA_SCALE_PITCH));
            of_weights.set(1, load_2(scales + mma * MMA_SCALE_PITCH + 8 * 2));
        }
    }
};

/* Adds the sums of a span times its scales to those of the slice. */
template <int MMAS>
static __device__ __forceinline__ void add_scaled(sums<MMAS> &sums, const float (&scale)[2])
{
#pragma unroll
    for (unsigned i = 0; i < MMAS * 4; i++)
        sums.slice[i] = fmaf(sums.part[i], scale[i / 2 % 2], sums.slice[i]);
}

/* Where a thread finds what it reads of the first stage: its places of two rows of op(A) for
 * ldmatrix, of which pieces have one in turns; and its weights, scales and zero points. */
template <int BITS, int MMAS> struct places {
    uint32_t rows, even, odd, weights, scales, zeros;

    __device__ __forceinline__ places(const packed_layout &layout, uint32_t stage, uint32_t of_warp)
    {
        using S = stage_parts<BITS, MMAS>;
        const unsigned lane = threadIdx.x % 32, chunk = lane / 8, row = lane % 8, g = lane / 4;
        rows = stage;
        even = stage + row * LINE + (chunk ^ row) * 16;
        odd = stage + row * LINE + ((chunk + 4) ^ row) * 16;
        weights = stage + of_warp + place_bytes(g, lane % 4);
        scales = stage + of_warp + S::SCALES + g * (layout.scale_dtype == GEMMD_F32 ? 4 : 2);
        zeros = stage + of_warp + S::ZEROS + g;
        keep(even);
        keep(odd);
        keep(weights);
        keep(scales);
        keep(zeros);
    }
};

/* Multiplies by mma.m16n8k16. */
struct by_mma {
    template <typename T, class W, int MMAS, int SPAN>
    static __device__ __forceinline__ void unit(const packed_layout &layout, unsigned group_steps,
                                                const places<W::BITS, MMAS> &places, unsigned at,
                                                group_values<T, W> &values, sums<MMAS> &sums)
    {
        using S = stage_parts<W::BITS, MMAS>;
        constexpr unsigned IN_BLOCK = 256 / W::BITS / PIECE;
        uint32_t words[4];
#pragma unroll
        for (unsigned span = 0; span < UNIT / SPAN; span++) {
            const unsigned group = SPAN == UNIT ? 0 : span * SPAN / group_steps;
            values.load(layout, places.scales + at + group * SCALE_PITCH,
                        places.zeros + at + group * ZERO_PITCH);
#pragma unroll
            for (unsigned i = 0; i < MMAS * 4; i++)
                sums.part[i] = 0;
#pragma unroll
            for (unsigned piece = span * SPAN / PIECE; piece < (span + 1) * SPAN / PIECE; piece++) {
                if (piece % IN_BLOCK == 0)
                    load_16(words, places.weights + at + piece / IN_BLOCK * PACKED_BLOCK_BYTES);
                uint32_t a[2][4];
#pragma unroll
                for (unsigned tile = 0; tile < 2; tile++) {
                    values.load_of_mma(places.scales + at, piece * 2 + tile);
                    unpack(words, piece % IN_BLOCK * 2 + tile, values.of_weights, a[tile]);
                }
#pragma unroll
                for (unsigned i = 0; i < MMAS; i++) {
                    float(&part)[4] = reinterpret_cast<float(&)[4]>(sums.part[4 * i]);
                    uint32_t b[4];
                    ptx_sm80::load_matrices(b, (piece % 2 == 0 ? places.even : places.odd) + at +
                                                   piece / 2 * (S::ROWS * LINE) +
                                                   i * ROWS_OF_MMA * LINE);
                    ptx_sm80::multiply_add<T>(part, a[0], b[0], b[1]);
                    ptx_sm80::multiply_add<T>(part, a[1], b[2], b[3]);
                }
            }
            add_scaled(sums, values.scale);
        }
    }

    static __device__ __forceinline__ void copies_arrived()
    {
    }
};

/* Stores one element of C. */
template <typename T>
static __device__ __forceinline__ void store(const gemm_problem &p, uint64_t row, uint64_t column,
                                             float sum)
{
    const void *c0 = p.beta != 0 ? p.c0 : nullptr;
    if (p.out == GEMMD_F32)
        epilogue<float>(p.alpha, p.beta, p.act, p.bias, c0, p.c, p.ldc0, p.ldc)
            .store(0, row, column, sum);
    else
        epilogue<T>(p.alpha, p.beta, p.act, p.bias, c0, p.c, p.ldc0, p.ldc)
            .store(0, row, column, sum);
}

/* The sums of a thread as rows in shared memory, PITCH floats from row to row. `to` is the place of
 * the warp's first column. */
template <int MMAS, int PITCH>
static __device__ __forceinline__ void put_sums(float *to, const float (&of)[MMAS * 4])
{
    const unsigned lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (unsigned i = 0; i < MMAS * 4; i++)
        to[(i / 4 * ROWS_OF_MMA + 2 * t + i % 2) * PITCH + g + i / 2 % 2 * 8] = of[i];
}

/* The Join of a block that computes all slices one after another. */
template <int MMAS> struct one_block {
    /* Of a multiprocessor, so that threads have enough registers. */
    static constexpr int BLOCKS = MMAS == 1 ? 3 : MMAS == 2 ? 2 : 1;
    float total[MMAS * 4] = {};

    static __host__ __device__ __forceinline__ unsigned blocks(unsigned)
    {
        return 1;
    }
    static __device__ __forceinline__ unsigned first(unsigned)
    {
        return 0;
    }
    static __device__ __forceinline__ unsigned end(unsigned)
    {
        return ~0u;
    }

    __device__ __forceinline__ void end_unit(const division &division, unsigned unit,
                                             sums<MMAS> &sums)
    {
        if (unit + 1 != division.units && (unit + 1) % division.each != 0)
            return;
#pragma unroll
        for (unsigned i = 0; i < MMAS * 4; i++) {
            total[i] += sums.slice[i];
            sums.slice[i] = 0;
        }
    }

    template <typename T>
    __device__ __forceinline__ void finish(const gemm_problem &p, uint64_t row0, unsigned column0,
                                           unsigned, float *shared, const sums<MMAS> &) const
    {
        put_sums<MMAS, SUM_PITCH>(shared + threadIdx.x / 32 * PACKED_COLUMNS, total);
        __syncthreads();
        for (unsigned i = threadIdx.x; i < MMAS * ROWS_OF_MMA * TILE; i += THREADS) {
            const uint64_t row = row0 + i / TILE, column = column0 + i % TILE;
            if (row < p.m && column < p.n)
                store<T>(p, row, column, shared[i / TILE * SUM_PITCH + i % TILE]);
        }
        __syncthreads();
    }

    static enum gemmd_error launch(void (*kernel)(gemm_problem, division), dim3 grid,
                                   size_t shared_bytes, cudaStream_t stream, const gemm_problem &p,
                                   const division &division)
    {
        return launch_with_memory(kernel, grid, dim3(THREADS), shared_bytes, stream, p, division);
    }
};

/* SPAN: a unit, or a piece if groups are shorter than a unit. */
template <typename T, class W, int MMAS, int SPAN, class Multiply, template <int> class Join>
__global__ void __launch_bounds__(THREADS, Join<MMAS>::BLOCKS)
    packed_kernel(const __grid_constant__ gemm_problem p, const division division)
{
    using S = stage_parts<W::BITS, MMAS>;
    using J = Join<MMAS>;
    extern __shared__ __align__(1024) char memory[];
    const unsigned warp = threadIdx.x / 32;
    const unsigned column0 = blockIdx.x / J::blocks(division.slices) * TILE,
                   column = column0 + warp * PACKED_COLUMNS;
    const bool active = column < p.n; /* other warps compute what is not stored */
    const unsigned first = min(J::first(division.each), division.units),
                   end = min(J::end(division.each), division.units);
    const unsigned whole = (unsigned)p.k / UNIT; /* units, of which no part is beyond k */
    const uint32_t shared = ptx_sm80::shared_address(memory);
    const unsigned of_warp = S::WEIGHTS + warp * S::OF_WARP;
    const places<W::BITS, MMAS> places(p.packed, shared, of_warp);

    for (uint64_t row0 = (uint64_t)blockIdx.y * S::ROWS; row0 < p.m;
         row0 += (uint64_t)gridDim.y * S::ROWS) {
        weight_copies<W, MMAS> weights(p, active ? column : column0, first, division.units,
                                       shared + of_warp);
        row_copies<T, MMAS> rows(p, row0, first, shared);
        unsigned ahead = first, ahead_at = 0; /* the next unit to copy, and its stage */
        const auto start = [&] {
            if (ahead < end && division.aligned && ahead < whole)
                rows.next(ahead_at);
            else if (ahead < end)
                rows.next_elements(p, ahead, memory + (rows.to - shared) + ahead_at);
            if (ahead < end && ahead < whole)
                weights.template next<true>(ahead_at);
            else if (ahead < end)
                weights.template next<false>(ahead_at);
            ptx_sm80::copies_commit();
            ahead++;
            ahead_at = ahead_at == (STAGES - 1) * S::BYTES ? 0 : ahead_at + S::BYTES;
        };
        group_values<T, W> values(p.packed);
        sums<MMAS> sums = {};
        J join;
#pragma unroll
        for (unsigned i = 0; i < STAGES - 1; i++)
            start();
        unsigned at = 0; /* the unit's stage */
        for (unsigned unit = first; unit < end; unit++) {
            ptx_sm80::copies_wait<STAGES - 2>();
            Multiply::copies_arrived();
            __syncthreads(); /* the unit is in shared memory, and the one before has been read */
            start();
            Multiply::template unit<T, W, MMAS, SPAN>(p.packed, (unsigned)p.packed.group, places,
                                                      at, values, sums);
            join.end_unit(division, unit, sums);
            at = at == (STAGES - 1) * S::BYTES ? 0 : at + S::BYTES;
        }
        ptx_sm80::copies_wait<0>();
        __syncthreads();
        join.template finish<T>(p, row0, column0, division.slices, (float *)memory, sums);
    }
}

/* What a kernel is made for: the type of A, the weights, and the SPAN of packed_kernel. */
template <typename T, class W, int STEPS> struct kind {
    using type = T;
    using weights = W;
    static constexpr int SPAN = STEPS;
};

/* Calls `f` for each kind, until it fails. */
template <class F> static cudaError_t for_each_kind(F f)
{
    cudaError_t error = cudaSuccess;
    const auto each = [&](auto... kinds) {
        ((error = error == cudaSuccess ? f(kinds) : error), ...);
    };
    const auto of_type = [&](auto of) {
        using T = decltype(of);
        each(kind<T, integer<4>, UNIT>(), kind<T, integer<4>, PIECE>(), kind<T, integer<8>, UNIT>(),
             kind<T, integer<8>, PIECE>(), kind<T, e4m3, UNIT>(), kind<T, e4m3, PIECE>(),
             kind<T, scaled_e2m1, UNIT>());
    };
    of_type(__half());
    of_type(__nv_bfloat16());
    each(kind<__half, e2m1, PIECE>());
    return error;
}

/* Calls `f` for the kind that a problem needs. */
template <typename T, class F> static enum gemmd_error with_kind_of(const gemm_problem &p, F f)
{
    const bool is_short = p.packed.group < UNIT && p.packed.group < p.k;
    if (p.packed.element == PACKED_F8_E4M3)
        return is_short ? f(kind<T, e4m3, PIECE>()) : f(kind<T, e4m3, UNIT>());
    if (p.packed.element == PACKED_INTEGER && p.packed.bits == 4)
        return is_short ? f(kind<T, integer<4>, PIECE>()) : f(kind<T, integer<4>, UNIT>());
    if (p.packed.element == PACKED_INTEGER)
        return is_short ? f(kind<T, integer<8>, PIECE>()) : f(kind<T, integer<8>, UNIT>());
    if constexpr (std::is_same<T, __half>::value)
        if (p.packed.group == PIECE) /* scales of e8m0 */
            return f(kind<T, e2m1, PIECE>());
    return f(kind<T, scaled_e2m1, UNIT>());
}
template <class F> static enum gemmd_error with_kind(const gemm_problem &p, F f)
{
    return p.dtype == GEMMD_F16 ? with_kind_of<__half>(p, f) : with_kind_of<__nv_bfloat16>(p, f);
}

/* Allows a kernel as much dynamic shared memory as it needs. */
template <class Kernel> static cudaError_t allow_memory(Kernel kernel, unsigned bytes)
{
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
}

static inline division divide(const gemm_problem &p, unsigned slices)
{
    return {slices, packed_units(&p.packed), packed_slice_units(&p.packed, slices),
            !p.transa && p.lda % 8 == 0 && (uintptr_t)p.a % 16 == 0};
}

/* A kernel for up to 8 * MMAS rows a block. */
template <int MMAS_OF_WIDTH, class MultiplyOfWidth> struct width {
    static constexpr int MMAS = MMAS_OF_WIDTH;
    using Multiply = MultiplyOfWidth;
};

/* The kernels of a Join for all kinds, from few to many rows. */
template <template <int> class Join, class... Widths> struct kernels {
    static cudaError_t prepare()
    {
        return for_each_kind([](auto kind) {
            cudaError_t error = cudaSuccess;
            ((error = error == cudaSuccess ? allow_memory(kernel<decltype(kind), Widths>,
                                                          shared_bytes<decltype(kind), Widths>)
                                           : error),
             ...);
            return error;
        });
    }

    static enum gemmd_error launch(cudaStream_t stream, const gemm_problem &p, unsigned slices)
    {
        return launch_rows<Widths...>(stream, p, slices);
    }

  private:
    template <class Kind, class Width>
    static constexpr auto kernel =
        packed_kernel<typename Kind::type, typename Kind::weights, Width::MMAS, Kind::SPAN,
                      typename Width::Multiply, Join>;
    template <class Kind, class Width>
    static constexpr unsigned shared_bytes = stage_parts<Kind::weights::BITS, Width::MMAS>::SHARED;

    template <class Width, class... Wider>
    static enum gemmd_error launch_rows(cudaStream_t stream, const gemm_problem &p, unsigned slices)
    {
        if constexpr (sizeof...(Wider) > 0)
            if (p.m > Width::MMAS * ROWS_OF_MMA)
                return launch_rows<Wider...>(stream, p, slices);
        using J = Join<Width::MMAS>;
        const dim3 grid(grid_blocks_x(p.n, TILE) * J::blocks(slices),
                        grid_blocks(p.m, Width::MMAS * ROWS_OF_MMA));
        return with_kind(p, [&](auto kind) {
            return J::launch(kernel<decltype(kind), Width>, grid,
                             shared_bytes<decltype(kind), Width>, stream, p, divide(p, slices));
        });
    }
};

} // namespace packed

#endif
