/*
 * wgmma.cuh - the tensor core's instruction on Hopper: D (64 x N, registers) += X (64 x K) * Y (K x
 * N), both operands in shared memory, issued by a warpgroup (PTX ISA 9.7.15).
 *
 * D, per thread: d[8*j + 4*h2 + 2*h1 + e] hold, for lane l of warp w, the element of
 *   row  16*w + l/4 + 8*h1,  column  16*j + 8*h2 + 2*(l%4) + e.
 *
 * Shared-memory tiles are as TMA writes boxes of 128 bytes width with 128-byte swizzle:
 * line i of a tile is the 128 bytes at 128*i, and its 16-byte pieces c lie at c ^ (i % 8). Tiles
 * start at multiples of 1024 bytes. Two ways for an operand to lie in them:
 *
 *   K-major   a line is one row of X (column of Y), its 128 bytes run along k. All types.
 *             From 8 lines to the next 8: 1024 bytes ("stride" offset). One instruction takes 32
 *             bytes of k; the next 32 start 32 bytes further. Lines may have 64 bytes, in boxes
 *             with 64-byte swizzle: half of all that.
 *   MN-major  a line is one k, its 128 bytes run along 64 rows of X (columns of Y). 16-bit types.
 *             From 8 k to the next 8: 1024 bytes ("stride" offset); from 64 rows to the next 64:
 *             the tile of TILE_K lines, 128*TILE_K bytes ("leading" offset). One instruction takes
 *             16 k; the next 16 start 2048 bytes further.
 *
 * X may also be in registers (wgmma_registers), and tf32 then comes from tiles that lie either way.
 */
#ifndef KERNELS_CUDA_SM90_WGMMA_CUH
#define KERNELS_CUDA_SM90_WGMMA_CUH

#include <stdint.h>

#include "kernels/cuda/ptx.cuh"

namespace sm90
{

/* The types of operands. F32 is multiplied as three parts of bf16 (move/parts.cu), so the tensor
 * core multiplies bf16. */
enum element { BF16, F16, I8, TF32, F32, F8 };

template <element E> constexpr int element_bytes = E == TF32 ? 4 : E == I8 || E == F8 ? 1 : 2;

template <element E> struct accumulator {
    using type = float;
};
template <> struct accumulator<I8> {
    using type = int32_t;
};
template <element E> using accumulator_t = typename accumulator<E>::type;

/* The descriptor of an operand in shared memory. `address` is the address of its first line.
 * K_BYTES is the length of a line along k, or twice the number of lines of k in a tile. */
template <bool K_MAJOR, uint32_t K_BYTES>
__device__ __forceinline__ uint64_t tile_descriptor(uint32_t address)
{
    static_assert(!K_MAJOR || K_BYTES == 128 || K_BYTES == 64, "swizzles of 128 and of 64 bytes");
    const uint64_t leading = K_MAJOR ? 16 : 64 * K_BYTES;
    const uint64_t stride = K_MAJOR ? 8 * K_BYTES : 1024;
    const uint64_t swizzle = K_MAJOR && K_BYTES == 64 ? 2 : 1;
    return (uint64_t)((address & 0x3FFFF) >> 4) | (leading >> 4) << 16 | (stride >> 4) << 32 |
           swizzle << 62;
}

/* The descriptor of 32 columns of an MN-major Y whose lines have 64 bytes, with 64-byte swizzle:
 * from 8 k to the next 8 are 512 bytes. */
__device__ __forceinline__ uint64_t half_descriptor(uint32_t address)
{
    return (uint64_t)((address & 0x3FFFF) >> 4) | (uint64_t)(512 >> 4) << 16 |
           (uint64_t)(512 >> 4) << 32 | (uint64_t)2 << 62;
}

/* The step of half_descriptor from one instruction's k to the next. */
constexpr uint64_t half_k_step = (16 * 64) >> 4;

/* The descriptor's step from one instruction's k to the next. */
template <bool K_MAJOR> constexpr uint64_t descriptor_k_step = (K_MAJOR ? 32 : 16 * 128) >> 4;

/* Called before the first wgmma that uses registers which other instructions have written. */
__device__ __forceinline__ void wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Waits until at most PENDING committed groups of this warpgroup are unfinished. */
template <int PENDING> __device__ __forceinline__ void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

/* Keeps the compiler from moving uses of a product's registers across this point. */
__device__ __forceinline__ void pin(float &value)
{
    asm volatile("" : "+f"(value)::"memory");
}
__device__ __forceinline__ void pin(int32_t &value)
{
    asm volatile("" : "+r"(value)::"memory");
}
__device__ __forceinline__ void pin(uint32_t &value)
{
    asm volatile("" : "+r"(value)::"memory");
}
template <class T, int COUNT> __device__ __forceinline__ void pin(T (&values)[COUNT])
{
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        pin(values[i]);
    }
}
template <class T, int COUNT, int BLOCKS>
__device__ __forceinline__ void pin(T (&values)[BLOCKS][COUNT])
{
#pragma unroll
    for (int i = 0; i < BLOCKS; i++) {
        pin(values[i]);
    }
}

