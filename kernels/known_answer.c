#include "kernels/known_answer.h"

#include <stdlib.h>
#include <string.h>

#include "proto/dtype.h"

enum { M = KNOWN_ANSWER_M, N = KNOWN_ANSWER_N, K = KNOWN_ANSWER_K };
enum { A_BYTES = M * K * 8, B_BYTES = K * N * 8 }; /* in f64, the widest type */

/* Elements are -2 ... 2, so that no sum is larger than 4 * K = 256, which bf16 represents exactly
 * with its 8 bits. */
static int a_at(int row, int column)
{
    return (3 * row + 7 * column + row * column) % 5 - 2;
}

static int b_at(int row, int column)
{
    return (5 * row + 2 * column + row * column) % 5 - 2;
}

/* The product of all rows and columns. */
static void multiply(int c[M][N])
{
    int b[K][N];
    for (int i = 0; i < K; i++)
        for (int j = 0; j < N; j++)
            b[i][j] = b_at(i, j);
    for (int row = 0; row < M; row++)
        for (int i = 0; i < K; i++) {
            const int a = a_at(row, i);
            for (int j = 0; j < N; j++)
                c[row][j] = (i > 0 ? c[row][j] : 0) + a * b[i][j];
        }
}

struct layout {
    uint32_t mantissa_bits, exponent_bits;
};

static bool floating_layout(enum gemmd_dtype dtype, struct layout *layout)
{
    switch (dtype) {
    case GEMMD_F64:
        *layout = (struct layout){52, 11};
        return true;
    case GEMMD_F32:
        *layout = (struct layout){23, 8};
        return true;
    case GEMMD_F16:
        *layout = (struct layout){10, 5};
        return true;
    case GEMMD_BF16:
        *layout = (struct layout){7, 8};
        return true;
    case GEMMD_F8_E4M3:
        *layout = (struct layout){3, 4};
        return true;
    default:
        return false;
    }
}

/* The bits of a small integer in a type that represents the integer exactly. */
static uint64_t bits_of(int value, enum gemmd_dtype dtype)
{
    struct layout layout;
    if (!floating_layout(dtype, &layout))
        return (uint64_t)(int64_t)value;
    if (value == 0)
        return 0;
    uint32_t magnitude = (uint32_t)abs(value);
    uint32_t exponent = 31u - (uint32_t)__builtin_clz(magnitude);
    uint64_t bias = (1u << (layout.exponent_bits - 1)) - 1;
    uint64_t fraction = magnitude - (1u << exponent);
    if (exponent <= layout.mantissa_bits)
        fraction <<= layout.mantissa_bits - exponent;
    else
        fraction >>=
            exponent -
            layout.mantissa_bits; /* shifts zeros out: the type represents the value exactly */
    uint64_t sign = value < 0;
    return sign << (layout.mantissa_bits + layout.exponent_bits) |
           (exponent + bias) << layout.mantissa_bits | fraction;
}

static unsigned char *element(void *matrix, int index, enum gemmd_dtype dtype)
{
    return (unsigned char *)matrix + (size_t)index * dtype_size(dtype);
}

/* Elements are little-endian, as in requests and answers. */
void known_answer_store(unsigned char *to, int value, enum gemmd_dtype dtype)
{
    const uint64_t bits = bits_of(value, dtype);
    const uint32_t size = dtype_size(dtype);
    for (uint32_t i = 0; i < size; i++)
        to[i] = (unsigned char)(bits >> 8 * i);
}

static bool holds(const unsigned char *at, int value, enum gemmd_dtype dtype)
{
    uint32_t size = dtype_size(dtype);
    unsigned char expected[8];
    known_answer_store(expected, value, dtype);
    if (memcmp(at, expected, size) == 0)
        return true;
    /* A zero with the other sign is a right answer too. */
    struct layout layout;
    expected[size - 1] ^= 0x80;
    return value == 0 && floating_layout(dtype, &layout) && memcmp(at, expected, size) == 0;
}

void known_answer_init(struct gemm_problem *problem, enum gemmd_dtype dtype, enum gemmd_dtype out,
                       bool transa, bool transb, void *memory)
{
    unsigned char *a = memory, *b = a + A_BYTES, *c = b + B_BYTES;
    _Static_assert(A_BYTES + B_BYTES + M * N * 8 <= KNOWN_ANSWER_BYTES, "operands and result fit");
    _Static_assert(A_BYTES % 256 == 0 && B_BYTES % 256 == 0, "every part is aligned");

    *problem = (struct gemm_problem){
        .dtype = dtype,
        .out = out,
        .transa = transa,
        .transb = transb,
        .m = M,
        .n = N,
        .k = K,
        .batch = 1,
        .alpha = 1,
        .a = a,
        .b = b,
        .c = c,
    };
    gemm_problem_contiguous(problem);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < K; j++)
            known_answer_store(element(a, transa ? j * M + i : i * K + j, dtype), a_at(i, j),
                               dtype);
    for (int i = 0; i < K; i++)
        for (int j = 0; j < N; j++)
            known_answer_store(element(b, transb ? j * K + i : i * N + j, dtype), b_at(i, j),
                               dtype);
    memset(c, 0xff, (size_t)M * N * dtype_size(out));
}

bool known_answer_check(const void *of, uint64_t *row, uint64_t *column)
{
    const struct gemm_problem *problem = of;
    int c[M][N];
    multiply(c);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            if (!holds(element(problem->c, i * N + j, problem->out), c[i][j], problem->out)) {
                *row = (uint64_t)i;
                *column = (uint64_t)j;
                return false;
            }
    return true;
}
