/* The arrangement of packed weights in memory: made from the tensors of a file, and turned back. */
#include "proto/packed.h"

#include <string.h>

#include "proto/dtype.h"
#include "proto/size.h"

const char *packed_type(const struct packed_layout *layout)
{
    if (layout->element != PACKED_INTEGER)
        return layout->element == PACKED_F4_E2M1 ? "f4_e2m1" : "f8_e4m3";
    if (layout->bits == 8)
        return layout->has_zeros ? "u8" : "i8";
    return layout->has_zeros ? "u4" : "i4";
}

/* ---- integers in words of 32 bits, as files have them ---- */

/* A matrix of integers by line (a step of k, or a group) and column. A word has as many lines or as
 * many columns as fit. */
struct words {
    unsigned char *data;
    uint32_t bits, mask;
    uint32_t flip;                     /* the sign bit of integers that have one, or 0 */
    uint32_t line_shift, column_shift; /* log2 of the lines and columns in a word */
    uint64_t line_step, column_step;   /* in words, to the next word of lines and of columns */
    const uint8_t *order;              /* [lines or columns in a word]: the place in the word */
};

/* The places of columns in AWQ's words; all others are in ascending order. */
static const uint8_t ascending[] = {0, 1, 2, 3, 4, 5, 6, 7}, of_awq[] = {0, 4, 1, 5, 2, 6, 3, 7};

static struct words words_of(const struct packed_file *file, bool zeros, const void *data)
{
    const struct packed_layout *layout = &file->layout;
    const uint64_t in_word = 32 / layout->bits;
    const uint64_t lines = zeros ? layout->k / layout->group : layout->k;
    const bool by_column = packed_is_by_column(file->format);
    /* compressed-tensors has rows of k and packs zero points along n, GPTQ packs weights along k,
     * and AWQ packs along n. Pairs of weights in bytes, and weights that are bytes, lie as they
     * would in words. */
    const bool along_lines = !zeros && file->format != PACKED_AWQ;
    const uint32_t shift = layout->bits == 4 ? 3 : 2;
    struct words words = {
        .data = (unsigned char *)data,
        .bits = layout->bits,
        .mask = (1u << layout->bits) - 1,
        .flip = file->format == PACKED_INT_QUANTIZED ? 0x80 : 0,
        .line_shift = along_lines ? shift : 0,
        .column_shift = along_lines ? 0 : shift,
        .order = file->format == PACKED_AWQ ? of_awq : ascending,
    };
    const uint64_t line_words = along_lines ? lines / in_word : lines;
    const uint64_t column_words = along_lines ? layout->n : layout->n / in_word;
    words.line_step = by_column ? 1 : column_words;
    words.column_step = by_column ? line_words : 1;
    return words;
}

static inline unsigned char *word_at(const struct words *words, uint64_t line, uint64_t column,
                                     uint32_t *shift)
{
    const uint32_t lines = (1u << words->line_shift) - 1, columns = (1u << words->column_shift) - 1;
    *shift = words->bits * words->order[(line & lines) | (column & columns)];
    return words->data + ((line >> words->line_shift) * words->line_step +
                          (column >> words->column_shift) * words->column_step) *
                             sizeof(uint32_t);
}

static inline uint32_t words_get(const struct words *words, uint64_t line, uint64_t column)
{
    uint32_t word, shift;
    memcpy(&word, word_at(words, line, column, &shift), sizeof word);
    return (word >> shift & words->mask) ^ words->flip;
}

/* Sets an integer that is 0. */
static inline void words_set(const struct words *words, uint64_t line, uint64_t column,
                             uint32_t value)
{
    uint32_t word, shift;
    unsigned char *at = word_at(words, line, column, &shift);
    memcpy(&word, at, sizeof word);
    word |= (value ^ words->flip) << shift;
    memcpy(at, &word, sizeof word);
}

/* ---- blocks ---- */

/* Where a block has the integers of a step: that of column c is in the word `word` + 4 * (c % 8),
 * at the bit `shift` + bits * (c / 8). */
