/* Packed weights: files of each format are found, checked, arranged and restored, and products with
 * them on the CPU are compared with f64. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/cpu/convert.h"
#include "kernels/operations.h"
#include "proto/dtype.h"
#include "proto/packed.h"
#include "tests/product/random.h"

/* A matrix of weights, and the file that holds it. */
struct weights {
    enum packed_format format;
    uint32_t bits;
    uint64_t k, n, group;
    enum gemmd_dtype scale_dtype;
    bool has_zeros;
    uint8_t *q;     /* [k][n] */
    uint8_t *zeros; /* [groups][n]: as numbers, not as stored */
    float *scales;  /* [groups][n] */
    unsigned char *file;
    uint64_t file_bytes;
};

enum { FILE_ROOM = 1 << 21 };

static uint32_t bits_of_scale(enum gemmd_dtype dtype, float value)
{
    return dtype == GEMMD_F32   ? convert_f32_to_bits(value)
           : dtype == GEMMD_F16 ? convert_f32_to_f16(value)
                                : convert_f32_to_bf16(value);
}

/* Writes integers to words of 32 bits: along the columns or the rows of `to`, which has `rows` rows
 * of integers. `place[i]` is the number of the integer at the i-th place of a word. */
static void write_words(unsigned char *to, const uint8_t *from, uint64_t rows, uint64_t columns,
                        bool along_rows, uint32_t bits, const uint8_t *place)
{
    const uint64_t in_word = 32 / bits;
    for (uint64_t r = 0; r < (along_rows ? rows / in_word : rows); r++)
        for (uint64_t c = 0; c < (along_rows ? columns : columns / in_word); c++) {
            uint32_t word = 0;
            for (uint64_t i = 0; i < in_word; i++)
                word |= (uint32_t)(along_rows ? from[(r * in_word + i) * columns + c]
                                              : from[r * columns + c * in_word + place[i]])
                        << bits * i;
            memcpy(to, &word, sizeof word);
            to += sizeof word;
        }
}

static uint8_t *transposed(const uint8_t *from, uint64_t rows, uint64_t columns)
{
    uint8_t *to = calloc(rows, columns);
    ck_assert_ptr_nonnull(to);
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t c = 0; c < columns; c++)
            to[c * rows + r] = from[r * columns + c];
    return to;
}

static const uint8_t in_order[] = {0, 1, 2, 3, 4, 5, 6, 7}, of_awq[] = {0, 2, 4, 6, 1, 3, 5, 7};

static void write_scales(const struct weights *w, unsigned char *to)
{
    const uint64_t groups = w->k / w->group, size = dtype_size(w->scale_dtype);
    for (uint64_t g = 0; g < groups; g++)
        for (uint64_t j = 0; j < w->n; j++) {
            const uint32_t bits = bits_of_scale(w->scale_dtype, w->scales[g * w->n + j]);
            const uint64_t at =
                w->format == PACKED_COMPRESSED_TENSORS ? j * groups + g : g * w->n + j;
            memcpy(to + at * size, &bits, size);
        }
}

static void entry(struct safetensors_entry *entries, uint32_t *count, const char *name,
                  enum gemmd_dtype dtype, uint64_t first, uint64_t second)
{
    const uint64_t dims[] = {first, second};
    struct safetensors_entry *at = &entries[(*count)++];
    *at = (struct safetensors_entry){.other_type = NULL};
    strcpy(at->name, name);
    ck_assert(tensor_init(&at->tensor, dtype, dims, second != 0 ? 2 : 1, NULL));
}

/* Writes the file of compressed-tensors, which has rows of k. */
static void write_compressed(struct weights *w)
{
    const uint64_t groups = w->k / w->group;
    struct safetensors_entry entries[4];
    uint32_t count = 0;
    entry(entries, &count, "weight_shape", GEMMD_F64, 2, 0);
    entries[0].other_type = "I64";
    entry(entries, &count, "weight_scale", w->scale_dtype, w->n, groups);
    entry(entries, &count, "weight_packed", GEMMD_I32, w->n, w->k * w->bits / 32);
    if (w->has_zeros)
        entry(entries, &count, "weight_zero_point", GEMMD_I32, w->n * w->bits / 32, groups);
    const int64_t shape[] = {(int64_t)w->n, (int64_t)w->k};
    unsigned char *at = w->file + safetensors_header(entries, count, (char *)w->file);
    memcpy(at, shape, sizeof shape);
    write_scales(w, at += sizeof shape);
    uint8_t *q = transposed(w->q, w->k, w->n), *zeros = transposed(w->zeros, groups, w->n);
    write_words(at += entries[1].tensor.bytes, q, w->n, w->k, false, w->bits, in_order);
    at += entries[2].tensor.bytes;
    if (w->has_zeros) {
        write_words(at, zeros, w->n, groups, true, w->bits, in_order);
        at += entries[3].tensor.bytes;
    }
    w->file_bytes = (uint64_t)(at - w->file);
    free(q);
    free(zeros);
}

