/*
 * epilogue.cuh - from accumulators to C: act(alpha * d + beta * C0 + bias), rounded once.
 *
 * Each warp deals with its own 16 rows of a tile, 64 columns at a time, through 4 KiB of shared
 * memory that is its own: no barrier wider than a warp. Where nothing but alpha follows the sum,
 * the copy engine carries the result out while the warp goes on; else the warp reads its chunk back
 * line by line, so that C0 is read and C written in whole lines.
 *
 * Shared memory of a warp: panels of 16 lines of 128 bytes, swizzled as the copy engine does it
 * (16-byte piece c of line r at c ^ (r % 8)). 64 columns are one panel of 16-bit values or two
 * panels of 32-bit values.
 */
#ifndef KERNELS_CUDA_SM90_EPILOGUE_CUH
#define KERNELS_CUDA_SM90_EPILOGUE_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/sm90/arguments.h"
#include "kernels/cuda/sm90/wgmma.cuh"

namespace sm90
{

template <class T> constexpr bool is_integer = false;
template <> constexpr bool is_integer<int32_t> = true;

constexpr uint32_t PANEL_BYTES = 16 * 128;
constexpr uint32_t STAGING_BYTES = 2 * PANEL_BYTES; /* a warp's */
constexpr int CHUNK_COLUMNS = 64;

/* As enum gemm_act of proto/gemm_request.h, which C++ does not need to read. */
enum act { ACT_NONE, ACT_RELU, ACT_GELU, ACT_GELU_TANH, ACT_SILU };

__device__ __forceinline__ float activate(float v, uint32_t act)
{
    switch (act) {
    case ACT_RELU:
        return v < 0.0f ? 0.0f : v; /* keeps NaN */
    case ACT_GELU:
        return 0.5f * v * (1.0f + erff(v * 0.70710678118654752f));
    case ACT_GELU_TANH:
        return 0.5f * v * (1.0f + tanhf(0.79788456080286536f * (v + 0.044715f * v * v * v)));
    case ACT_SILU:
        return __fdividef(v, 1.0f + __expf(-v));
    default:
        return v;
    }
}

__device__ __forceinline__ uint32_t pack_bf16(float lo, float hi)
{
    const __nv_bfloat162 v = __floats2bfloat162_rn(lo, hi);
    return *reinterpret_cast<const uint32_t *>(&v);
}

__device__ __forceinline__ uint32_t pack_f16(float lo, float hi)
{
    const __half2 v = __floats2half2_rn(lo, hi);
    return *reinterpret_cast<const uint32_t *>(&v);
}

template <element E> __device__ __forceinline__ uint32_t pack_16(float lo, float hi, uint32_t out)
{
    if constexpr (E == BF16) {
        return pack_bf16(lo, hi);
    } else if constexpr (E == F16) {
        return pack_f16(lo, hi);
    } else {
        return out == SM90_OUT_BF16 ? pack_bf16(lo, hi) : pack_f16(lo, hi);
    }
}

/* One element of C0 or the bias, in the accumulator's arithmetic. */
__device__ __forceinline__ float load_float(const void *base, int64_t i, uint32_t out)
{
    switch (out) {
    case SM90_OUT_F16:
        return __half2float(static_cast<const __half *>(base)[i]);
    case SM90_OUT_BF16:
        return __bfloat162float(static_cast<const __nv_bfloat16 *>(base)[i]);
    default:
        return static_cast<const float *>(base)[i];
    }
}

__device__ __forceinline__ void store_float(void *base, int64_t i, float v, uint32_t out)
{
    switch (out) {
    case SM90_OUT_F16:
        static_cast<__half *>(base)[i] = __float2half_rn(v);
        break;
    case SM90_OUT_BF16:
        static_cast<__nv_bfloat16 *>(base)[i] = __float2bfloat16_rn(v);
        break;
    default:
        static_cast<float *>(base)[i] = v;
    }
}

/* What follows one sum. `at` indexes C0, `column` the bias. */
__device__ __forceinline__ float finish(const sm90_arguments &p, float v, int64_t at,
                                        uint32_t column)
{
    v *= p.alpha;
    if (p.c0) {
        v = fmaf(p.beta, load_float(p.c0, at, p.out), v);
    }
    if (p.bias) {
        v += load_float(p.bias, column, p.out);
    }
    return activate(v, p.act);
}

/* The same for 32-bit integers, modulo 2^32. */
__device__ __forceinline__ int32_t finish(const sm90_arguments &p, int32_t d, int64_t at,
                                          uint32_t column)
{
    uint32_t v = (uint32_t)d * (uint32_t)p.alpha_int;
    if (p.c0) {
        v += (uint32_t)p.beta_int * static_cast<const uint32_t *>(p.c0)[at];
    }
    if (p.bias) {
        v += static_cast<const uint32_t *>(p.bias)[column];
    }
    return p.act == ACT_RELU && (int32_t)v < 0 ? 0 : (int32_t)v;
}

template <class T>
__device__ __forceinline__ void finish_and_store(const sm90_arguments &p, T d, uint32_t batch,
                                                 uint32_t row, uint32_t column)
{
    const int64_t at0 = (int64_t)batch * p.stride_c0 + (int64_t)row * p.ldc0 + column;
    const int64_t at = (int64_t)batch * p.stride_c + (int64_t)row * p.ldc + column;
    if constexpr (is_integer<T>) {
        if (p.out == SM90_OUT_I32) {
            static_cast<int32_t *>(p.c_data)[at] = finish(p, d, at0, column);
            return;
        }
    }
    store_float(p.c_data, at, finish(p, (float)d, at0, column), p.out);
}

/* The 32 values of a thread that make up columns 64*chunk ... of its rows, as one or two panels. */
template <element E>
__device__ __forceinline__ void stage_16(const accumulator_t<E> *d, uint32_t panel, uint32_t lane,
                                         float alpha, uint32_t out)
{
    const uint32_t row = lane % 16; /* of the address this lane gives */
    const uint32_t line = panel + row * 128;
#pragma unroll
    for (int j = 0; j < CHUNK_COLUMNS / 16; j++) {
        uint32_t v[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            v[i] = pack_16<E>(alpha * (float)d[8 * j + 2 * i], alpha * (float)d[8 * j + 2 * i + 1],
                              out);
        }
        const uint32_t piece = 2 * j + lane / 16;
        ptx::store_matrices(line + ((piece ^ (row % 8)) << 4), v[0], v[1], v[2], v[3]);
    }
}

template <class T>
__device__ __forceinline__ void stage_32(const T *d, uint32_t panels, uint32_t lane)
{
#pragma unroll
    for (int j = 0; j < CHUNK_COLUMNS / 8; j++) {
        const uint32_t piece = 2 * (j % 4) + (lane % 4) / 2;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const uint32_t row = lane / 4 + 8 * h;
            const uint32_t address = panels + (j / 4) * PANEL_BYTES + row * 128 +
                                     ((piece ^ (row % 8)) << 4) + (lane % 2) * 8;
            uint32_t v[2];
            memcpy(v, d + 4 * j + 2 * h, sizeof v);
            ptx::store_shared_2(address, v[0], v[1]);
        }
    }
}

