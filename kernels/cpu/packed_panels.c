/* Packed weights (proto/packed.h) as panels of f32, and the sums of groups times their scales. */
#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/panels.h"
#include "proto/dtype.h"
#include "proto/size.h"

#define INLINE static inline __attribute__((always_inline))

/* Eight columns of a block. */
enum { LANES = 8 };
typedef uint32_t word_lanes __attribute__((vector_size(4 * LANES)));
typedef int32_t int_lanes __attribute__((vector_size(4 * LANES)));
typedef uint32_t word_view __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef float float_lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

enum { HALVES = PACKED_COLUMNS / LANES, TILE = 16, TILES_MAX = 4 };

/* A part of a block to unpack: tiles of 16 steps, in panels of `width` columns. */
struct unpacked {
    float *to[HALVES]; /* of the first step of each half; NULL: not wanted */
    uint64_t width;
    uint32_t first_tile, tiles;              /* in the block */
    float scales[TILES_MAX][PACKED_COLUMNS]; /* of each tile, if the weights are of e2m1 */
};

/* The zero points of each half of a block. */
struct zeros {
    int_lanes of_half[HALVES];
};

/* Fills in the scales of the tiles of the block that begins at step `step`. */
static void scales_find(const struct packed_layout *layout, const unsigned char *b, uint64_t column,
                        uint64_t step, struct unpacked *unpacked)
{
    const uint64_t columns = packed_columns(layout);
    for (uint32_t tile = unpacked->first_tile; tile < unpacked->first_tile + unpacked->tiles;
         tile++) {
        const uint64_t group = (step + (uint64_t)tile * TILE) / layout->group;
        uint16_t scales[PACKED_COLUMNS];
        memcpy(scales, b + layout->scale_offset + (group * columns + column) * sizeof scales[0],
               sizeof scales);
        for (uint32_t j = 0; j < PACKED_COLUMNS; j++)
            unpacked->scales[tile][j] = convert_bits_to_f32((uint32_t)scales[j] << 16);
    }
}

static struct zeros zeros_of(const struct packed_layout *layout, const unsigned char *b,
                             uint64_t column, uint64_t group)
{
    const unsigned char *stored = b + layout->zero_offset + group * packed_columns(layout) + column;
    struct zeros zeros = {{{0}, {0}}};
    if (!layout->has_zeros) {
        for (uint32_t half = 0; half < HALVES; half++)
            zeros.of_half[half] += layout->zero;
        return zeros;
    }
    for (uint32_t half = 0; half < HALVES; half++)
        for (uint32_t i = 0; i < LANES; i++)
            zeros.of_half[half][i] = layout->zero + stored[half * LANES + i];
    return zeros;
}

/* Reads the places 8 * t ... 8 * t + 7 of a block, and returns words 2 * pair and 2 * pair + 1 of
 * all eight in words[0] and words[1]. `pair` is a constant. */
INLINE void read_places(const uint32_t *block, uint32_t t, const uint32_t pair, word_lanes words[2])
{
    /* Copied to an array, the places would go through the stack in parts of vectors. */
    const word_view *at = (const word_view *)(block + 32 * (uint64_t)t);
    const word_lanes places[] = {at[0], at[1], at[2], at[3]};
    const word_lanes upper =
        pair == 0 ? __builtin_shufflevector(places[0], places[1], 0, 4, 8, 12, 1, 5, 9, 13)
                  : __builtin_shufflevector(places[0], places[1], 2, 6, 10, 14, 3, 7, 11, 15);
    const word_lanes lower =
        pair == 0 ? __builtin_shufflevector(places[2], places[3], 0, 4, 8, 12, 1, 5, 9, 13)
                  : __builtin_shufflevector(places[2], places[3], 2, 6, 10, 14, 3, 7, 11, 15);
    words[0] = __builtin_shufflevector(upper, lower, 0, 1, 2, 3, 8, 9, 10, 11);
    words[1] = __builtin_shufflevector(upper, lower, 4, 5, 6, 7, 12, 13, 14, 15);
}

/* The elements of a vector that the lower bits of indices name. */
#ifdef __clang__
#define PERMUTED(table, indices) __builtin_shufflevector(table, indices)
#else
#define PERMUTED(table, indices) __builtin_shuffle(table, indices)
#endif