/* Writes the file of GPTQ or AWQ. */
static void write_rows(struct weights *w)
{
    const uint64_t groups = w->k / w->group, words = w->n * w->bits / 32;
    const bool is_awq = w->format == PACKED_AWQ;
    const uint8_t *place = is_awq ? of_awq : in_order;
    struct safetensors_entry entries[4];
    uint32_t count = 0;
    if (!is_awq)
        entry(entries, &count, "g_idx", GEMMD_I32, w->k, 0);
    entry(entries, &count, "qweight", GEMMD_I32, is_awq ? w->k : w->k * w->bits / 32,
          is_awq ? words : w->n);
    entry(entries, &count, "qzeros", GEMMD_I32, groups, words);
    entry(entries, &count, "scales", w->scale_dtype, groups, w->n);
    unsigned char *at = w->file + safetensors_header(entries, count, (char *)w->file);
    for (int32_t p = 0; !is_awq && p < (int32_t)w->k; p++, at += 4) {
        const int32_t group = p / (int32_t)w->group;
        memcpy(at, &group, sizeof group);
    }
    write_words(at, w->q, w->k, w->n, !is_awq, w->bits, place);
    at += w->k * w->n * w->bits / 8;
    uint8_t *stored = calloc(groups, w->n);
    ck_assert_ptr_nonnull(stored);
    for (uint64_t i = 0; i < groups * w->n; i++)
        stored[i] = (uint8_t)(w->zeros[i] - (w->format == PACKED_GPTQ));
    write_words(at, stored, groups, w->n, false, w->bits, place);
    free(stored);
    write_scales(w, at += groups * words * 4);
    w->file_bytes = (uint64_t)(at - w->file) + entries[count - 1].tensor.bytes;
}

/* Whether the weights in the file are bytes or pairs in bytes, and not words. */
static bool has_bytes(const struct weights *w)
{
    return w->format >= PACKED_INT_QUANTIZED;
}

static bool has_wide_scales(const struct weights *w)
{
    return w->format <= PACKED_FLOAT_QUANTIZED;
}

/* A random scale of e8m0 or e4m3 and its value. */
static uint8_t byte_scale(const struct weights *w, uint64_t random, float *value)
{
    const uint8_t bits = (uint8_t)(w->format == PACKED_MXFP4 ? 120 + random % 12 : random % 0x7f);
    *value = w->format == PACKED_MXFP4 ? ldexpf(1, bits - 127) : convert_f8_e4m3_to_f32(bits);
    return bits;
}

static const float factors[] = {[PACKED_NVFP4] = 24, [PACKED_NVFP4_MODELOPT] = 0.0625f};

/* Writes the file of a format whose weights are bytes, or pairs of them, in rows of k. */
static void write_bytes(struct weights *w, uint64_t *seed)
{
    const bool nvfp4 = w->format >= PACKED_NVFP4, pairs = w->format >= PACKED_MXFP4;
    const uint64_t groups = w->k / w->group;
    struct safetensors_entry entries[4];
    uint32_t count = 0;
    const uint64_t size = has_wide_scales(w) ? dtype_size(w->scale_dtype) : 1;
    if (nvfp4)
        entry(entries, &count, w->format == PACKED_NVFP4 ? "weight_global_scale" : "weight_scale_2",
              GEMMD_F32, 1, 0);
    entry(entries, &count, "weight_scale",
          has_wide_scales(w) ? w->scale_dtype
          : nvfp4            ? GEMMD_F8_E4M3
                             : GEMMD_I8,
          w->n, groups);
    if (w->format == PACKED_MXFP4)
        entries[count - 1].other_type = "F8_E8M0";
    entry(entries, &count,
          w->format == PACKED_MXFP4 || w->format == PACKED_NVFP4 ? "weight_packed" : "weight",
          w->format == PACKED_FLOAT_QUANTIZED ? GEMMD_F8_E4M3 : GEMMD_I8, w->n,
          pairs ? w->k / 2 : w->k);
    if (pairs)
        entries[count - 1].other_type = "U8";
    if (w->has_zeros)
        entry(entries, &count, "weight_zero_point", GEMMD_I8, w->n, groups);
    unsigned char *at = w->file + safetensors_header(entries, count, (char *)w->file);
    if (nvfp4) {
        memcpy(at, &factors[w->format], sizeof(float));
        at += sizeof(float);
    }
    for (uint64_t j = 0; j < w->n; j++)
        for (uint64_t g = 0; g < groups; g++, at += size) {
            float *scale = &w->scales[g * w->n + j];
            const uint32_t bits = has_wide_scales(w) ? bits_of_scale(w->scale_dtype, *scale)
                                                     : byte_scale(w, random_next(seed), scale);
            memcpy(at, &bits, size);
        }
    for (uint64_t j = 0; j < w->n; j++)
        for (uint64_t i = 0; i < w->k; i += pairs ? 2 : 1) {
            const uint8_t *q = &w->q[i * w->n + j];
            *at++ = (uint8_t)(pairs                               ? q[0] | q[w->n] << 4
                              : w->format == PACKED_INT_QUANTIZED ? q[0] ^ 0x80
                                                                  : q[0]);
        }
    for (uint64_t j = 0; j < w->n && w->has_zeros; j++)
        for (uint64_t g = 0; g < groups; g++)
            *at++ = w->zeros[g * w->n + j] ^ 0x80;
    w->file_bytes = (uint64_t)(at - w->file);
}

