#include "kernels/cpu/microkernel.h"

#include <stdbool.h>
#include <stddef.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#ifdef __clang__ /* has none (microkernel_body.h) */
#define OR_NULL(NAME) NULL
#else
#define OR_NULL(NAME) NAME
#endif

/* Vectors of 16 bytes, which every processor has: 16 registers hold 4 x 2 sums and operands. */
#define BASE_ROWS 4
#define BASE_BYTES 16

#define NAME f32_base
#define TARGET
#define ELEMENT float
#define HAS_FEW
#define ROWS BASE_ROWS
#define VECTOR_BYTES BASE_BYTES
#include "kernels/cpu/microkernel_body.h"

#define NAME f64_base
#define TARGET
#define ELEMENT double
#define HAS_FEW
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
    {.rows = BASE_ROWS,
     .columns = 2 * BASE_BYTES / 8,
     .steps = 1,
     .run = f64_base_run,
     .run_few = OR_NULL(f64_base_run_few),
     .run_lines = f64_base_run_lines,
     .sum_taps = f64_base_sum_taps},
    {.rows = BASE_ROWS,
     .columns = 2 * BASE_BYTES / 4,
     .steps = 1,
     .run = f32_base_run,
     .run_few = OR_NULL(f32_base_run_few),
     .run_lines = f32_base_run_lines,
     .sum_taps = f32_base_sum_taps},
    {.rows = BASE_ROWS,
     .columns = 2 * BASE_BYTES / 4,
     .steps = 1,
     .run = i32_base_run,
     .run_lines = i32_base_run_lines,
     .sum_taps = i32_base_sum_taps},
};

#ifdef __x86_64__
/* 16 registers of 32 bytes: 6 x 2 sums, two of B, a broadcast of A. */
#define AVX2_ROWS 6
#define AVX2_BYTES 32

#define NAME f32_avx2
#define TARGET __attribute__((target("avx2,fma,f16c")))
#define WIDEN_F16(from) _mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)(const void *)(from)))
#define ELEMENT float
#define HAS_FEW
#define ROWS AVX2_ROWS
#define VECTOR_BYTES AVX2_BYTES
#include "kernels/cpu/microkernel_body.h"

#define NAME f64_avx2
#define TARGET __attribute__((target("avx2,fma")))
#define ELEMENT double
#define HAS_FEW
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
    {.rows = AVX2_ROWS,
     .columns = 2 * AVX2_BYTES / 8,
     .steps = 1,
     .run = f64_avx2_run,
     .run_few = OR_NULL(f64_avx2_run_few),
     .run_lines = f64_avx2_run_lines,
     .sum_taps = f64_avx2_sum_taps},
    {.rows = AVX2_ROWS,
     .columns = 2 * AVX2_BYTES / 4,
     .steps = 1,
     .run = f32_avx2_run,
     .run_few = OR_NULL(f32_avx2_run_few),
     .run_few_f16 = OR_NULL(f32_avx2_run_few_f16),
     .run_lines = f32_avx2_run_lines,
     .sum_taps = f32_avx2_sum_taps},
    {.rows = AVX2_ROWS,
     .columns = 2 * AVX2_BYTES / 4,
     .steps = 1,
     .run = i32_avx2_run,
     .run_lines = i32_avx2_run_lines,
     .sum_taps = i32_avx2_sum_taps},
};

/* 32 registers of 64 bytes: 12 x 2 sums; A is broadcast by the multiply-add itself. */
#define AVX512_ROWS 12
#define AVX512_BYTES 64

#define NAME f32_avx512
#define TARGET __attribute__((target("avx512f")))
/* With AddressSanitizer, gcc 12 keeps the widened vectors on the stack, and not at multiples of 64
 * where a use after return is to be found (gcc's bug 110027). */
#ifndef __SANITIZE_ADDRESS__
#define WIDEN_F16(from) _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i_u *)(const void *)(from)))
#define F32_AVX512_RUN_FEW_F16 OR_NULL(f32_avx512_run_few_f16)
#else
#define F32_AVX512_RUN_FEW_F16 NULL
#endif
#define ELEMENT float
#define HAS_FEW
#define ROWS AVX512_ROWS
#define VECTOR_BYTES AVX512_BYTES
#include "kernels/cpu/microkernel_body.h"

#define NAME f64_avx512
#define TARGET __attribute__((target("avx512f")))
#define ELEMENT double
#define HAS_FEW
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
    {.rows = AVX512_ROWS,
     .columns = 2 * AVX512_BYTES / 8,
     .steps = 1,
     .run = f64_avx512_run,
     .run_few = OR_NULL(f64_avx512_run_few),
     .run_lines = f64_avx512_run_lines,
     .sum_taps = f64_avx512_sum_taps},
    {.rows = AVX512_ROWS,
     .columns = 2 * AVX512_BYTES / 4,
     .steps = 1,
     .run = f32_avx512_run,
     .run_few = OR_NULL(f32_avx512_run_few),
     .run_few_f16 = F32_AVX512_RUN_FEW_F16,
     .run_lines = f32_avx512_run_lines,
     .sum_taps = f32_avx512_sum_taps},
    {.rows = AVX512_ROWS,
     .columns = 2 * AVX512_BYTES / 4,
     .steps = 1,
     .run = i32_avx512_run,
     .run_lines = i32_avx512_run_lines,
     .sum_taps = i32_avx512_sum_taps},
};

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f");
}
#endif

static bool is_there(void)
{
    return true;
}

static const struct {
    const struct microkernel *of_each_type; /* f64, f32, i32 */
    bool (*usable)(void);
} sets[] = {
#ifdef __x86_64__
    {avx512, has_avx512},
    {avx2, has_avx2},
#endif
    {base, is_there},
};

const struct microkernel *microkernel_for(enum gemmd_dtype accumulator, uint32_t number)
{
    const uint32_t type = accumulator == GEMMD_F64 ? 0 : accumulator == GEMMD_F32 ? 1 : 2;
    for (uint32_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
        if (sets[i].usable() && number-- == 0)
            return &sets[i].of_each_type[type];
    return NULL;
}