struct step_place {
    uint32_t word, shift;
};

static inline struct step_place step_place_of(uint32_t bits, uint32_t step)
{
    const uint32_t t = step % 8 / 2, odd = step % 2, upper = step % 16 / 8, tile = step / 16;
    return bits == 4 ? (struct step_place){32 * t + tile, 8 * upper + 16 * odd}
                     : (struct step_place){32 * t + 2 * tile + upper, 16 * odd};
}

/* A block of the arrangement, and the part of B that it holds. */
struct block_range {
    uint64_t step, column, steps, columns;
    uint64_t offset;
};

static struct block_range block_range_of(const struct packed_layout *layout, uint64_t across,
                                         uint64_t along)
{
    const uint64_t each = packed_block_steps(layout), blocks = size_blocks(layout->k, each);
    struct block_range range = {
        .step = along * each,
        .column = across * PACKED_COLUMNS,
        .steps = layout->k - along * each,
        .columns = layout->n - across * PACKED_COLUMNS,
        .offset = (across * blocks + along) * PACKED_BLOCK_BYTES,
    };
    range.steps = range.steps < each ? range.steps : each;
    range.columns = range.columns < PACKED_COLUMNS ? range.columns : PACKED_COLUMNS;
    return range;
}

static void block_arrange(const struct packed_layout *layout, const struct words *words,
                          const struct block_range *range, unsigned char *to)
{
    uint32_t block[PACKED_BLOCK_BYTES / sizeof(uint32_t)] = {0};
    for (uint32_t p = 0; p < range->steps; p++) {
        const struct step_place place = step_place_of(layout->bits, p);
        for (uint32_t j = 0; j < range->columns; j++)
            block[place.word + 4 * (j % 8)] |= words_get(words, range->step + p, range->column + j)
                                               << (place.shift + layout->bits * (j / 8));
    }
    memcpy(to + range->offset, block, sizeof block);
}

static void block_restore(const struct packed_layout *layout, const struct words *words,
                          const struct block_range *range, const unsigned char *from)
{
    uint32_t block[PACKED_BLOCK_BYTES / sizeof(uint32_t)];
    memcpy(block, from + range->offset, sizeof block);
    for (uint32_t p = 0; p < range->steps; p++) {
        const struct step_place place = step_place_of(layout->bits, p);
        for (uint32_t j = 0; j < range->columns; j++)
            words_set(words, range->step + p, range->column + j,
                      block[place.word + 4 * (j % 8)] >> (place.shift + layout->bits * (j / 8)) &
                          words->mask);
    }
}

/* ---- stripes ---- */

/* Whether a stripe is a part of the columns, and not of the steps of k. */
static bool stripes_are_columns(const struct packed_file *file)
{
    return packed_is_by_column(file->format);
}

static uint64_t blocks_along(const struct packed_layout *layout)
{
    return size_blocks(layout->k, packed_block_steps(layout));
}

uint64_t packed_stripes(const struct packed_file *file)
{
    return stripes_are_columns(file) ? size_blocks(file->layout.n, PACKED_COLUMNS)
                                     : blocks_along(&file->layout);
}

uint64_t packed_stripes_bytes(const struct packed_file *file, uint64_t stripes)
{
    const struct packed_layout *layout = &file->layout;
    const uint64_t all = file->entries[PACKED_WEIGHTS].tensor.bytes;
    const uint64_t line = (stripes_are_columns(file) ? layout->k : layout->n) * layout->bits / 8;
    const uint64_t lines = stripes_are_columns(file) ? PACKED_COLUMNS : packed_block_steps(layout);
    return stripes >= packed_stripes(file) ? all : stripes * lines * line;
}