/* The values of e2m1, in the lower four bits. The bits of a value are those of the magnitude's
 * value in f32 and the sign bit. The table has them with the magnitude in bits 28 to 30, which the
 * shifted number has too. (Products stand for shifts, which gcc 12's analyser counts by the number
 * of lanes.) */
INLINE void from_e2m1(const word_lanes *q, float_lanes *value)
{
#define ENTRY(magnitude, bits) (bits) ^ (magnitude##u << 28)
    const word_lanes table = {ENTRY(0, 0),          ENTRY(1, 0x3f000000), ENTRY(2, 0x3f800000),
                              ENTRY(3, 0x3fc00000), ENTRY(4, 0x40000000), ENTRY(5, 0x40400000),
                              ENTRY(6, 0x40800000), ENTRY(7, 0x40c00000)};
#undef ENTRY
    *value = (float_lanes)(PERMUTED(table, *q) ^ *q * (1u << 28));
}

/* The values of e4m3. Exponents of f32 are greater by 120; magnitudes below 8 are subnormal in
 * e4m3, and multiples of 2^-9. */
INLINE void from_e4m3(const word_lanes *q, float_lanes *value)
{
    const word_lanes bits = *q;
    const word_lanes magnitude = bits & 0x7f, sign = (bits & 0x80) * (1u << 24);
    const float_lanes small = __builtin_convertvector((int_lanes)magnitude, float_lanes) * 0x1p-9f;
    const word_lanes is_small = (word_lanes)(magnitude < 8),
                     is_nan = (word_lanes)(magnitude == 0x7f);
    const word_lanes bits_of_value =
        (is_small & (word_lanes)small) | (~is_small & (magnitude * (1u << 20) + (120u << 23)));
    *value = (float_lanes)(sign | (is_nan & 0x7fc00000u) | (~is_nan & bits_of_value));
}

/* Where a word of eight places goes: the first of its steps, of each half. */
struct destination {
    float *to[HALVES];
    uint64_t width;
};

/* Unpacks one word of eight places: its steps of two columns each. `bits` and `element` are
 * constants. */
INLINE void unpack_word(const word_lanes *word, const struct destination at,
                        const struct zeros *zeros, const float *scales, const uint32_t bits,
                        const enum packed_element element)
{
    const uint32_t mask = (1u << bits) - 1;
    for (uint32_t i = 0; i < 32 / bits; i++) {
        const uint32_t half = i % 2, step = bits == 4 ? i / 4 + 8 * (i / 2 % 2) : i / 2;
        const word_lanes q = *word >> (bits * i);
        float_lanes value;
        if (at.to[half] == NULL)
            continue;
        if (element == PACKED_INTEGER) {
            value =
                __builtin_convertvector((int_lanes)(q & mask) - zeros->of_half[half], float_lanes);
        } else if (element == PACKED_F8_E4M3) {
            from_e4m3(&q, &value);
        } else {
            from_e2m1(&q, &value);
            value *= *(const float_lanes *)(scales + half * LANES);
        }
        *(float_lanes *)(at.to[half] + step * at.width) = value;
    }
}

INLINE void unpack_block(const uint32_t *block, const struct zeros *zeros,
                         const struct unpacked *unpacked, const uint32_t bits,
                         const enum packed_element element)
{
    const uint32_t words_of_tile = bits / 4;
    const uint64_t width = unpacked->width;
    float *const to[HALVES] = {unpacked->to[0], unpacked->to[1]};
    for (uint32_t t = 0; t < 4; t++)
        for (uint32_t pair = 0; pair < 2; pair++) {
            const uint32_t first = 2 * pair / words_of_tile - unpacked->first_tile; /* wraps */
            const uint32_t last = (2 * pair + 1) / words_of_tile - unpacked->first_tile;
            word_lanes words[2];
            if (first >= unpacked->tiles && last >= unpacked->tiles)
                continue;
            if (pair == 0)
                read_places(block, t, 0, words);
            else
                read_places(block, t, 1, words);
            for (uint32_t i = 0; i < 2; i++) {
                const uint32_t w = 2 * pair + i, tile = i == 0 ? first : last;
                const uint64_t step = tile * TILE + 2 * t + w % words_of_tile * 8;
                const struct destination at = {{to[0] != NULL ? to[0] + step * width : NULL,
                                                to[1] != NULL ? to[1] + step * width : NULL},
                                               width};
                if (tile < unpacked->tiles)
                    unpack_word(&words[i], at, zeros, unpacked->scales[w / words_of_tile], bits,
                                element);
            }
        }
}

