/* Products with packed weights: every kernel that takes them against f64, every type of weights and
 * of scales and every size of groups, rows that have the same bits whatever other rows there are,
 * and NaN of e4m3, which must not leave its column. */
#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "proto/dtype.h"
#include "proto/size.h"
#include "tests/gpu/gemm_check.h"
#include "tests/product/random.h"

static const struct packed_case {
    enum packed_element element;
    uint32_t bits;
    uint64_t k, n, group;
    bool has_zeros;
    enum gemmd_dtype dtype, scale_dtype;
    bool transa;
    uint64_t gap;  /* between the rows of A, in elements */
    double factor; /* of the whole matrix; 0: none */
} cases[] = {
    {PACKED_INTEGER, 4, 32, 8, 32, true, GEMMD_BF16, GEMMD_BF16, false, 0, 0},
    {PACKED_INTEGER, 4, 256, 72, 128, false, GEMMD_F16, GEMMD_F16, false, 0, 0},
    {PACKED_INTEGER, 8, 256, 72, 64, false, GEMMD_F16, GEMMD_F16, false, 0, 0},
    {PACKED_INTEGER, 4, 416, 40, 32, false, GEMMD_BF16, GEMMD_BF16, false, 8, 0},
    {PACKED_INTEGER, 8, 416, 40, 32, true, GEMMD_BF16, GEMMD_F32, false, 3, 0},
    {PACKED_INTEGER, 4, 1056, 24, 1056, false, GEMMD_BF16, GEMMD_F32, true, 5, 0},
    {PACKED_INTEGER, 8, 1056, 136, 1056, false, GEMMD_F16, GEMMD_F32, true, 0, 0},
    {PACKED_INTEGER, 4, 4096, 264, 64, true, GEMMD_F16, GEMMD_F16, false, 1, 0},
    {PACKED_INTEGER, 8, 4096, 136, 128, true, GEMMD_BF16, GEMMD_F16, false, 0, 0},
    {PACKED_INTEGER, 4, 1280, 392, 128, true, GEMMD_BF16, GEMMD_BF16, false, 0, 0},
    {PACKED_F4_E2M1, 4, 32, 8, 32, false, GEMMD_BF16, GEMMD_BF16, false, 0, 0},
    {PACKED_F4_E2M1, 4, 32, 24, 32, false, GEMMD_F16, GEMMD_BF16, false, 0, 0},
    {PACKED_F4_E2M1, 4, 416, 136, 32, false, GEMMD_BF16, GEMMD_BF16, false, 8, 0},
    {PACKED_F4_E2M1, 4, 1056, 40, 32, false, GEMMD_F16, GEMMD_BF16, true, 3, 0},
    {PACKED_F4_E2M1, 4, 4096, 264, 32, false, GEMMD_BF16, GEMMD_BF16, true, 1, 0},
    {PACKED_F4_E2M1, 4, 2880, 392, 32, false, GEMMD_F16, GEMMD_BF16, false, 0, 0},
    {PACKED_F4_E2M1, 4, 32, 8, 16, false, GEMMD_F16, GEMMD_BF16, false, 0, 0.0031},
    {PACKED_F4_E2M1, 4, 352, 264, 16, false, GEMMD_BF16, GEMMD_BF16, false, 0, 1 / 448.5},
    {PACKED_F4_E2M1, 4, 1056, 72, 16, false, GEMMD_F16, GEMMD_BF16, true, 5, 1 / 2688.0},
    {PACKED_F4_E2M1, 4, 4096, 136, 16, false, GEMMD_BF16, GEMMD_BF16, false, 1, 37.5},
    {PACKED_F8_E4M3, 8, 32, 8, 32, false, GEMMD_F16, GEMMD_F32, false, 0, 0},
    {PACKED_F8_E4M3, 8, 416, 136, 32, false, GEMMD_BF16, GEMMD_BF16, false, 8, 0},
    {PACKED_F8_E4M3, 8, 1088, 72, 64, false, GEMMD_F16, GEMMD_F16, true, 5, 0},
    {PACKED_F8_E4M3, 8, 1280, 264, 128, false, GEMMD_BF16, GEMMD_F32, false, 0, 0},
    {PACKED_F8_E4M3, 8, 4096, 40, 4096, false, GEMMD_BF16, GEMMD_BF16, true, 1, 0},
    {PACKED_F8_E4M3, 8, 2080, 392, 2080, false, GEMMD_F16, GEMMD_F16, false, 0, 0},
    /* With ROWS rows, more tiles than a GPU has multiprocessors. */
    {PACKED_INTEGER, 4, 416, 5672, 32, true, GEMMD_BF16, GEMMD_BF16, false, 8, 0},
    {PACKED_INTEGER, 4, 1280, 5640, 64, true, GEMMD_F16, GEMMD_F32, false, 0, 0},
    {PACKED_INTEGER, 4, 1280, 5672, 128, false, GEMMD_BF16, GEMMD_F16, false, 0, 0},
    {PACKED_INTEGER, 8, 1280, 5672, 128, true, GEMMD_F16, GEMMD_F16, false, 0, 0},
    {PACKED_INTEGER, 8, 1056, 5672, 1056, false, GEMMD_BF16, GEMMD_F32, false, 0, 0},
    {PACKED_F4_E2M1, 4, 1056, 5656, 32, false, GEMMD_BF16, GEMMD_BF16, false, 0, 0},
    {PACKED_F4_E2M1, 4, 416, 5672, 32, false, GEMMD_F16, GEMMD_BF16, false, 0, 0},
    {PACKED_F4_E2M1, 4, 352, 5672, 16, false, GEMMD_F16, GEMMD_BF16, false, 8, 1 / 2688.0},
    {PACKED_F8_E4M3, 8, 1280, 5672, 128, false, GEMMD_BF16, GEMMD_F32, false, 0, 0},
    {PACKED_F8_E4M3, 8, 416, 5640, 32, false, GEMMD_F16, GEMMD_F16, false, 0, 0},
};