static void packed_stripe(const struct packed_file *file, const struct words *words,
                          uint64_t stripe, const void *from, void *to)
{
    const struct packed_layout *layout = &file->layout;
    const bool columns = stripes_are_columns(file);
    const uint64_t blocks = columns ? blocks_along(layout) : size_blocks(layout->n, PACKED_COLUMNS);
    for (uint64_t i = 0; i < blocks; i++) {
        const struct block_range range =
            block_range_of(layout, columns ? stripe : i, columns ? i : stripe);
        if (to != NULL)
            block_arrange(layout, words, &range, to);
        else
            block_restore(layout, words, &range, from);
    }
}

void packed_arrange_stripe(const struct packed_file *file, uint64_t stripe, void *to)
{
    const struct words words = words_of(file, false, file->entries[PACKED_WEIGHTS].tensor.data);
    packed_stripe(file, &words, stripe, NULL, to);
}

void packed_restore_stripe(const struct packed_file *file, uint64_t stripe, const void *from,
                           void *data)
{
    const struct words words = words_of(file, false, data); /* the weights are the first entry */
    const uint64_t start = packed_stripes_bytes(file, stripe);
    memset((unsigned char *)data + start, 0, packed_stripes_bytes(file, stripe + 1) - start);
    packed_stripe(file, &words, stripe, from, NULL);
}

/* ---- scales and zero points ---- */

/* The element of a group and column in the file's scales, and in zero points that are bytes. */
static uint64_t scale_at(const struct packed_file *file, uint64_t group, uint64_t column)
{
    const struct packed_layout *layout = &file->layout;
    return packed_is_by_column(file->format) ? column * (layout->k / layout->group) + group
                                             : group * layout->n + column;
}

/* The bits in bf16 of a scale of e8m0, 2^(bits - 127). */
static uint16_t from_e8m0(uint8_t bits)
{
    return (uint16_t)(bits == 0 ? 0x40u : (uint32_t)bits << 7); /* 2^-127 is subnormal */
}

static uint8_t to_e8m0(uint16_t bits)
{
    return (uint8_t)(bits == 0x40 ? 0u : (uint32_t)bits >> 7);
}

/* The bits in bf16 of a scale of e4m3 that is finite. The exponents of f32 and of bf16 are greater
 * by 120. */
static uint16_t from_e4m3(uint8_t bits)
{
    const uint32_t magnitude = (uint32_t)(bits & 0x7f) << 20;
    float value;
    memcpy(&value, &magnitude, sizeof value);
    value *= 0x1p120f;
    uint32_t wide;
    memcpy(&wide, &value, sizeof wide);
    return (uint16_t)(wide >> 16 | (uint32_t)(bits & 0x80) << 8);
}

static uint8_t to_e4m3(uint16_t bits)
{
    const uint32_t wide = (uint32_t)(bits & 0x7fff) << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    value *= 0x1p-120f;
    uint32_t magnitude;
    memcpy(&magnitude, &value, sizeof magnitude);
    return (uint8_t)(magnitude >> 20 | (bits >> 8 & 0x80));
}

/* Copies a scale from the file to the arrangement. */
static void scale_arrange(const struct packed_file *file, const unsigned char *from,
                          unsigned char *to)
{
    const struct safetensors_entry *scales = &file->entries[PACKED_SCALES];
    const bool is_byte = dtype_size(scales->tensor.dtype) == 1;
    const uint16_t wide = !is_byte                       ? 0
                          : file->format == PACKED_MXFP4 ? from_e8m0(*from)
                                                         : from_e4m3(*from);
    memcpy(to, is_byte ? (const void *)&wide : from, dtype_size(file->layout.scale_dtype));
}

static void scale_restore(const struct packed_file *file, const unsigned char *from,
                          unsigned char *to)
{
    const struct safetensors_entry *scales = &file->entries[PACKED_SCALES];
    if (dtype_size(scales->tensor.dtype) == 1) {
        uint16_t wide;
        memcpy(&wide, from, sizeof wide);
        *to = file->format == PACKED_MXFP4 ? to_e8m0(wide) : to_e4m3(wide);
    } else {
        memcpy(to, from, dtype_size(scales->tensor.dtype));
    }
}