static void weights_create(struct weights *w, uint64_t seed)
{
    const uint64_t groups = w->k / w->group;
    const uint32_t most = (1u << w->bits) - 1;
    w->q = calloc(w->k, w->n);
    w->zeros = calloc(groups, w->n);
    w->scales = calloc(groups * w->n, sizeof *w->scales);
    w->file = calloc(1, FILE_ROOM);
    ck_assert(w->q != NULL && w->zeros != NULL && w->scales != NULL && w->file != NULL);
    for (uint64_t i = 0; i < w->k * w->n; i++)
        w->q[i] = (uint8_t)(random_next(&seed) & most);
    for (uint64_t i = 0; i < w->k * w->n && w->format == PACKED_FLOAT_QUANTIZED; i++)
        w->q[i] = (w->q[i] & 0x7f) == 0x7f ? 0 : w->q[i]; /* no NaN */
    for (uint64_t i = 0; i < groups * w->n; i++) {
        /* GPTQ has no zero point of 0. */
        w->zeros[i] = (uint8_t)(w->has_zeros ? 1 + random_next(&seed) % most : (most + 1) / 2);
        w->scales[i] = (float)(random_next(&seed) % 100) * 0x1p-7f; /* exact in every type */
    }
    if (has_bytes(w))
        write_bytes(w, &seed);
    else if (w->format == PACKED_COMPRESSED_TENSORS)
        write_compressed(w);
    else
        write_rows(w);
    ck_assert_uint_le(w->file_bytes, FILE_ROOM);
}

static void weights_destroy(struct weights *w)
{
    free(w->q);
    free(w->zeros);
    free(w->scales);
    free(w->file);
}

static double weight(const struct weights *w, uint64_t p, uint64_t j)
{
    static const double e2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    const uint64_t group = p / w->group * w->n + j;
    const uint8_t q = w->q[p * w->n + j];
    const double value = w->format == PACKED_FLOAT_QUANTIZED ? (double)convert_f8_e4m3_to_f32(q)
                         : w->format >= PACKED_MXFP4         ? (q & 8 ? -e2m1[q & 7] : e2m1[q & 7])
                                                             : (double)q - w->zeros[group];
    const double factor = w->format == PACKED_NVFP4            ? 1.0 / (double)factors[w->format]
                          : w->format == PACKED_NVFP4_MODELOPT ? (double)factors[w->format]
                                                               : 1;
    return value * (double)w->scales[group] * factor;
}

static struct packed_file found(const struct weights *w)
{
    struct packed_file file;
    struct fault fault = {.code = GEMMD_OK};
    const enum gemmd_error code =
        packed_find(w->format, w->bits, w->file, w->file_bytes, w->file_bytes, &file, &fault);
    ck_assert_msg(code == GEMMD_OK && packed_check(&file, &fault) == GEMMD_OK, "%s", fault.detail);
    return file;
}

static unsigned char *arranged(const struct packed_file *file)
{
    unsigned char *b = aligned_alloc(256, (file->layout.bytes + 255) / 256 * 256);
    ck_assert_ptr_nonnull(b);
    memset(b, 0xff, file->layout.bytes);
    for (uint64_t i = 0; i < packed_stripes(file); i++)
        packed_arrange_stripe(file, i, b);
    packed_arrange_scales(file, b);
    return b;
}

