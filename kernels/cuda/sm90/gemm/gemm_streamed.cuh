/*
 * gemm_streamed.cuh - f32 with precision full for up to 16 rows: each warp streams its own columns
 * of B and computes their sums by itself.
 *
 * A warp computes ROWS rows by 8 columns of C. It copies its columns of B, and the rows of A, into a
 * ring of its own in shared memory (cp.async), decomposes the numbers into parts (parts.cuh) in
 * registers and multiplies them there (mma.sync). So warps wait for nothing but their copies. The
 * numbers of a stage are decomposed while the products of the stage before are added, because those
 * are two chains, in each of which a product waits for the one before.
 *
 * The order of the products, and where sums begin, are those of sum_parts (gemm.cuh), and so are
 * the bits. An instruction multiplies 16 steps of k, whose order within the instruction does not
 * matter to the result: lane l has steps 4 * (l % 4) to 4 * (l % 4) + 3 of both operands.
 */
#ifndef KERNELS_CUDA_SM90_GEMM_GEMM_STREAMED_CUH
#define KERNELS_CUDA_SM90_GEMM_GEMM_STREAMED_CUH

#include "kernels/cuda/move/parts.cuh"
#include "kernels/cuda/ptx_sm80.cuh"
#include "kernels/cuda/sm90/gemm/gemm.cuh"

namespace sm90
{

/* A configuration. ROWS: the most rows of A. STAGES: of a warp's ring. YK: whether the lines of B
 * run along k. */
template <int ROWS_, uint32_t STAGES_, bool YK_> struct streamed {
    static constexpr int ROWS = ROWS_;
    static constexpr uint32_t STAGES = STAGES_;
    static constexpr bool YK = YK_;
    static constexpr uint32_t WARPS = 4, WARP_COLUMNS = 8, COLUMNS = WARPS * WARP_COLUMNS;
    static constexpr uint32_t STAGE_K = 32, STEPS = 2; /* STEPS: instructions of 16 steps of k */
    static constexpr uint32_t B_BYTES = WARP_COLUMNS * STAGE_K * 4, A_BYTES = ROWS * STAGE_K * 4;
    static constexpr uint32_t STAGE_BYTES = A_BYTES + B_BYTES, RING_BYTES = STAGES * STAGE_BYTES;
    static constexpr uint32_t SHARED_BYTES = PANEL_BYTES + WARPS * RING_BYTES;
    static constexpr int THREADS = 32 * WARPS;
    static constexpr int HIGH = ROWS > 8 ? 2 : 1; /* rows l/4, or also l/4 + 8, of lane l */
    static constexpr uint32_t A_COPIES = (ROWS * 8 + 31) / 32; /* of 16 bytes, of a lane */
};

/* Copies the first `bytes` of 16 bytes that the other warps of the block read too, through the L1;
 * the rest becomes zeros. */
__device__ __forceinline__ void copy_rows(uint32_t to, const void *from, uint32_t bytes)
{
    asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(bytes)
                 : "memory");
}

