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
typedef float float_lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

/* A part of a block to unpack: tiles of 16 steps, in panels of `width` columns. */
struct unpacked {
    float *to[PACKED_COLUMNS / LANES]; /* of the first step of each half; NULL: not wanted */
    uint64_t width;
    uint32_t first_tile, tiles; /* in the block */
};

/* The zero points of each half of a block. */
struct zeros {
    int_lanes of_half[PACKED_COLUMNS / LANES];
};

static struct zeros zeros_of(const struct packed_layout *layout, const unsigned char *b,
                             uint64_t column, uint64_t group)
{
    const unsigned char *stored = b + layout->zero_offset + group * packed_columns(layout) + column;
    struct zeros zeros = {0};
    for (uint32_t half = 0; half < PACKED_COLUMNS / LANES; half++)
        for (uint32_t i = 0; i < LANES; i++)
            zeros.of_half[half][i] =
                layout->zero + (layout->has_zeros ? stored[half * LANES + i] : 0);
    return zeros;
}

/* Reads the places 8 * t ... 8 * t + 7 of a block, and returns word number w of all eight in
 * words[w]. */
INLINE void read_places(const uint32_t *block, uint32_t t, word_lanes words[4])
{
    word_lanes pairs[4];
    memcpy(pairs, block + 32 * (uint64_t)t, sizeof pairs);
    const word_lanes low = __builtin_shufflevector(pairs[0], pairs[1], 0, 4, 8, 12, 1, 5, 9, 13);
    const word_lanes high = __builtin_shufflevector(pairs[0], pairs[1], 2, 6, 10, 14, 3, 7, 11, 15);
    const word_lanes more_low =
        __builtin_shufflevector(pairs[2], pairs[3], 0, 4, 8, 12, 1, 5, 9, 13);
    const word_lanes more_high =
        __builtin_shufflevector(pairs[2], pairs[3], 2, 6, 10, 14, 3, 7, 11, 15);
    words[0] = __builtin_shufflevector(low, more_low, 0, 1, 2, 3, 8, 9, 10, 11);
    words[1] = __builtin_shufflevector(low, more_low, 4, 5, 6, 7, 12, 13, 14, 15);
    words[2] = __builtin_shufflevector(high, more_high, 0, 1, 2, 3, 8, 9, 10, 11);
    words[3] = __builtin_shufflevector(high, more_high, 4, 5, 6, 7, 12, 13, 14, 15);
}

/* Unpacks one word of eight places: its steps of two columns each. `bits` is a constant. */
INLINE void unpack_word(const word_lanes *word, uint32_t step, const struct zeros *zeros,
                        const struct unpacked *unpacked, const uint32_t bits)
{
    const uint32_t mask = (1u << bits) - 1;
    for (uint32_t i = 0; i < 32 / bits; i++) {
        const uint32_t half = i % 2;
        const uint32_t at = step + (bits == 4 ? i / 4 + 8 * (i / 2 % 2) : i / 2);
        if (unpacked->to[half] == NULL)
            continue;
        const int_lanes q = (int_lanes)(*word >> (bits * i) & mask) - zeros->of_half[half];
        *(float_lanes *)(unpacked->to[half] + at * unpacked->width) =
            __builtin_convertvector(q, float_lanes);
    }
}

INLINE void unpack_block(const uint32_t *block, const struct zeros *zeros,
                         const struct unpacked *unpacked, const uint32_t bits)
{
    const uint32_t words_of_tile = bits / 4;
    for (uint32_t t = 0; t < 4; t++) {
        word_lanes words[4];
        read_places(block, t, words);
        for (uint32_t w = 0; w < 4; w++) {
            const uint32_t tile = w / words_of_tile - unpacked->first_tile; /* wraps */
            if (tile < unpacked->tiles)
                unpack_word(&words[w], tile * 16 + 2 * t + w % words_of_tile * 8, zeros, unpacked,
                            bits);
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
    TARGET static void unpack_##NAME(const uint32_t *block, const struct zeros *zeros,             \
                                     const struct unpacked *unpacked, uint32_t bits)               \
    {                                                                                              \
        if (bits == 4)                                                                             \
            unpack_block(block, zeros, unpacked, 4);                                               \
        else                                                                                       \
            unpack_block(block, zeros, unpacked, 8);                                               \
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
    void (*unpack)(const uint32_t *block, const struct zeros *zeros,
                   const struct unpacked *unpacked, uint32_t bits);
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
                                        .first_tile = (uint32_t)(k % each / 16),
                                        .tiles = (uint32_t)((last - k) / 16)};
            for (uint32_t half = 0; half < PACKED_COLUMNS / LANES; half++) {
                const uint64_t at = start + half * LANES;
                if (at >= column && at < column + width)
                    unpacked.to[half] = panel + (k - first_k) * width + (at - column);
            }
            variant.unpack((const uint32_t *)b + (start / PACKED_COLUMNS * blocks + block) *
                                                     (PACKED_BLOCK_BYTES / sizeof(uint32_t)),
                           &zeros, &unpacked, layout->bits);
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