static const struct weights cases[] = {
    {PACKED_COMPRESSED_TENSORS, 4, 256, 48, 128, GEMMD_BF16, false, 0, 0, 0, 0, 0},
    {PACKED_COMPRESSED_TENSORS, 4, 96, 8, 32, GEMMD_F16, true, 0, 0, 0, 0, 0},
    {PACKED_COMPRESSED_TENSORS, 4, 544, 40, 544, GEMMD_F32, false, 0, 0, 0, 0, 0},
    {PACKED_COMPRESSED_TENSORS, 8, 160, 56, 32, GEMMD_BF16, false, 0, 0, 0, 0, 0},
    {PACKED_COMPRESSED_TENSORS, 8, 192, 24, 64, GEMMD_F16, true, 0, 0, 0, 0, 0},
    {PACKED_GPTQ, 4, 256, 264, 128, GEMMD_F16, true, 0, 0, 0, 0, 0},
    {PACKED_GPTQ, 8, 320, 32, 64, GEMMD_F16, true, 0, 0, 0, 0, 0},
    {PACKED_GPTQ_V2, 4, 128, 40, 32, GEMMD_BF16, true, 0, 0, 0, 0, 0},
    {PACKED_GPTQ_V2, 8, 96, 72, 96, GEMMD_F16, true, 0, 0, 0, 0, 0},
    {PACKED_AWQ, 4, 384, 304, 128, GEMMD_F16, true, 0, 0, 0, 0, 0},
    {PACKED_AWQ, 4, 64, 16, 64, GEMMD_F16, true, 0, 0, 0, 0, 0},
    {PACKED_INT_QUANTIZED, 8, 160, 40, 160, GEMMD_BF16, false, 0, 0, 0, 0, 0},
    {PACKED_INT_QUANTIZED, 8, 256, 24, 128, GEMMD_F32, true, 0, 0, 0, 0, 0},
    {PACKED_FLOAT_QUANTIZED, 8, 192, 56, 64, GEMMD_F16, false, 0, 0, 0, 0, 0},
    {PACKED_FLOAT_QUANTIZED, 8, 288, 16, 288, GEMMD_F32, false, 0, 0, 0, 0, 0},
    {PACKED_MXFP4, 4, 96, 40, 32, GEMMD_BF16, false, 0, 0, 0, 0, 0},
    {PACKED_MXFP4, 4, 320, 264, 32, GEMMD_BF16, false, 0, 0, 0, 0, 0},
    {PACKED_NVFP4, 4, 352, 72, 16, GEMMD_BF16, false, 0, 0, 0, 0, 0},
    {PACKED_NVFP4, 4, 64, 8, 16, GEMMD_BF16, false, 0, 0, 0, 0, 0},
    {PACKED_NVFP4_MODELOPT, 4, 128, 272, 16, GEMMD_BF16, false, 0, 0, 0, 0, 0},
};
enum { CASES = sizeof cases / sizeof cases[0] };

/* The place of an element as the head of proto/packed.h describes it. */
static uint32_t element_of(const struct packed_layout *layout, const unsigned char *b, uint64_t p,
                           uint64_t j)
{
    const uint64_t steps = layout->bits == 4 ? 64 : 32, blocks = (layout->k + steps - 1) / steps;
    const unsigned char *block = b + (j / 16 * blocks + p / steps) * 512;
    const uint64_t tile = p % steps / 16, g = j % 8, right = j % 16 / 8;
    const uint64_t t = p % 8 / 2, odd = p % 2, upper = p % 16 / 8;
    const unsigned char *place = block + (8 * t + g) * 16;
    if (layout->bits == 8)
        return place[8 * tile + 4 * upper + right + 2 * odd];
    const uint64_t nibble = right + 2 * upper + 4 * odd;
    return place[4 * tile + nibble / 2] >> 4 * (nibble % 2) & 15;
}

START_TEST(a_file_is_arranged_and_restored)
{
    struct weights w = cases[_i];
    weights_create(&w, (uint64_t)_i);
    const struct packed_file file = found(&w);
    ck_assert_uint_eq(file.layout.k, w.k);
    ck_assert_uint_eq(file.layout.n, w.n);
    ck_assert_uint_eq(file.layout.group, w.group);
    unsigned char *b = arranged(&file);
    for (uint64_t p = 0; p < w.k; p++)
        for (uint64_t j = 0; j < w.n; j++)
            ck_assert_msg(element_of(&file.layout, b, p, j) == w.q[p * w.n + j], "element %lu, %lu",
                          (unsigned long)p, (unsigned long)j);
    unsigned char *data = malloc(packed_data_bytes(&file)), *at = data;
    ck_assert_ptr_nonnull(data);
    memset(data, 0xff, packed_data_bytes(&file));
    for (uint64_t i = 0; i < packed_stripes(&file); i++)
        packed_restore_stripe(&file, i, b, data);
    packed_restore_others(&file, b, data);
    for (uint32_t i = 0; i < file.count; i++) {
        const struct tensor *tensor = &file.entries[i].tensor;
        ck_assert_msg(memcmp(at, tensor->data, tensor->bytes) == 0, "%s", file.entries[i].name);
        at += tensor->bytes;
    }
    free(data);
    free(b);
    weights_destroy(&w);
}
END_TEST