enum { ROWS = 300, GUARD = 64 }; /* rows of A; elements of C that no kernel may write */

/* The operands of a case on both sides, and results of all rows. */
struct packed_trial {
    const struct packed_case *of;
    struct gemm_problem problem;
    unsigned char *b;    /* the arrangement */
    uint16_t *a;         /* with gaps */
    uint64_t a_elements; /* with the gaps */
    void *device_a, *device_b, *device_c;
    float *whole, *some;
    uint64_t nan_column; /* which must be NaN; UINT64_MAX: none */
    double worst;
};

static struct packed_layout layout_of(const struct packed_case *of)
{
    struct packed_layout layout = {.bits = of->bits,
                                   .element = of->element,
                                   .k = of->k,
                                   .n = of->n,
                                   .group = of->group,
                                   .scale_dtype = of->scale_dtype,
                                   .has_zeros = of->has_zeros,
                                   .zero = of->has_zeros ? 1 : 1 << (of->bits - 1)};
    const uint64_t groups = of->k / of->group, columns = packed_columns(&layout);
    const uint64_t blocks = size_blocks(of->k, packed_block_steps(&layout));
    layout.scale_offset = columns / PACKED_COLUMNS * blocks * PACKED_BLOCK_BYTES;
    layout.zero_offset = layout.scale_offset +
                         size_blocks(groups * columns * dtype_size(of->scale_dtype), 256) * 256;
    layout.bytes = layout.zero_offset + (of->has_zeros ? groups * columns : 0);
    return layout;
}

/* The byte of the number of step p and column j, as proto/packed.h describes the arrangement. With
 * 4 bits, the number is in the upper half of the byte if j % 16 is 8 or more. */