void packed_arrange_scales(const struct packed_file *file, void *to)
{
    const struct packed_layout *layout = &file->layout;
    const uint64_t groups = layout->k / layout->group, columns = packed_columns(layout);
    const uint64_t size = dtype_size(layout->scale_dtype);
    const uint64_t stored = dtype_size(file->entries[PACKED_SCALES].tensor.dtype);
    const struct safetensors_entry *zeros = packed_entry(file, PACKED_ZEROS);
    const struct words words = words_of(file, true, zeros != NULL ? zeros->tensor.data : NULL);
    const unsigned char *from = file->entries[PACKED_SCALES].tensor.data;
    unsigned char *scale = (unsigned char *)to + layout->scale_offset;
    unsigned char *zero = (unsigned char *)to + layout->zero_offset;
    memset(scale, 0, layout->bytes - layout->scale_offset);
    for (uint64_t g = 0; g < groups; g++)
        for (uint64_t j = 0; j < layout->n; j++) {
            scale_arrange(file, from + scale_at(file, g, j) * stored,
                          scale + (g * columns + j) * size);
            if (zeros != NULL && zeros->tensor.dtype == GEMMD_I8)
                zero[g * columns + j] =
                    ((const uint8_t *)zeros->tensor.data)[scale_at(file, g, j)] ^
                    (unsigned char)words.flip;
            else if (zeros != NULL)
                zero[g * columns + j] = (unsigned char)words_get(&words, g, j);
        }
}

static void restore_scales(const struct packed_file *file, const unsigned char *from,
                           unsigned char *to)
{
    const struct packed_layout *layout = &file->layout;
    const uint64_t groups = layout->k / layout->group, columns = packed_columns(layout);
    const uint64_t size = dtype_size(layout->scale_dtype);
    const uint64_t stored = dtype_size(file->entries[PACKED_SCALES].tensor.dtype);
    for (uint64_t g = 0; g < groups; g++)
        for (uint64_t j = 0; j < layout->n; j++)
            scale_restore(file, from + layout->scale_offset + (g * columns + j) * size,
                          to + scale_at(file, g, j) * stored);
}

static void restore_zeros(const struct packed_file *file, const struct safetensors_entry *entry,
                          const unsigned char *from, unsigned char *to)
{
    const struct packed_layout *layout = &file->layout;
    const uint64_t groups = layout->k / layout->group, columns = packed_columns(layout);
    const struct words words = words_of(file, true, to);
    for (uint64_t g = 0; g < groups; g++)
        for (uint64_t j = 0; j < layout->n; j++) {
            const uint8_t zero = from[layout->zero_offset + g * columns + j];
            if (entry->tensor.dtype == GEMMD_I8)
                to[scale_at(file, g, j)] = zero ^ (unsigned char)words.flip;
            else
                words_set(&words, g, j, zero);
        }
}

void packed_restore_others(const struct packed_file *file, const void *from, void *data)
{
    const struct packed_layout *layout = &file->layout;
    unsigned char *to = data;
    for (uint32_t i = 0; i < file->count; i++) {
        const struct safetensors_entry *entry = &file->entries[i];
        const int64_t shape[] = {(int64_t)layout->n, (int64_t)layout->k};
        switch (file->roles[i]) {
        case PACKED_WEIGHTS:
            break;
        case PACKED_SCALES:
            restore_scales(file, from, to);
            break;
        case PACKED_ZEROS:
            memset(to, 0, entry->tensor.bytes);
            restore_zeros(file, entry, from, to);
            break;
        case PACKED_SHAPE:
            memcpy(to, shape, sizeof shape);
            break;
        case PACKED_ORDER:
            for (uint64_t p = 0; p < layout->k; p++) {
                const int32_t group = (int32_t)(p / layout->group);
                memcpy(to + p * sizeof group, &group, sizeof group);
            }
            break;
        case PACKED_FACTOR:
            memcpy(to, &file->factor, sizeof file->factor);
            break;
        }
        to += entry->tensor.bytes;
    }
}