/* A lane's copies of one warp's stages. */
template <class C> struct stream {
    const float *b, *a;
    int64_t b_stage, b_next, a_next; /* from one stage to the next, and from one copy to the next */
    uint32_t b_to, a_to;
    uint32_t b_columns; /* bytes of a copy of B that are columns of B */
    uint32_t a_rows;    /* of the lane's copies of A, how many are rows of A */
    uint32_t b_k, a_k;  /* the first step of k of the lane's first copies */

    __device__ __forceinline__ stream(const sm90_arguments &p, uint32_t batch, uint32_t column,
                                      uint32_t lane)
    {
        const float *first = p.b.data + batch * p.b.batch_step;
        if constexpr (C::YK) {
            const uint32_t own = column + lane / 4;
            b_k = 4 * (lane % 4);
            b = first + own * p.b.line_step + b_k;
            b_stage = C::STAGE_K;
            b_next = 16;
            b_columns = own < p.n ? 16 : 0;
            b_to = C::A_BYTES + 16 * lane;
        } else { /* a line is one k; lines 4q + i of 16 are in place 4i + q */
            const uint32_t own = column + lane % 2 * 4;
            b_k = lane / 2;
            b = first + own + b_k * p.b.k_step;
            b_stage = C::STAGE_K * p.b.k_step;
            b_next = 16 * p.b.k_step;
            b_columns = own < p.n ? 4 * min(4, p.n - own) : 0;
            b_to = C::A_BYTES + (b_k % 4 * 4 + b_k / 4) * 32 + lane % 2 * 16;
        }
        const uint32_t row = lane / 8, piece = lane % 8;
        a_k = 4 * piece;
        a = p.a.data + batch * p.a.batch_step + row * p.a.line_step + a_k;
        a_next = 4 * p.a.line_step;
        a_rows = row < p.m && row < C::ROWS ? min((p.m - row + 3) / 4, C::A_COPIES) : 0;
        a_to = row * 128 + ((piece ^ row % 2 * 4) << 4);
    }

    /* The bytes that exist of four numbers along k from `k` on. */
    static __device__ __forceinline__ uint32_t along_k(uint32_t k, uint32_t left)
    {
        return k < left ? 4 * min(4, left - k) : 0;
    }
    /* Prefetches the lane's next stage of B into the L2. */
    __device__ __forceinline__ void prefetch(uint32_t stage) const
    {
#pragma unroll
        for (uint32_t i = 0; i < C::STEPS; i++) {
            if (b_columns > 0) {
                asm volatile("prefetch.global.L2 [%0];" ::"l"(b + stage * b_stage + i * b_next));
            }
        }
    }
    /* Copies the next stage to `to`; `left` steps of k are left. */
    __device__ __forceinline__ void copy(uint32_t to, uint32_t left)
    {
#pragma unroll
        for (uint32_t i = 0; i < C::STEPS; i++) {
            uint32_t bytes = b_columns;
            if (left < C::STAGE_K) {
                const uint32_t k = b_k + 16 * i;
                bytes = C::YK ? min(bytes, along_k(k, left)) : k < left ? bytes : 0;
            }
            ptx_sm80::copy_16(to + b_to + i * 512, b + i * b_next, bytes);
        }
#pragma unroll
        for (uint32_t i = 0; i < C::A_COPIES; i++) {
            if (i < a_rows) {
                copy_rows(to + a_to + i * 512, a + i * a_next,
                                         left < C::STAGE_K ? along_k(a_k, left) : 16);
            }
        }
        b += b_stage;
        a += C::STAGE_K;
    }
};

/* A lane's numbers of a stage, four steps of k for each instruction. */
template <class C> struct stage_numbers {
    float4 b[C::STEPS], a[C::STEPS][C::HIGH];
};

/* The parts of these numbers, as mma.sync takes them: two pairs for each instruction. */
template <class C> struct stage_parts {
    uint32_t b[C::STEPS][2][f32_parts::PARTS], a[C::STEPS][C::HIGH][2][f32_parts::PARTS];
};

__device__ __forceinline__ float4 as_floats(const uint4 &v)
{
    return make_float4(__uint_as_float(v.x), __uint_as_float(v.y), __uint_as_float(v.z),
                       __uint_as_float(v.w));
}

template <class C>
__device__ __forceinline__ void load_numbers(uint32_t from, uint32_t lane, uint32_t rows,
                                             stage_numbers<C> &v)
{
    const uint32_t row = lane / 4, piece = lane % 4;
#pragma unroll
    for (uint32_t i = 0; i < C::STEPS; i++) {
        if constexpr (C::YK) {
            v.b[i] = as_floats(ptx::load_shared_4(from + C::A_BYTES + i * 512 + 16 * lane));
        } else {
            const uint32_t at = from + C::A_BYTES + i * 512 + piece * 32 + row * 4;
            v.b[i] = make_float4(__uint_as_float(ptx::load_shared(at)),
                                 __uint_as_float(ptx::load_shared(at + 128)),
                                 __uint_as_float(ptx::load_shared(at + 256)),
                                 __uint_as_float(ptx::load_shared(at + 384)));
        }
#pragma unroll
        for (uint32_t high = 0; high < C::HIGH; high++) {
            v.a[i][high] = make_float4(0, 0, 0, 0);
            if (row + 8 * high < rows) {
                v.a[i][high] = as_floats(ptx::load_shared_4(
                    from + (row + 8 * high) * 128 + ((piece ^ (4 * i) ^ row % 2 * 4) << 4)));
            }
        }
    }
}

template <class C>
__device__ __forceinline__ void decompose(const stage_numbers<C> &v, stage_parts<C> &parts)
{
#pragma unroll
    for (uint32_t i = 0; i < C::STEPS; i++) {
        f32_parts::decompose(v.b[i].x, v.b[i].y, parts.b[i][0]);
        f32_parts::decompose(v.b[i].z, v.b[i].w, parts.b[i][1]);
#pragma unroll
        for (uint32_t high = 0; high < C::HIGH; high++) {
            f32_parts::decompose(v.a[i][high].x, v.a[i][high].y, parts.a[i][high][0]);
            f32_parts::decompose(v.a[i][high].z, v.a[i][high].w, parts.a[i][high][1]);
        }
    }
}