/* A stripe needs only the bytes of the file that packed_stripes_bytes says. */
START_TEST(stripes_can_be_arranged_as_they_arrive)
{
    struct weights w = cases[_i];
    weights_create(&w, (uint64_t)_i);
    const struct packed_file file = found(&w);
    unsigned char *whole = arranged(&file);
    unsigned char *b = calloc(1, file.layout.bytes);
    const struct tensor *weights = &file.entries[PACKED_WEIGHTS].tensor;
    unsigned char *bytes = malloc(weights->bytes);
    ck_assert(b != NULL && bytes != NULL);
    memcpy(bytes, weights->data, weights->bytes);
    unsigned char *in_file = (unsigned char *)weights->data;
    memset(in_file, 0, weights->bytes);
    uint64_t arrived = 0;
    for (uint64_t i = 0; i < packed_stripes(&file); i++) {
        const uint64_t needed = packed_stripes_bytes(&file, i + 1);
        memcpy(in_file + arrived, bytes + arrived, needed - arrived);
        arrived = needed;
        packed_arrange_stripe(&file, i, b);
    }
    ck_assert_uint_eq(arrived, weights->bytes);
    ck_assert_int_eq(memcmp(b, whole, file.layout.scale_offset), 0);
    free(bytes);
    free(b);
    free(whole);
    weights_destroy(&w);
}
END_TEST

/* ---- products ---- */

static struct gemm_context *context;

static void create_context(void)
{
    struct fault fault;
    ck_assert_msg(gemm_context_create(GEMM_BACKEND_CPU, NULL, 2, &context, &fault) == GEMMD_OK,
                  "no context: %s", fault.detail);
}

static void destroy_context(void)
{
    gemm_context_destroy(context);
}

static const struct operation_kernel *packed_kernel(const struct gemm_problem *problem)
{
    const struct gemm_device cpu = {.backend = GEMM_BACKEND_CPU};
    const struct operation_kernel *kernel = NULL;
    struct fault fault = {.code = GEMMD_OK};
    ck_assert_msg(operation_select(&operation_gemm, &cpu, "auto", problem, &kernel, &fault) ==
                      GEMMD_OK,
                  "%s", fault.detail);
    return kernel;
}

static float widened(enum gemmd_dtype dtype, uint16_t bits)
{
    return dtype == GEMMD_F16 ? convert_f16_to_f32(bits) : convert_bf16_to_f32(bits);
}

/* Compares rows of a product in f32 with f64: each element is within (k + 8) u S of the exact one.
 */
static void check_rows(const struct weights *w, enum gemmd_dtype dtype, uint64_t rows,
                       const uint16_t *a, bool transa, const float *c)
{
    double *b = malloc(w->k * w->n * sizeof *b);
    ck_assert_ptr_nonnull(b);
    for (uint64_t p = 0; p < w->k; p++)
        for (uint64_t j = 0; j < w->n; j++)
            b[p * w->n + j] = weight(w, p, j);
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t j = 0; j < w->n; j++) {
            double exact = 0, magnitude = 0;
            for (uint64_t p = 0; p < w->k; p++) {
                const uint64_t at = transa ? p * rows + i : i * w->k + p;
                const double term = (double)widened(dtype, a[at]) * b[p * w->n + j];
                exact += term;
                magnitude += fabs(term);
            }
            const double bound = ((double)w->k + 8) * 0x1p-24 * magnitude;
            ck_assert_msg(fabs((double)c[i * w->n + j] - exact) <= bound,
                          "row %lu, column %lu: %.9g, not %.9g", (unsigned long)i, (unsigned long)j,
                          (double)c[i * w->n + j], exact);
        }
    free(b);
}

enum { ROWS = 290 }; /* more than a block of `tiled` */