/* clang-format off */
#define WGMMA_OPERANDS_8(c, d, i)                                                                  \
    c(d[i]), c(d[i + 1]), c(d[i + 2]), c(d[i + 3]), c(d[i + 4]), c(d[i + 5]), c(d[i + 6]), c(d[i + 7])
#define WGMMA_OPERANDS_16(c, d, i) WGMMA_OPERANDS_8(c, d, i), WGMMA_OPERANDS_8(c, d, i + 8)
#define WGMMA_OPERANDS_32(c, d, i) WGMMA_OPERANDS_16(c, d, i), WGMMA_OPERANDS_16(c, d, i + 16)
#define WGMMA_OPERANDS_64(c, d, i) WGMMA_OPERANDS_32(c, d, i), WGMMA_OPERANDS_32(c, d, i + 32)
#define WGMMA_OPERANDS_128(c, d, i) WGMMA_OPERANDS_64(c, d, i), WGMMA_OPERANDS_64(c, d, i + 64)
#define WGMMA_OPERANDS_40(c, d, i) WGMMA_OPERANDS_32(c, d, i), WGMMA_OPERANDS_8(c, d, i + 32)
#define WGMMA_OPERANDS_48(c, d, i) WGMMA_OPERANDS_32(c, d, i), WGMMA_OPERANDS_16(c, d, i + 32)
#define WGMMA_OPERANDS_80(c, d, i) WGMMA_OPERANDS_64(c, d, i), WGMMA_OPERANDS_16(c, d, i + 64)
#define WGMMA_OPERANDS_96(c, d, i) WGMMA_OPERANDS_64(c, d, i), WGMMA_OPERANDS_32(c, d, i + 64)
#define WGMMA_NAMES_8 "%0,%1,%2,%3,%4,%5,%6,%7"
#define WGMMA_NAMES_16 WGMMA_NAMES_8 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define WGMMA_NAMES_32 WGMMA_NAMES_16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define WGMMA_NAMES_40 WGMMA_NAMES_32 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define WGMMA_NAMES_48 WGMMA_NAMES_40 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define WGMMA_NAMES_64 WGMMA_NAMES_48 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define WGMMA_NAMES_80 WGMMA_NAMES_64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define WGMMA_NAMES_96 WGMMA_NAMES_80 ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define WGMMA_NAMES_128 WGMMA_NAMES_96 ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111" \
    ",%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"

/* One instruction with COUNT registers. X, Y and S name the operands that follow them. */
#define WGMMA_ISSUE(N, COUNT, X, Y, S, KIND, C, TAIL)                                              \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #S ", 0;\n"                                  \
                 "wgmma.mma_async.sync.aligned.m64n" #N KIND " {" WGMMA_NAMES_##COUNT "}, %" #X    \
                 ", %" #Y ", p" TAIL ";\n}"                                                        \
                 : WGMMA_OPERANDS_##COUNT(C, d, 0)                                                 \
                 : "l"(x), "l"(y), "r"(accumulate))
#define WGMMA_FLOAT(v) "+f"(v)
#define WGMMA_INT(v) "+r"(v)

#define WGMMA_16_BIT(N, COUNT, X, Y, S, KIND)                                                      \
    if constexpr (XK && YK) WGMMA_ISSUE(N, COUNT, X, Y, S, KIND, WGMMA_FLOAT, ", 1, 1, 0, 0");     \
    else if constexpr (XK) WGMMA_ISSUE(N, COUNT, X, Y, S, KIND, WGMMA_FLOAT, ", 1, 1, 0, 1");      \
    else if constexpr (YK) WGMMA_ISSUE(N, COUNT, X, Y, S, KIND, WGMMA_FLOAT, ", 1, 1, 1, 0");      \
    else WGMMA_ISSUE(N, COUNT, X, Y, S, KIND, WGMMA_FLOAT, ", 1, 1, 1, 1")

/* The instruction of width N, for each type and each way the operands can lie. */
#define WGMMA_WIDTH(N, COUNT, X, Y, S)                                                             \
    template <element E, bool XK, bool YK>                                                         \
    __device__ __forceinline__ void wgmma(accumulator_t<E> (&d)[N / 2], uint64_t x, uint64_t y,    \
                                          uint32_t accumulate)                                     \
    {                                                                                              \
        static_assert(element_bytes<E> == 2 || (XK && YK), "only 16-bit types can be MN-major");   \
        if constexpr (E == BF16 || E == F32)                                                       \
            { WGMMA_16_BIT(N, COUNT, X, Y, S, "k16.f32.bf16.bf16"); }                              \
        else if constexpr (E == F16) { WGMMA_16_BIT(N, COUNT, X, Y, S, "k16.f32.f16.f16"); }       \
        else if constexpr (E == TF32)                                                              \
            WGMMA_ISSUE(N, COUNT, X, Y, S, "k8.f32.tf32.tf32", WGMMA_FLOAT, ", 1, 1");             \
        else if constexpr (E == F8)                                                                \
            WGMMA_ISSUE(N, COUNT, X, Y, S, "k32.f32.e4m3.e4m3", WGMMA_FLOAT, ", 1, 1");            \
        else WGMMA_ISSUE(N, COUNT, X, Y, S, "k32.s32.s8.s8", WGMMA_INT, "");                       \
    }

