#include "kernels/cpu/microkernel.h"

#include <stdbool.h>

/* Vectors of 16 bytes, which every processor has: 16 registers hold 4 x 2 sums and operands. */
#define BASE_ROWS 4
#define BASE_BYTES 16

#define NAME f32_base
#define TARGET
#define ELEMENT float
#define ROWS BASE_ROWS
#define VECTOR_BYTES BASE_BYTES
#include "kernels/cpu/microkernel_body.h"

#define NAME f64_base
#define TARGET
#define ELEMENT double
#define ROWS BASE_ROWS
#define VECTOR_BYTES BASE_BYTES
#include "kernels/cpu/microkernel_body.h"

#define NAME i32_base
#define TARGET
#define ELEMENT uint32_t
#define ROWS BASE_ROWS
#define VECTOR_BYTES BASE_BYTES
#include "kernels/cpu/microkernel_body.h"

static const struct microkernel base[] = {
    {BASE_ROWS, 2 * BASE_BYTES / 8, f64_base},
    {BASE_ROWS, 2 * BASE_BYTES / 4, f32_base},
    {BASE_ROWS, 2 * BASE_BYTES / 4, i32_base},
};

#ifdef __x86_64__
/* 16 registers of 32 bytes: 6 x 2 sums, two of B, a broadcast of A. */
#define AVX2_ROWS 6
#define AVX2_BYTES 32

#define NAME f32_avx2
#define TARGET __attribute__((target("avx2,fma")))
#define ELEMENT float
#define ROWS AVX2_ROWS
#define VECTOR_BYTES AVX2_BYTES
#include "kernels/cpu/microkernel_body.h"

#define NAME f64_avx2
#define TARGET __attribute__((target("avx2,fma")))
#define ELEMENT double
#define ROWS AVX2_ROWS
#define VECTOR_BYTES AVX2_BYTES
#include "kernels/cpu/microkernel_body.h"

#define NAME i32_avx2
#define TARGET __attribute__((target("avx2,fma")))
#define ELEMENT uint32_t
#define ROWS AVX2_ROWS
#define VECTOR_BYTES AVX2_BYTES
#include "kernels/cpu/microkernel_body.h"

static const struct microkernel avx2[] = {
    {AVX2_ROWS, 2 * AVX2_BYTES / 8, f64_avx2},
    {AVX2_ROWS, 2 * AVX2_BYTES / 4, f32_avx2},
    {AVX2_ROWS, 2 * AVX2_BYTES / 4, i32_avx2},
};

/* 32 registers of 64 bytes: 12 x 2 sums; A is broadcast by the multiply-add itself. */
#define AVX512_ROWS 12
#define AVX512_BYTES 64

#define NAME f32_avx512
#define TARGET __attribute__((target("avx512f")))
#define ELEMENT float
#define ROWS AVX512_ROWS
#define VECTOR_BYTES AVX512_BYTES
#include "kernels/cpu/microkernel_body.h"

#define NAME f64_avx512
#define TARGET __attribute__((target("avx512f")))
#define ELEMENT double
#define ROWS AVX512_ROWS
#define VECTOR_BYTES AVX512_BYTES
#include "kernels/cpu/microkernel_body.h"

#define NAME i32_avx512
#define TARGET __attribute__((target("avx512f")))
#define ELEMENT uint32_t
#define ROWS AVX512_ROWS
#define VECTOR_BYTES AVX512_BYTES
#include "kernels/cpu/microkernel_body.h"

static const struct microkernel avx512[] = {
    {AVX512_ROWS, 2 * AVX512_BYTES / 8, f64_avx512},
    {AVX512_ROWS, 2 * AVX512_BYTES / 4, f32_avx512},
    {AVX512_ROWS, 2 * AVX512_BYTES / 4, i32_avx512},
};

static const struct microkernel *best(void)
{
    if (__builtin_cpu_supports("avx512f"))
        return avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return avx2;
    return base;
}
#else
static const struct microkernel *best(void)
{
    return base;
}
#endif

const struct microkernel *microkernel_for(enum gemmd_dtype accumulator)
{
    const struct microkernel *of_each_type = best();
    return &of_each_type[accumulator == GEMMD_F64 ? 0 : accumulator == GEMMD_F32 ? 1 : 2];
}