static unsigned char *byte_at(const struct packed_layout *layout, unsigned char *b, uint64_t p,
                              uint64_t j)
{
    const uint64_t steps = packed_block_steps(layout), blocks = size_blocks(layout->k, steps);
    const uint64_t tile = p % steps / 16, g = j % 8, right = j % 16 / 8, upper = p % 16 / 8;
    unsigned char *place = b + (j / PACKED_COLUMNS * blocks + p / steps) * PACKED_BLOCK_BYTES +
                           (8 * (p % 8 / 2) + g) * 16;
    return layout->bits == 8 ? &place[8 * tile + 4 * upper + right + 2 * (p % 2)]
                             : &place[4 * tile + upper + 2 * (p % 2)];
}

/* The integer less its zero point, or the value, of step p and column j. */
static double weight_at(const struct packed_layout *layout, unsigned char *b, uint64_t p,
                        uint64_t j)
{
    static const double of_e2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    const unsigned char byte = *byte_at(layout, b, p, j);
    const int number = layout->bits == 8 ? byte : byte >> (j % 16 < 8 ? 0 : 4) & 15;
    const uint64_t group = p / layout->group * packed_columns(layout) + j;
    if (layout->element == PACKED_F8_E4M3)
        return (double)convert_f8_e4m3_to_f32((uint8_t)number);
    if (layout->element == PACKED_F4_E2M1)
        return number < 8 ? of_e2m1[number] : -of_e2m1[number - 8];
    return number - layout->zero - (layout->has_zeros ? b[layout->zero_offset + group] : 0);
}

static double element_of(enum gemmd_dtype dtype, const void *array, uint64_t at)
{
    double value;
    convert_to_f64(dtype, (const char *)array + at * dtype_size(dtype), &value, 1);
    return value;
}

static void set_element(enum gemmd_dtype dtype, void *array, uint64_t at, float value)
{
    const uint16_t half =
        dtype == GEMMD_F16 ? convert_f32_to_f16(value) : convert_f32_to_bf16(value);
    if (dtype == GEMMD_F32)
        ((float *)array)[at] = value;
    else
        ((uint16_t *)array)[at] = half;
}

static uint64_t a_at(const struct packed_trial *trial, uint64_t row, uint64_t p)
{
    const uint64_t lda = trial->problem.lda;
    return trial->of->transa ? p * lda + row : row * lda + p;
}

/* A random scale of column j that the format has: one of e8m0 with groups of 32 of e2m1, whose
 * column 1 has the least scales and column 2 scales of all sizes, and one of e4m3 with groups of
 * 16. */
static float random_scale(const struct packed_layout *layout, uint64_t j, uint64_t *seed)
{
    const uint64_t random = random_next(seed) >> 32;
    if (layout->element != PACKED_F4_E2M1)
        return (float)fabs(random_unit(seed)) * 0.1f;
    if (layout->group != 32)
        return convert_f8_e4m3_to_f32((uint8_t)(random % 0x7f));
    return ldexpf(1, j == 1   ? (int)(random % 8) - 127
                     : j == 2 ? (int)(random % 201) - 100
                              : (int)(random % 10) - 12);
}

/* Random operands. The gaps of A are NaN, and no number of e4m3 is. */
static void fill_operands(struct packed_trial *trial)
{
    const struct packed_layout *layout = &trial->problem.packed;
    uint64_t seed = 42;
    for (uint64_t i = 0; i < layout->bytes; i++) {
        const unsigned char byte = (unsigned char)random_next(&seed);
        const bool is_nan = layout->element == PACKED_F8_E4M3 && (byte & 0x7f) == 0x7f;
        trial->b[i] = is_nan ? byte ^ 1 : byte;
    }
    for (uint64_t i = layout->zero_offset; i < layout->bytes; i++)
        trial->b[i] &= (unsigned char)((1u << layout->bits) - 1);
    const uint64_t columns = packed_columns(layout);
    for (uint64_t i = 0; i < layout->k / layout->group * columns; i++)
        set_element(layout->scale_dtype, trial->b + layout->scale_offset, i,
                    random_scale(layout, i % columns, &seed));
    for (uint64_t i = 0; i < trial->a_elements; i++)
        trial->a[i] = 0xffff;
    for (uint64_t row = 0; row < ROWS; row++)
        for (uint64_t p = 0; p < layout->k; p++)
            set_element(trial->of->dtype, trial->a, a_at(trial, row, p), (float)random_unit(&seed));
}