/* Reads a staged chunk back by lines and finishes it. row0, column0: of the chunk in C. */
template <class T>
__device__ __forceinline__ void finish_chunk(const sm90_arguments &p, uint32_t panels,
                                             uint32_t lane, uint32_t batch, uint32_t row0,
                                             uint32_t column0)
{
    const uint32_t column = column0 + 8 * (lane % 8);
    const uint32_t valid = column < p.n ? min(8u, p.n - column) : 0;
    const uint32_t piece = 2 * (lane % 4);
    const uint32_t panel = panels + (lane % 8) / 4 * PANEL_BYTES;
    float bias[8];
    if constexpr (!is_integer<T>) {
#pragma unroll
        for (uint32_t i = 0; i < 8; i++) {
            bias[i] = p.bias && i < valid ? load_float(p.bias, column + i, p.out) : 0.0f;
        }
    }
#pragma unroll 1
    for (uint32_t r = lane / 8; r < 16; r += 4) {
        const uint32_t row = row0 + r;
        if (row >= p.m || valid == 0) {
            continue;
        }
        const uint32_t line = panel + r * 128;
        T v[8];
        const uint4 v0 = ptx::load_shared_4(line + ((piece ^ (r % 8)) << 4));
        const uint4 v1 = ptx::load_shared_4(line + (((piece + 1) ^ (r % 8)) << 4));
        memcpy(v, &v0, sizeof v0);
        memcpy(v + 4, &v1, sizeof v1);
        if constexpr (is_integer<T>) {
#pragma unroll
            for (uint32_t i = 0; i < 8; i++) {
                if (i < valid) {
                    finish_and_store(p, v[i], batch, row, column + i);
                }
            }
        } else {
            const int64_t at0 = (int64_t)batch * p.stride_c0 + (int64_t)row * p.ldc0 + column;
            const int64_t at = (int64_t)batch * p.stride_c + (int64_t)row * p.ldc + column;
#pragma unroll
            for (uint32_t i = 0; i < 8; i++) {
                v[i] *= p.alpha;
                if (p.c0 && i < valid) {
                    v[i] = fmaf(p.beta, load_float(p.c0, at0 + i, p.out), v[i]);
                }
                if (p.bias) {
                    v[i] += bias[i];
                }
                v[i] = activate(v[i], p.act);
            }
            if (valid == 8 && p.out != SM90_OUT_F32) {
                const bool bf16 = p.out == SM90_OUT_BF16;
                uint4 packed;
                packed.x = bf16 ? pack_bf16(v[0], v[1]) : pack_f16(v[0], v[1]);
                packed.y = bf16 ? pack_bf16(v[2], v[3]) : pack_f16(v[2], v[3]);
                packed.z = bf16 ? pack_bf16(v[4], v[5]) : pack_f16(v[4], v[5]);
                packed.w = bf16 ? pack_bf16(v[6], v[7]) : pack_f16(v[6], v[7]);
                *reinterpret_cast<uint4 *>(static_cast<uint16_t *>(p.c_data) + at) = packed;
            } else if (valid == 8) {
                float4 *c = reinterpret_cast<float4 *>(static_cast<float *>(p.c_data) + at);
                c[0] = make_float4(v[0], v[1], v[2], v[3]);
                c[1] = make_float4(v[4], v[5], v[6], v[7]);
            } else {
                for (uint32_t i = 0; i < 8; i++) {
                    if (i < valid) {
                        store_float(p.c_data, at + i, v[i], p.out);
                    }
                }
            }
        }
    }
}