START_TEST(products_are_those_of_f64_whatever_the_rows)
{
    static const uint64_t some_rows[] = {1, 2, 5, 13, ROWS};
    struct weights w = cases[_i];
    weights_create(&w, 100 + (uint64_t)_i);
    const struct packed_file file = found(&w);
    unsigned char *b = arranged(&file);
    const enum gemmd_dtype dtype = _i % 2 ? GEMMD_F16 : GEMMD_BF16;
    uint16_t *a = malloc(ROWS * w.k * sizeof *a);
    float *c = malloc(ROWS * w.n * sizeof *c), *one = malloc(ROWS * w.n * sizeof *one);
    ck_assert(a != NULL && c != NULL && one != NULL);
    uint64_t seed = 7;
    for (uint64_t i = 0; i < ROWS * w.k; i++) {
        const float value = (float)(int32_t)(random_next(&seed) % 2001 - 1000) * 1e-3f;
        a[i] = dtype == GEMMD_F16 ? convert_f32_to_f16(value) : convert_f32_to_bf16(value);
    }
    struct gemm_problem problem = {.dtype = dtype,
                                   .out = GEMMD_F32,
                                   .m = ROWS,
                                   .n = w.n,
                                   .k = w.k,
                                   .batch = 1,
                                   .alpha = packed_factor(&file),
                                   .a = a,
                                   .b = b,
                                   .c = c,
                                   .packed = file.layout};
    gemm_problem_contiguous(&problem);
    const struct operation_kernel *kernel = packed_kernel(&problem);
    ck_assert_int_eq(operation_run(kernel, context, &problem, NULL), GEMMD_OK);
    check_rows(&w, dtype, ROWS, a, false, c);
    problem.c = one;
    for (uint32_t s = 0; s < sizeof some_rows / sizeof some_rows[0]; s++) {
        problem.m = some_rows[s];
        ck_assert_int_eq(operation_run(packed_kernel(&problem), context, &problem, NULL), GEMMD_OK);
        ck_assert_msg(memcmp(one, c, problem.m * w.n * sizeof *c) == 0,
                      "%lu rows alone have other bits", (unsigned long)problem.m);
    }
    problem.m = 13;
    problem.transa = true;
    gemm_problem_contiguous(&problem);
    ck_assert_int_eq(operation_run(packed_kernel(&problem), context, &problem, NULL), GEMMD_OK);
    check_rows(&w, dtype, 13, a, true, one);
    free(a);
    free(c);
    free(one);
    free(b);
    weights_destroy(&w);
}
END_TEST

/* ---- what is refused ---- */

static struct fault refused(const struct weights *w, uint32_t bits, enum gemmd_error wanted)
{
    struct packed_file file;
    struct fault fault = {.code = GEMMD_OK};
    enum gemmd_error code =
        packed_find(w->format, bits, w->file, w->file_bytes, w->file_bytes, &file, &fault);
    if (code == GEMMD_OK)
        code = packed_check(&file, &fault);
    ck_assert_msg(code == wanted, "%s: %s", error_name(code), fault.detail);
    return fault;
}

/* The bytes of a tensor in the file. */
static unsigned char *data_of(const struct weights *w, enum packed_role role)
{
    const struct packed_file file = found(w);
    return (unsigned char *)packed_entry(&file, role)->tensor.data;
}

/* Replaces a text of the file's header by another one of the same length. */
static void replace(const struct weights *w, const char *text, const char *by)
{
    char *at = memmem(w->file, 1024, text, strlen(text));
    ck_assert_ptr_nonnull(at);
    memcpy(at, by, strlen(by));
}

START_TEST(bad_files_are_refused)
{
    static const uint16_t bad_scales[] = {0x7c00, 0x7e01, 0x8001, 0xbc00};
    struct weights w = cases[5];
    weights_create(&w, 1);
    unsigned char *scales = data_of(&w, PACKED_SCALES), *zeros = data_of(&w, PACKED_ZEROS);
    unsigned char *order = data_of(&w, PACKED_ORDER), kept[4];
    for (uint32_t i = 0; i < 4; i++) {
        memcpy(kept, scales + 6, 2);
        memcpy(scales + 6, &bad_scales[i], 2);
        ck_assert_str_eq(refused(&w, 4, GEMMD_ERR_MALFORMED).detail,
                         "element 3 of scales is negative, infinite or NaN; scales must be finite "
                         "and not negative");
        memcpy(scales + 6, kept, 2);
    }
    memcpy(scales + 6, &(uint16_t){0x8000}, 2); /* the negative zero */
    found(&w);
    kept[0] = zeros[2];
    zeros[2] |= 0xf0;
    ck_assert_str_eq(refused(&w, 4, GEMMD_ERR_MALFORMED).detail,
                     "integer 5 of qzeros is 15, which with format=gptq is the zero point 16; the "
                     "largest is 15");
    zeros[2] = kept[0];
    order[4 * 3] = 1;
    ck_assert_str_eq(refused(&w, 4, GEMMD_ERR_UNSUPPORTED).detail,
                     "element 3 of g_idx is 1; groups must follow each other, which makes it 0");
    order[4 * 3] = 0;
    ck_assert_str_eq(refused(&w, 8, GEMMD_ERR_MALFORMED).detail,
                     "qzeros has the shape 2,33; beside the other tensors it must be 2,66");
    replace(&w, "qzeros", "kzeros");
    ck_assert_str_eq(refused(&w, 4, GEMMD_ERR_MALFORMED).detail,
                     "the tensor 'qzeros' is missing; the tensors of gptq are qweight, scales, "
                     "qzeros, g_idx");
    replace(&w, "kzeros", "qzeros");
    replace(&w, "g_idx", "c_idx");
    ck_assert_str_eq(refused(&w, 4, GEMMD_ERR_MALFORMED).detail,
                     "'c_idx' is no tensor of gptq, whose tensors are qweight, scales, qzeros, "
                     "g_idx");
    replace(&w, "c_idx", "g_idx");
    replace(&w, "[32,264]", "[264,32]");
    refused(&w, 4, GEMMD_ERR_MALFORMED);
    weights_destroy(&w);
}
END_TEST