/* Adds one row's sums of a group times the scales. */
INLINE void add_row(const float *part, const float *scales, float *sums, uint64_t columns)
{
    for (uint64_t j = 0; j < columns; j++)
        sums[j] += part[j] * scales[j];
}

#define VARIANT(NAME, TARGET)                                                                      \
    TARGET static void unpack_##NAME(const struct packed_layout *layout, const uint32_t *block,    \
                                     const struct zeros *zeros, const struct unpacked *unpacked)   \
    {                                                                                              \
        if (layout->element == PACKED_F4_E2M1)                                                     \
            unpack_block(block, zeros, unpacked, 4, PACKED_F4_E2M1);                               \
        else if (layout->element == PACKED_F8_E4M3)                                                \
            unpack_block(block, zeros, unpacked, 8, PACKED_F8_E4M3);                               \
        else if (layout->bits == 4)                                                                \
            unpack_block(block, zeros, unpacked, 4, PACKED_INTEGER);                               \
        else                                                                                       \
            unpack_block(block, zeros, unpacked, 8, PACKED_INTEGER);                               \
    }                                                                                              \
    TARGET static void add_row_##NAME(const float *part, const float *scales, float *sums,         \
                                      uint64_t columns)                                            \
    {                                                                                              \
        add_row(part, scales, sums, columns);                                                      \
    }
VARIANT(base, )
#ifdef __x86_64__
VARIANT(avx2, __attribute__((target("avx2,fma"))))
#endif

struct variant {
    void (*unpack)(const struct packed_layout *layout, const uint32_t *block,
                   const struct zeros *zeros, const struct unpacked *unpacked);
    void (*add_row)(const float *part, const float *scales, float *sums, uint64_t columns);
};

static struct variant variant_of_processor(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return (struct variant){unpack_avx2, add_row_avx2};
#endif
    return (struct variant){unpack_base, add_row_base};
}

void panels_unpack(const struct packed_layout *layout, const void *b, uint64_t column,
                   uint64_t first_k, uint64_t depth, uint64_t width, float *panel)
{
    const struct variant variant = variant_of_processor();
    const uint64_t each = packed_block_steps(layout), end = first_k + depth;
    const uint64_t blocks = size_blocks(layout->k, each), group = first_k / layout->group;
    for (uint64_t j = 0; j < width; j += PACKED_COLUMNS) {
        const uint64_t start = (column + j) / PACKED_COLUMNS * PACKED_COLUMNS;
        if (start >= layout->n) {
            for (uint64_t p = 0; p < depth; p++)
                memset(panel + p * width + j, 0, (width - j) * sizeof *panel);
            return;
        }
        const struct zeros zeros = zeros_of(layout, b, start, group);
        for (uint64_t k = first_k; k < end;) {
            const uint64_t block = k / each;
            const uint64_t last = (block + 1) * each < end ? (block + 1) * each : end;
            struct unpacked unpacked = {.width = width,
                                        .first_tile = (uint32_t)(k % each / TILE),
                                        .tiles = (uint32_t)((last - k) / TILE)};
            if (layout->element == PACKED_F4_E2M1)
                scales_find(layout, b, start, block * each, &unpacked);
            for (uint32_t half = 0; half < HALVES; half++) {
                const uint64_t at = start + half * LANES;
                if (at >= column && at < column + width)
                    unpacked.to[half] = panel + (k - first_k) * width + (at - column);
            }
            variant.unpack(layout,
                           (const uint32_t *)b + (start / PACKED_COLUMNS * blocks + block) *
                                                     (PACKED_BLOCK_BYTES / sizeof(uint32_t)),
                           &zeros, &unpacked);
            k = last;
        }
    }
}

void panels_add_group(const struct packed_layout *layout, const void *b, uint64_t group,
                      uint64_t column, uint64_t columns, uint64_t rows, const float *part,
                      float *sums, uint64_t ld)
{
    const struct variant variant = variant_of_processor();
    const uint64_t size = dtype_size(layout->scale_dtype);
    const uint64_t at = group * packed_columns(layout) + column;
    float scales[PANELS_EXTENT_MAX];
    const float *wide = convert_widened(
        layout->scale_dtype, (const char *)b + layout->scale_offset + at * size, scales, columns);
    for (uint64_t i = 0; i < rows; i++)
        variant.add_row(part + i * ld, wide, sums + i * ld, columns);
}