static struct gemm_problem problem_of(const struct packed_case *of)
{
    return (struct gemm_problem){.dtype = of->dtype,
                                 .out = GEMMD_F32,
                                 .transa = of->transa,
                                 .m = ROWS,
                                 .n = of->n,
                                 .k = of->k,
                                 .batch = 1,
                                 .alpha = of->factor != 0 ? of->factor : 1,
                                 .lda = (of->transa ? ROWS : of->k) + of->gap,
                                 .ldc = of->n,
                                 .packed = layout_of(of)};
}

static bool trial_open(struct packed_trial *trial, const struct packed_case *of)
{
    *trial = (struct packed_trial){.of = of, .problem = problem_of(of), .nan_column = UINT64_MAX};
    struct gemm_problem *p = &trial->problem;
    const uint64_t c_bytes = (ROWS * of->n + GUARD) * sizeof(float);
    trial->a_elements = p->lda * (of->transa ? of->k : ROWS);
    trial->a = malloc(trial->a_elements * sizeof *trial->a);
    trial->b = malloc(p->packed.bytes);
    trial->whole = malloc(c_bytes);
    trial->some = malloc(c_bytes);
    if (trial->a == NULL || trial->b == NULL || trial->whole == NULL || trial->some == NULL)
        return false;
    fill_operands(trial);
    const bool done = cudaMalloc(&trial->device_a, trial->a_elements * 2) == cudaSuccess &&
                      cudaMalloc(&trial->device_b, p->packed.bytes) == cudaSuccess &&
                      cudaMalloc(&trial->device_c, c_bytes) == cudaSuccess &&
                      cudaMemcpy(trial->device_a, trial->a, trial->a_elements * 2,
                                 cudaMemcpyHostToDevice) == cudaSuccess &&
                      cudaMemcpy(trial->device_b, trial->b, p->packed.bytes,
                                 cudaMemcpyHostToDevice) == cudaSuccess &&
                      cudaDeviceSynchronize() == cudaSuccess; /* copies may return early */
    p->a = trial->device_a;
    p->b = trial->device_b;
    p->c = trial->device_c;
    return done;
}

static void trial_close(struct packed_trial *trial)
{
    (void)cudaFree(trial->device_a);
    (void)cudaFree(trial->device_b);
    (void)cudaFree(trial->device_c);
    free(trial->a);
    free(trial->b);
    free(trial->whole);
    free(trial->some);
}

/* Computes `rows` rows from row `first` on, and checks that nothing is written beyond them. */
static bool compute_rows(const struct packed_trial *trial, const struct operation_kernel *kernel,
                         struct test_stream *stream, uint64_t first, uint64_t rows, float *to,
                         char *why, uint64_t size)
{
    const uint64_t c_bytes = (ROWS * trial->of->n + GUARD) * sizeof(float);
    struct gemm_problem p = trial->problem;
    p.m = rows;
    p.a = (const uint16_t *)p.a + a_at(trial, first, 0);
    if (cudaMemsetAsync(p.c, 0xff, c_bytes, stream->stream) != cudaSuccess ||
        operation_run(kernel, stream->context, &p, NULL) != GEMMD_OK ||
        cudaMemcpyAsync(to, p.c, c_bytes, cudaMemcpyDeviceToHost, stream->stream) != cudaSuccess ||
        cudaStreamSynchronize(stream->stream) != cudaSuccess) {
        snprintf(why, size, "%s", cudaGetErrorName(cudaGetLastError()));
        return false;
    }
    for (uint64_t i = 0; i < rows * p.n; i++)
        if ((isnan(to[i]) != 0) != (i % p.n == trial->nan_column)) {
            snprintf(why, size, "element %" PRIu64 " of %" PRIu64 " rows is %g", i, rows,
                     (double)to[i]);
            return false;
        }
    for (uint64_t i = rows * p.n; i < ROWS * p.n + GUARD; i++)
        if (convert_f32_to_bits(to[i]) != UINT32_MAX) {
            snprintf(why, size, "element %" PRIu64 " was written with %" PRIu64 " rows", i, rows);
            return false;
        }
    return true;
}