START_TEST(bad_shapes_are_refused)
{
    struct weights w = cases[0];
    weights_create(&w, 1);
    unsigned char *shape = data_of(&w, PACKED_SHAPE);
    shape[0]++;
    ck_assert_str_eq(refused(&w, 4, GEMMD_ERR_MALFORMED).detail,
                     "weight_shape is 49,256; with bits=4 the other tensors hold 48,256");
    shape[0]--;
    replace(&w, "BF16", "I16 ");
    refused(&w, 4, GEMMD_ERR_UNSUPPORTED); /* no type of safetensors.h */
    replace(&w, "I16 ", "BF16");
    replace(&w, "[48,2]", "[2,48]");
    ck_assert_str_eq(refused(&w, 4, GEMMD_ERR_MALFORMED).detail,
                     "weight_scale has the shape 2,48; it must have the n=48 columns and as many "
                     "groups as divide k=256");
    weights_destroy(&w);
    w = cases[0];
    w.group = 16;
    weights_create(&w, 1);
    ck_assert_str_eq(refused(&w, 4, GEMMD_ERR_UNSUPPORTED).detail,
                     "weight_scale has 16 groups of 16 steps of k; groups must have 32, 64, 128 or "
                     "all steps");
    weights_destroy(&w);
    w = cases[0];
    w.k = w.group = 48;
    weights_create(&w, 1);
    ck_assert_str_eq(refused(&w, 4, GEMMD_ERR_UNSUPPORTED).detail,
                     "weight_packed holds a matrix with k=48 and n=48; k must be a multiple of 32 "
                     "and n of 8");
    weights_destroy(&w);
}
END_TEST

/* Every byte that a scale can have comes back, and the others are refused. */
START_TEST(bytes_of_scales)
{
    static const enum packed_format formats[] = {PACKED_MXFP4, PACKED_NVFP4};
    struct weights w = {formats[_i], 4, 512, 264, _i == 0 ? 32 : 16, 0, 0, 0, 0, 0, 0, 0};
    weights_create(&w, 1);
    unsigned char *scales = data_of(&w, PACKED_SCALES);
    uint32_t taken = 0;
    for (uint32_t bits = 0; bits < 256; bits++) {
        const uint8_t kept = scales[7];
        scales[7] = (uint8_t)bits;
        const bool is_good = _i == 0 ? bits != 0xff : bits < 0x7f || bits == 0x80;
        if (!is_good)
            ck_assert_str_eq(refused(&w, 4, GEMMD_ERR_MALFORMED).field, "weight_scale");
        scales[7] = kept;
        scales[8 + taken] = (uint8_t)bits;
        taken += is_good;
    }
    scales[8 + taken] = 1;
    ck_assert_uint_eq(taken, _i == 0 ? 255 : 128);
    const struct packed_file file = found(&w);
    unsigned char *b = arranged(&file), *data = malloc(packed_data_bytes(&file));
    ck_assert_ptr_nonnull(data);
    packed_restore_others(&file, b, data);
    const struct tensor *weights = &file.entries[PACKED_WEIGHTS].tensor;
    ck_assert_mem_eq(data + weights->bytes, scales, file.entries[PACKED_SCALES].tensor.bytes);
    free(data);
    free(b);
    weights_destroy(&w);
}
END_TEST