/* A warp's 16 rows of a tile of N columns: `d` holds this thread's part of 64 rows. row0 is the
 * first of the warp's rows, column0 the tile's first column. */
template <element E, int N>
__device__ __forceinline__ void store_rows(const sm90_arguments &p,
                                           const accumulator_t<E> (&d)[N / 2], uint32_t staging,
                                           uint32_t lane, uint32_t batch, uint32_t row0,
                                           uint32_t column0)
{
    constexpr int CHUNKS = N / CHUNK_COLUMNS;
    constexpr int CHUNK_VALUES = CHUNK_COLUMNS / 2;
    static_assert(N % CHUNK_COLUMNS == 0, "tiles are made of whole chunks");
    using T = accumulator_t<E>;

    if (p.plain && (p.out == SM90_OUT_F16 || p.out == SM90_OUT_BF16)) {
#pragma unroll
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            const uint32_t panel = staging + (chunk % 2) * PANEL_BYTES;
            if (lane == 0) {
                if (CHUNKS % 2 == 1 && chunk == 0) { /* the last one used this panel too */
                    ptx::bulk_wait_read<0>();
                } else {
                    ptx::bulk_wait_read<1>();
                }
            }
            __syncwarp();
            stage_16<E>(d + chunk * CHUNK_VALUES, panel, lane, p.alpha, p.out);
            ptx::fence_async_proxy();
            __syncwarp();
            if (lane == 0) {
                ptx::tensor_store(&p.c, panel, (int32_t)(column0 + chunk * CHUNK_COLUMNS),
                                  (int32_t)row0, (int32_t)batch);
                ptx::bulk_commit();
            }
        }
        return;
    }
#pragma unroll 1
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        if (lane == 0) {
            ptx::bulk_wait_read<0>();
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) { /* registers have no run-time index */
            if (i == chunk) {
                stage_32<T>(d + i * CHUNK_VALUES, staging, lane);
            }
        }
        __syncwarp();
        finish_chunk<T>(p, staging, lane, batch, row0, column0 + chunk * CHUNK_COLUMNS);
        __syncwarp();
    }
}

/* The same for swapped operands: the tile's rows are columns of C, its columns rows of C. The warp's
 * part of 16 columns of C goes through shared memory as [N rows of C, 16] values. */
template <element E, int N>
__device__ __forceinline__ void store_swapped(const sm90_arguments &p,
                                              const accumulator_t<E> (&d)[N / 2], uint32_t staging,
                                              uint32_t lane, uint32_t batch, uint32_t column0,
                                              uint32_t row0)
{
    static_assert(N * 16 * 4 <= STAGING_BYTES, "a warp's staging holds the whole tile");
    using T = accumulator_t<E>;
#pragma unroll
    for (int j = 0; j < N / 8; j++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint32_t row = 8 * j + 2 * (lane % 4) + i % 2;
            const uint32_t column = lane / 4 + 8 * (i / 2);
            uint32_t v;
            memcpy(&v, &d[4 * j + i], sizeof v);
            ptx::store_shared(staging + (row * 16 + column) * 4, v);
        }
    }
    __syncwarp();
    const uint32_t column = column0 + lane % 16;
    const uint32_t rows = row0 < p.m ? min((uint32_t)N, p.m - row0) : 0;
#pragma unroll 1
    for (uint32_t r = lane / 16; r < rows; r += 2) {
        const uint32_t bits = ptx::load_shared(staging + (r * 16 + lane % 16) * 4);
        T v;
        memcpy(&v, &bits, sizeof v);
        if (column < p.n) {
            finish_and_store(p, v, batch, row0 + r, column);
        }
    }
    __syncwarp();
}

} // namespace sm90

#endif