/* sums += one part of A times one part of B, over a stage. */
template <class C>
__device__ __forceinline__ void multiply_pair(const stage_parts<C> &parts, int a_part, int b_part,
                                              float (&sums)[4])
{
#pragma unroll
    for (uint32_t i = 0; i < C::STEPS; i++) {
        uint32_t x[4];
        x[0] = parts.a[i][0][0][a_part];
        x[2] = parts.a[i][0][1][a_part];
        x[1] = C::HIGH == 2 ? parts.a[i][C::HIGH - 1][0][a_part] : 0;
        x[3] = C::HIGH == 2 ? parts.a[i][C::HIGH - 1][1][a_part] : 0;
        ptx_sm80::multiply_add<__nv_bfloat16>(sums, x, parts.b[i][0][b_part],
                                              parts.b[i][1][b_part]);
    }
}

/* The products of a stage, in the order of multiply_parts (gemm.cuh). */
template <class C>
__device__ __forceinline__ void multiply_parts_of(const stage_parts<C> &parts, float (&large)[4],
                                                  float (&small)[4])
{
    multiply_pair<C>(parts, 0, 0, large);
    multiply_pair<C>(parts, 0, 2, small);
    multiply_pair<C>(parts, 2, 0, small);
    multiply_pair<C>(parts, 1, 1, small);
    multiply_pair<C>(parts, 0, 1, small);
    multiply_pair<C>(parts, 1, 0, small);
}

template <class C>
__global__ void __launch_bounds__(C::THREADS)
    sm90_gemm_streamed(const __grid_constant__ sm90_arguments p)
{
    extern __shared__ unsigned char shared_memory[];
    const uint32_t panel = ptx::shared_address(shared_memory);
    const uint32_t warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    const uint32_t begin = panel + PANEL_BYTES + warp * C::RING_BYTES;
    const uint32_t end = begin + C::RING_BYTES;
    const tile t = tile_at(p, blockIdx.x);
    const uint32_t column = t.column * C::COLUMNS;
    stream<C> in(p, t.batch, column + warp * C::WARP_COLUMNS, lane);
    for (uint32_t i = 0; i < C::STAGES && i < p.k_tiles; i++) {
        in.prefetch(i);
    }
    ptx::earlier_kernels_wait();
    uint32_t left = p.k; /* steps of k that are not copied yet */
    const auto copy_next = [&](uint32_t to) {
        if (left > 0) {
            in.copy(to, left);
            left -= min(left, C::STAGE_K);
            if (left == 0) {
                ptx::later_kernels_allow();
            }
        }
        ptx_sm80::copies_commit();
    };
    for (uint32_t i = 0; i < C::STAGES; i++) {
        copy_next(begin + i * C::STAGE_BYTES);
    }
    uint32_t at = begin;
    stage_numbers<C> v;
    const auto load_next = [&]() {
        ptx_sm80::copies_wait<C::STAGES - 1>();
        __syncwarp();
        load_numbers<C>(at, lane, p.m, v);
        __syncwarp();
        copy_next(at);
        at = at + C::STAGE_BYTES == end ? begin : at + C::STAGE_BYTES;
    };
    float d[4] = {}, small[4] = {};
    stage_parts<C> even, odd;
    load_next();
    decompose<C>(v, even);
    uint32_t i = 0;
    for (; i + 1 < p.k_tiles; i += 2) {
        float large[4] = {};
        load_next();
        multiply_parts_of<C>(even, large, small);
        decompose<C>(v, odd);
        load_next(); /* behind the last stage, numbers that are not used */
        multiply_parts_of<C>(odd, large, small);
        decompose<C>(v, even);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            d[j] += large[j];
        }
    }
    if (i < p.k_tiles) {
        float large[4] = {};
        multiply_parts_of<C>(even, large, small);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            d[j] += large[j];
        }
    }
#pragma unroll
    for (int j = 0; j < 4; j++) {
        d[j] = (d[j] + small[j]) * PARTS_SCALE;
    }
    const uint32_t piece = 2 * warp + lane % 4 / 2;
#pragma unroll
    for (uint32_t high = 0; high < 2; high++) {
        const uint32_t line = lane / 4 + 8 * high;
        ptx::store_shared_2(panel + line * 128 + ((piece ^ line % 8) << 4) + lane % 2 * 8,
                            __float_as_uint(d[2 * high]), __float_as_uint(d[2 * high + 1]));
    }
    __syncthreads();
    if (warp == 0) {
        finish_chunk<F32, C::COLUMNS>(p, panel, lane, t.batch, t.row * C::ROWS, column);
    }
}

} // namespace sm90

#endif