/* Every 7th row, and of many columns every 13th, against the bound of proto/PROTOCOL.md. */
static bool near_f64(struct packed_trial *trial, char *why, uint64_t size)
{
    const struct packed_layout *layout = &trial->problem.packed;
    const uint64_t columns = packed_columns(layout), step = layout->n > 1000 ? 13 : 1;
    for (uint64_t row = 0; row < ROWS; row += 7)
        for (uint64_t j = 0; j < layout->n; j += step) {
            double exact = 0, magnitude = 0;
            for (uint64_t p = 0; p < layout->k; p++) {
                const uint64_t group = p / layout->group * columns + j;
                const double product =
                    trial->problem.alpha *
                    element_of(trial->of->dtype, trial->a, a_at(trial, row, p)) *
                    weight_at(layout, trial->b, p, j) *
                    element_of(layout->scale_dtype, trial->b + layout->scale_offset, group);
                exact += product;
                magnitude += fabs(product);
            }
            const double bound = (double)(layout->k + 8) * 0x1p-24 * magnitude;
            const double error = fabs(trial->whole[row * layout->n + j] - exact);
            if (error > trial->worst * bound)
                trial->worst = error / bound;
            if (!(error <= bound)) {
                snprintf(why, size, "row %" PRIu64 ", column %" PRIu64 " is %g, not %g within %g",
                         row, j, (double)trial->whole[row * layout->n + j], exact, bound);
                return false;
            }
        }
    return true;
}

static bool rows_have_the_same_bits(struct packed_trial *trial,
                                    const struct operation_kernel *kernel,
                                    struct test_stream *streams, char *why, uint64_t size)
{
    static const uint64_t counts[] = {1, 7, 8, 9, 16, 17, 32, 33, 64, 65, 128, 129, 257, ROWS};
    const uint64_t n = trial->of->n;
    for (unsigned i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const uint64_t rows = counts[i], first = (ROWS - rows) / 8 * 8;
        if (!compute_rows(trial, kernel, &streams[i % TEST_STREAMS], first, rows, trial->some, why,
                          size))
            return false;
        if (memcmp(trial->some, trial->whole + first * n, rows * n * sizeof(float)) != 0) {
            snprintf(why, size, "other bits with %" PRIu64 " rows from %" PRIu64 " on", rows,
                     first);
            return false;
        }
    }
    return true;
}

/* A result of A's type is that of f32, rounded once. */
static bool rounded_once(struct packed_trial *trial, const struct operation_kernel *kernel,
                         struct test_stream *stream, char *why, uint64_t size)
{
    const uint64_t elements = ROWS * trial->of->n;
    struct gemm_problem p = trial->problem;
    p.out = trial->of->dtype;
    if (cudaMemsetAsync(p.c, 0xff, elements * 2, stream->stream) != cudaSuccess ||
        operation_run(kernel, stream->context, &p, NULL) != GEMMD_OK ||
        cudaMemcpyAsync(trial->some, p.c, elements * 2, cudaMemcpyDeviceToHost, stream->stream) !=
            cudaSuccess ||
        cudaStreamSynchronize(stream->stream) != cudaSuccess) {
        snprintf(why, size, "%s", cudaGetErrorName(cudaGetLastError()));
        return false;
    }
    for (uint64_t i = 0; i < elements; i++) {
        uint16_t is;
        memcpy(&is, (const char *)trial->some + 2 * i, sizeof is);
        const uint16_t wanted = p.out == GEMMD_F16 ? convert_f32_to_f16(trial->whole[i])
                                                   : convert_f32_to_bf16(trial->whole[i]);
        if (is != wanted) {
            snprintf(why, size, "element %" PRIu64 " of %s is %#x, not %#x", i, dtype_name(p.out),
                     is, wanted);
            return false;
        }
    }
    return true;
}