/* wgmma(d, x, y, accumulate): d = x * y, plus d if accumulate is not 0. Asynchronous. */
WGMMA_WIDTH(16, 8, 8, 9, 10)
WGMMA_WIDTH(32, 16, 16, 17, 18)
WGMMA_WIDTH(64, 32, 32, 33, 34)
WGMMA_WIDTH(80, 40, 40, 41, 42)
WGMMA_WIDTH(96, 48, 48, 49, 50)
WGMMA_WIDTH(128, 64, 64, 65, 66)
WGMMA_WIDTH(160, 80, 80, 81, 82)
WGMMA_WIDTH(192, 96, 96, 97, 98)
WGMMA_WIDTH(256, 128, 128, 129, 130)

/* The same with X in registers. For 16-bit types X is 64 x 16: x[2*h2 + h1] of lane l of warp w
 * holds the elements of row 16*w + l/4 + 8*h1 in columns 8*h2 + 2*(l%4) and the next one. D has the
 * same layout, and ldmatrix loads it. For tf32, with Y along k, X is 64 x 8, and x[2*h2 + h1] holds
 * column 4*h2 + l%4. The registers of x are read until the product is waited for. */
#define WGMMA_REGISTERS_ISSUE(N, COUNT, X0, X1, X2, X3, Y, S, KIND, TAIL)                          \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #S ", 0;\n"                                  \
                 "wgmma.mma_async.sync.aligned.m64n" #N KIND " {" WGMMA_NAMES_##COUNT "}, {%" #X0   \
                 ",%" #X1 ",%" #X2 ",%" #X3 "}, %" #Y ", p" TAIL ";\n}"                            \
                 : WGMMA_OPERANDS_##COUNT(WGMMA_FLOAT, d, 0)                                       \
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(y), "r"(accumulate))
#define WGMMA_REGISTERS_KIND(N, COUNT, X0, X1, X2, X3, Y, S, KIND)                                 \
    if constexpr (YK) WGMMA_REGISTERS_ISSUE(N, COUNT, X0, X1, X2, X3, Y, S, KIND, ", 1, 1, 0");    \
    else WGMMA_REGISTERS_ISSUE(N, COUNT, X0, X1, X2, X3, Y, S, KIND, ", 1, 1, 1")
#define WGMMA_REGISTERS_WIDTH(N, COUNT, X0, X1, X2, X3, Y, S)                                      \
    template <element E, bool YK>                                                                  \
    __device__ __forceinline__ void wgmma_registers(float (&d)[N / 2], const uint32_t (&x)[4],     \
                                                    uint64_t y, uint32_t accumulate)               \
    {                                                                                              \
        static_assert(E == BF16 || E == F16 || (E == TF32 && YK), "which take X so");              \
        if constexpr (E == TF32)                                                                   \
            WGMMA_REGISTERS_ISSUE(N, COUNT, X0, X1, X2, X3, Y, S, "k8.f32.tf32.tf32", ", 1, 1");   \
        else if constexpr (E == BF16)                                                              \
            { WGMMA_REGISTERS_KIND(N, COUNT, X0, X1, X2, X3, Y, S, "k16.f32.bf16.bf16"); }         \
        else { WGMMA_REGISTERS_KIND(N, COUNT, X0, X1, X2, X3, Y, S, "k16.f32.f16.f16"); }          \
    }
WGMMA_REGISTERS_WIDTH(16, 8, 8, 9, 10, 11, 12, 13)
WGMMA_REGISTERS_WIDTH(32, 16, 16, 17, 18, 19, 20, 21)
WGMMA_REGISTERS_WIDTH(64, 32, 32, 33, 34, 35, 36, 37)
WGMMA_REGISTERS_WIDTH(96, 48, 48, 49, 50, 51, 52, 53)
WGMMA_REGISTERS_WIDTH(128, 64, 64, 65, 66, 67, 68, 69)
WGMMA_REGISTERS_WIDTH(192, 96, 96, 97, 98, 99, 100, 101)
WGMMA_REGISTERS_WIDTH(256, 128, 128, 129, 130, 131, 132, 133)
/* clang-format on */

} // namespace sm90

#endif
