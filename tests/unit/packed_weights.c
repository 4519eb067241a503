#include "packed_weights.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "proto/dtype.h"
#include "tests/product/random.h"

const struct weights weights_cases[WEIGHTS_CASES] = {
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

void weights_create(struct weights *w, uint64_t seed)
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

void weights_destroy(struct weights *w)
{
    free(w->q);
    free(w->zeros);
    free(w->scales);
    free(w->file);
}

double weights_element(const struct weights *w, uint64_t p, uint64_t j)
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

struct packed_file weights_found(const struct weights *w)
{
    struct packed_file file;
    struct fault fault = {.code = GEMMD_OK};
    const enum gemmd_error code =
        packed_find(w->format, w->bits, w->file, w->file_bytes, w->file_bytes, &file, &fault);
    ck_assert_msg(code == GEMMD_OK && packed_check(&file, &fault) == GEMMD_OK, "%s", fault.detail);
    return file;
}

unsigned char *weights_arranged(const struct packed_file *file)
{
    unsigned char *b = aligned_alloc(256, (file->layout.bytes + 255) / 256 * 256);
    ck_assert_ptr_nonnull(b);
    memset(b, 0xff, file->layout.bytes);
    for (uint64_t i = 0; i < packed_stripes(file); i++)
        packed_arrange_stripe(file, i, b);
    packed_arrange_scales(file, b);
    return b;
}