/* A weight of e4m3 that is NaN makes its column NaN, and no other element changes. */
static bool nan_stays_in_its_column(struct packed_trial *trial,
                                    const struct operation_kernel *kernel,
                                    struct test_stream *streams, char *why, uint64_t size)
{
    static const uint64_t counts[] = {1, 16, 33, ROWS};
    const uint64_t n = trial->of->n, column = n - 3;
    if (trial->of->element != PACKED_F8_E4M3)
        return true;
    *byte_at(&trial->problem.packed, trial->b, trial->of->k - 5, column) = 0xff;
    trial->nan_column = column;
    if (cudaMemcpy(trial->device_b, trial->b, trial->problem.packed.bytes,
                   cudaMemcpyHostToDevice) != cudaSuccess ||
        cudaDeviceSynchronize() != cudaSuccess) {
        snprintf(why, size, "%s", cudaGetErrorName(cudaGetLastError()));
        return false;
    }
    for (unsigned i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        if (!compute_rows(trial, kernel, &streams[i % TEST_STREAMS], 0, counts[i], trial->some, why,
                          size))
            return false;
        for (uint64_t at = 0; at < counts[i] * n; at++)
            if (at % n != column &&
                convert_f32_to_bits(trial->some[at]) != convert_f32_to_bits(trial->whole[at])) {
                snprintf(why, size, "NaN in another column changes element %" PRIu64, at);
                return false;
            }
    }
    return true;
}

/* One case by one kernel. */
static bool try_case(const struct packed_case *of, const struct operation_kernel *kernel,
                     struct test_stream *streams)
{
    struct packed_trial trial;
    char why[256] = "no memory";
    const bool right =
        trial_open(&trial, of) &&
        compute_rows(&trial, kernel, &streams[0], 0, ROWS, trial.whole, why, sizeof why) &&
        near_f64(&trial, why, sizeof why) &&
        rows_have_the_same_bits(&trial, kernel, streams, why, sizeof why) &&
        rounded_once(&trial, kernel, &streams[0], why, sizeof why) &&
        nan_stays_in_its_column(&trial, kernel, streams, why, sizeof why);
    printf("%-8s %-8s %-7s k %" PRIu64 ", n %" PRIu64 ", groups of %" PRIu64
           "  %s  largest error %.2g of what rounding explains\n",
           kernel->name, dtype_name(of->dtype), packed_type(&trial.problem.packed), of->k, of->n,
           of->group, right ? "passed" : why, trial.worst);
    trial_close(&trial);
    return right;
}

void gemm_check_packed(const struct gemm_device *device, struct test_stream *streams,
                       const char *kernels, uint64_t *passed, uint64_t *failed)
{
    for (const struct operation_kernel *const *k =
             operation_kernels(&operation_gemm, GEMM_BACKEND_CUDA);
         *k != NULL; k++) {
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            const struct gemm_problem problem = problem_of(&cases[i]);
            if (!operation_kernel_runs_on(&operation_gemm, *k, device) ||
                strstr((*k)->name, kernels) == NULL || !(*k)->takes(&problem))
                continue;
            const bool right = try_case(&cases[i], *k, streams);
            *passed += right;
            *failed += !right;
        }
    }
}
