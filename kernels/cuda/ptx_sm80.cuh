/*
 * ptx_sm80.cuh - instructions of sm_80 for which CUDA C++ has no function, one wrapper each.
 *
 * References are to the PTX ISA manual: cp.async (9.7.9.25.3), createpolicy, ldmatrix
 * (9.7.14.5.15), mma.m16n8k16 and the like (9.7.14.5.8). Shared-memory operands are 32-bit
 * addresses of the shared window.
 */
#ifndef KERNELS_CUDA_PTX_SM80_CUH
#define KERNELS_CUDA_PTX_SM80_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

namespace ptx_sm80
{

__device__ __forceinline__ uint32_t shared_address(const void *pointer)
{
    return (uint32_t)__cvta_generic_to_shared(pointer);
}

/* ---- asynchronous copies, global to shared ---- */

/* The first `bytes` of 16, which are aligned to 16; the rest becomes zeros. Nothing is read at
 * `from` if `bytes` is 0. */
__device__ __forceinline__ void copy_16(uint32_t to, const void *from, uint32_t bytes)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(bytes)
                 : "memory");
}

/* The same for data that is read once, which is evicted from the L2 first. */
__device__ __forceinline__ void copy_16_once(uint32_t to, const void *from, uint32_t bytes)
{
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile(
        "cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;" ::"r"(to),
        "l"(from), "r"(bytes), "l"(policy)
        : "memory");
}

/* Both without the number of bytes, which takes registers and instructions. */
__device__ __forceinline__ void copy_16(uint32_t to, const void *from)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from)
                 : "memory");
}
__device__ __forceinline__ void copy_16_once(uint32_t to, const void *from)
{
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2;" ::"r"(to),
                 "l"(from), "l"(policy)
                 : "memory");
}

/* 4 bytes, or 4 bytes of zeros if `bytes` is 0. */
__device__ __forceinline__ void copy_4(uint32_t to, const void *from, uint32_t bytes)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes)
                 : "memory");
}

__device__ __forceinline__ void copy_4(uint32_t to, const void *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}

/* Not asynchronous. */
__device__ __forceinline__ void store_16(uint32_t to, uint4 v)
{
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z),
                 "r"(v.w)
                 : "memory");
}

__device__ __forceinline__ void copies_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits for this thread's copies of all but the last PENDING groups that it committed. */
template <int PENDING> __device__ __forceinline__ void copies_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

/* ---- tensor cores ---- */

/* Four 8x8 matrices of 16-bit elements; lane l gives the address of row l%8 of matrix l/8, and
 * gets two neighbouring elements of row l/4 of each. */
__device__ __forceinline__ void load_matrices(uint32_t (&to)[4], uint32_t row_address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row_address)
                 : "memory");
}

/* The same, each matrix transposed. */
__device__ __forceinline__ void load_matrices_transposed(uint32_t (&to)[4], uint32_t row_address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row_address)
                 : "memory");
}

/* Rounds to the nearest tf32, ties away from zero, as cvt.rna.tf32 does except for the last 13
 * bits, which tensor cores ignore. Infinities and NaN are unchanged. */
__device__ __forceinline__ uint32_t round_to_tf32(uint32_t x)
{
    return fabsf(__uint_as_float(x)) < __int_as_float(0x7f800000) ? x + 0x1000 : x;
}

/* d += a * b: 16 rows by 32 bytes of k, by 8 columns. Lane l has the 4 bytes of k from 4*(l%4) on:
 * in a[0] and a[1] of rows l/4 and 8 + l/4, in b0 of column l/4; in a[2], a[3] and b1 those 16
 * bytes further. d[0] and d[1] are columns 2*(l%4) and the next of row l/4, d[2] and d[3] of row
 * 8 + l/4. */
template <typename Element, typename Sum>
__device__ __forceinline__ void multiply_add(Sum (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                             uint32_t b1);

template <>
__device__ __forceinline__ void multiply_add<__half>(float (&d)[4], const uint32_t (&a)[4],
                                                     uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3},"
                 " {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ __forceinline__ void multiply_add<__nv_bfloat16>(float (&d)[4], const uint32_t (&a)[4],
                                                            uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3},"
                 " {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Operands in the bits of tf32. */
template <>
__device__ __forceinline__ void multiply_add<float>(float (&d)[4], const uint32_t (&a)[4],
                                                    uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3},"
                 " {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ __forceinline__ void multiply_add<int8_t>(int32_t (&d)[4], const uint32_t (&a)[4],
                                                     uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3},"
                 " {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

} // namespace ptx_sm80

#endif