START_TEST(bad_factors_are_refused)
{
    static const float bad[] = {0, -1, INFINITY, NAN};
    struct weights w = {PACKED_NVFP4, 4, 64, 8, 16, 0, 0, 0, 0, 0, 0, 0};
    weights_create(&w, 1);
    unsigned char *factor = data_of(&w, PACKED_FACTOR);
    for (uint32_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        memcpy(factor, &bad[i], sizeof bad[i]);
        ck_assert_ptr_nonnull(
            strstr(refused(&w, 4, GEMMD_ERR_MALFORMED).detail, "must be positive and finite"));
    }
    memcpy(factor, &(float){1}, sizeof(float));
    replace(&w, "\"U8\"", "\"I8\"");
    ck_assert_str_eq(refused(&w, 4, GEMMD_ERR_MALFORMED).detail,
                     "weight_packed is a tensor of I8 with 2 dimensions; it must be of U8 with 2 "
                     "dimensions");
    replace(&w, "\"I8\"", "\"U8\"");
    replace(&w, "[8,4]", "[4,8]");
    refused(&w, 4, GEMMD_ERR_MALFORMED);
    replace(&w, "[4,8]", "[8,4]");
    replace(&w, "weight_global_scale", "weight_global_scalf");
    ck_assert_str_eq(refused(&w, 4, GEMMD_ERR_MALFORMED).detail,
                     "the tensor 'weight_global_scale' is missing; the tensors of nvfp4 are "
                     "weight_packed, weight_scale, weight_global_scale");
    weights_destroy(&w);
    w = (struct weights){PACKED_MXFP4, 4, 64, 8, 64, 0, 0, 0, 0, 0, 0, 0};
    weights_create(&w, 1);
    ck_assert_str_eq(refused(&w, 4, GEMMD_ERR_UNSUPPORTED).detail,
                     "weight_scale has 1 groups of 64 steps of k; groups must have 32 steps");
    weights_destroy(&w);
}
END_TEST

START_TEST(formats_have_widths)
{
    ck_assert(packed_has_bits(PACKED_GPTQ, 0) && packed_has_bits(PACKED_GPTQ, 8));
    ck_assert(packed_has_bits(PACKED_AWQ, 4) && !packed_has_bits(PACKED_AWQ, 8));
    ck_assert(packed_has_bits(PACKED_INT_QUANTIZED, 8) && !packed_has_bits(PACKED_MXFP4, 8));
    ck_assert(!packed_has_bits(PACKED_FLOAT_QUANTIZED, 4));
}
END_TEST

START_TEST(a_header_may_arrive_in_parts)
{
    struct weights w = cases[0];
    weights_create(&w, 1);
    const uint64_t front = (uint64_t)(data_of(&w, PACKED_SHAPE) - w.file);
    struct packed_file file;
    struct fault fault;
    for (uint64_t length = 0; length < front; length += 7)
        ck_assert_int_eq(packed_find(w.format, 4, w.file, length, w.file_bytes, &file, &fault),
                         GEMMD_ERR_CONFLICT);
    ck_assert_int_eq(packed_find(w.format, 4, w.file, front, w.file_bytes, &file, &fault),
                     GEMMD_OK);
    weights_destroy(&w);
}
END_TEST

START_TEST(other_kernels_refuse_packed_weights)
{
    struct gemm_problem problem = {
        .dtype = GEMMD_BF16, .out = GEMMD_BF16, .m = 1, .n = 16, .k = 32, .batch = 1, .alpha = 1};
    gemm_problem_contiguous(&problem);
    ck_assert(operation_gemm.can_check(&problem));
    problem.packed = (struct packed_layout){.bits = 4, .k = 32, .n = 16, .group = 32};
    ck_assert(!operation_gemm.can_check(&problem));
    for (const struct operation_kernel *const *k =
             operation_kernels(&operation_gemm, GEMM_BACKEND_CPU);
         *k != NULL; k++)
        ck_assert_msg((*k)->takes(&problem) == (strcmp((*k)->name, "tiled") == 0), "%s",
                      (*k)->name);
    struct gemm_problem other = problem;
    other.dtype = other.out = GEMMD_F32;
    ck_assert(!packed_kernel(&problem)->takes(&other));
    other = problem;
    ck_assert(gemm_problem_packed_integers(&other));
    other.packed.element = PACKED_F4_E2M1;
    ck_assert(packed_kernel(&problem)->takes(&other) && !gemm_problem_packed_integers(&other));
    other = problem;
    other.transb = true;
    ck_assert(!packed_kernel(&problem)->takes(&other));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gemm_packed");
    TCase *files = tcase_create("files"), *products = tcase_create("products");
    tcase_add_loop_test(files, a_file_is_arranged_and_restored, 0, CASES);
    tcase_add_loop_test(files, stripes_can_be_arranged_as_they_arrive, 0, CASES);
    tcase_add_test(files, bad_files_are_refused);
    tcase_add_test(files, bad_shapes_are_refused);
    tcase_add_loop_test(files, bytes_of_scales, 0, 2);
    tcase_add_test(files, bad_factors_are_refused);
    tcase_add_test(files, formats_have_widths);
    tcase_add_test(files, a_header_may_arrive_in_parts);
    suite_add_tcase(suite, files);
    tcase_add_checked_fixture(products, create_context, destroy_context);
    tcase_add_loop_test(products, products_are_those_of_f64_whatever_the_rows, 0, CASES);
    tcase_add_test(products, other_kernels_refuse_packed_weights);
    suite_add_tcase(suite, products);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
